"""Guards on shared memory: which captures have them, that the native checker holds them, and what they tell apart."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from capture.native_guards.test_native_guards import upgrades
from firesteel import config


@pytest.fixture(autouse=True)
def from_the_first_call():
    with config.patch(native_guards="always"):
        yield


class Norms(torch.nn.Module):
    def __init__(self, count=12):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(3) for _ in range(count))

    def forward(self, x):
        for norm in self.norms:
            x = norm(x)
        return x


def kinds(compiled):
    unit = getattr(compiled, "_firesteel_unit", None)
    compiler = unit.compiler if unit is not None else type(compiled)._firesteel_compiler
    return [[guard.kind for guard in entry.guards]
            for units in compiler.units.values() for unit in units for entry in unit.entries]


def test_captures_that_only_read_ask_nothing_of_memory():
    model = Norms().eval()
    compiled = fs.compile(model, backend="eager")
    compiled(torch.randn(4, 3))
    with torch.inference_mode():
        compiled(torch.randn(4, 3))
    assert not any({"shared memory", "distinct objects"} & set(each) for each in kinds(compiled))


def test_memory_of_many_tensors_is_compared_natively():
    model = Norms()
    compiled, x = fs.compile(model, backend="eager"), torch.randn(4, 3)
    for _ in range(3):
        compiled(x)
    (upgrade,) = upgrades(compiled)
    (entry,) = kinds(compiled)
    assert entry.count("shared memory") == 1 and upgrade.native is not None and not upgrade.kept_in_python
    assert upgrade.native(model, x) is not None
    model.norms[3].running_mean.data = model.norms[7].running_var.data
    assert upgrade.native(model, x) is None
    model.norms[3].running_mean = torch.zeros(3)
    assert upgrade.native(model, x) is not None
    model.norms[3].weight.data = model.norms[4].weight.data  # neither is written to
    assert upgrade.native(model, x) is not None
    model.norms[3].weight.data = model.norms[4].running_mean
    assert upgrade.native(model, x) is None


def test_memory_that_was_shared_is_shared_again():
    def fn(a, b, c):
        a.add_(1)
        return b * 2 + c

    compiled, base = fs.compile(fn, backend="eager"), torch.zeros(9)
    for _ in range(2):
        compiled(base[:3], base[3:6], torch.ones(3))
    (upgrade,) = upgrades(compiled)
    assert not upgrade.kept_in_python
    other = torch.zeros(9)
    assert upgrade.native(other[:3], other[6:], torch.ones(3)) is not None
    assert upgrade.native(other[:3], torch.ones(3), torch.ones(3)) is None
    assert upgrade.native(other[:3], other[3:6], other[6:]) is None


def test_many_arguments_are_told_apart_natively():
    def fn(items):
        return torch.stack(items).sum()

    items = [torch.ones(2) for _ in range(40)]
    compiled = fs.compile(fn, backend="eager")
    for _ in range(2):
        compiled(items)
    (upgrade,) = upgrades(compiled)
    assert not upgrade.kept_in_python and upgrade.native(items) is not None
    assert upgrade.native([*items[:-1], items[0]]) is None


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_writes_past_the_count_of_changes(backend):
    def fn(a, b):
        a.data.add_(1)
        return b * 2

    def unseen(a, b):
        with torch.inference_mode():
            return fs.compile(fn, backend=backend)(a, b)

    base = torch.zeros(4)
    for call in (fs.compile(fn, backend=backend), unseen):
        call(torch.ones(2), torch.ones(2))
        base.zero_()
        assert call(base[:2], base[1:3]).tolist() == [2.0, 0.0]
