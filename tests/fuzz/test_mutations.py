"""Compiled code notices changes of what programs read, and the machine that looks for stale results works."""

from __future__ import annotations

from typing import Any

import pytest

from firesteel.capture.guards import GuardSet

from .mutations import Change, check_guards, find_changes, first_difference
from .parts import parts
from .program import Program

SAMPLE = (("changes", range(5)), ("language", range(40, 41)))


READER = Program(
    -1,
    """
import enum
import torch
SCALE = 2
class Color(enum.Enum):
    RED = 2
class Thing:
    factor = 2
    def __init__(self):
        self.shift = 1
    def apply(self, t, extra=1.0, *, more=2):
        return torch.sin(t) * 3 * self.factor + self.shift * extra * more
def make():
    thing = Thing()
    table = {'a': [1, 2]}
    net = torch.nn.Linear(3, 3)
    def fn(x):
        if table['a'][1] > 5:
            return x
        return net(thing.apply(x) * SCALE).tanh() + len(table['a']) * abs(Color.RED.value)
    calls = [((torch.ones(2, 3),), {})]
    def before(index):
        pass
    def observe():
        return {}
    return fn, calls, before, observe
""",
)


def test_everything_that_a_program_reads_is_found() -> None:
    found = [change.text for change in find_changes(READER, 1000)]
    for place in (
        "SCALE: int", "Color.RED._value_: int", "torch.sin", "Tensor.tanh",
        "nn.Module.__call__", "Linear", "no_grad", "dispatch mode", "mkldnn.enabled", "abs", "Tensor.__mul__",
        "call 0 0: dtype of a tensor", "call 0 0: strides of a tensor", "call 0 0: contents of a tensor",
    ):
        assert place in found, place
    for part in (".factor: int", ".apply: function", ".shift: int", "['a'][1]: int",
                 "['a']: items of a container", "<default 0>: float",
                 "<keyword default more>: int", "_parameters['weight']: shape of a tensor", "training mode",
                 "forward hook", "code of a function", "class of an object", "special method added __bool__"):
        assert any(part in text for text in found), part


def test_no_stale_results() -> None:
    stale = check_guards(READER, 40).stale
    assert not stale, stale


@pytest.mark.parametrize(("part", "seeds"), SAMPLE)
def test_sample(part: str, seeds: range) -> None:
    for seed in seeds:
        checked = check_guards(parts()[part](seed), 20)
        assert checked.changes
        assert not checked.stale, f"{part} {seed}: {checked.stale}"


MISSING = {
    "int": "constant", "code of a function": "function code", "items of a container": "length",
    "special method added": "class", "forward hook": "hooks",
}


@pytest.mark.parametrize("kind", MISSING)
def test_a_missing_guard_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out one kind of guard, and changes of what it is for must show."""
    original = GuardSet.add

    def forgetful(self: GuardSet, guard: Any) -> None:
        if guard.kind != MISSING[kind]:
            original(self, guard)

    changes = [change for change in find_changes(READER, 1000) if change.kind == kind]
    assert first_difference(READER, changes, None) is None
    monkeypatch.setattr(GuardSet, "add", forgetful)
    assert first_difference(READER, changes, None) is not None


def test_a_program_that_does_not_change_has_no_changes_to_its_globals() -> None:
    plain = Program(-2, "def make():\n    return lambda x: x, [((1,), {})], lambda index: None, lambda: {}\n")
    texts = [change.text for change in find_changes(plain, 1000)]
    assert "call 0 0: int" in texts
    assert all(isinstance(change, Change) for change in find_changes(plain, 3)) and len(find_changes(plain, 3)) == 3
