"""Native guards: the checker itself, what it can tell apart, hostile objects, references, and when it is used."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import firesteel as fs
from firesteel import config
from firesteel.capture.native_guards import upgrade as upgrade_module
from firesteel.native import checker as checker_module
from firesteel.native import objects
from firesteel.native.checker import checker, self_test
from firesteel.native.objects import NativeUnavailable, builtin_parts
from firesteel.native.program import Op, Program
from firesteel.native.tensors import tensor_layout
from firesteel.runtime.explain_miss import first_failure
from firesteel.torch_compat.thread_state import ask, native_questions

pytestmark = pytest.mark.usefixtures("quick_collections")

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def from_the_first_call():
    with config.patch(native_guards="always"):
        yield


def upgrades(compiled):
    """The upgrades of all entries of a compiled function or module, newest entry last."""
    unit = getattr(compiled, "_firesteel_unit", None)
    compiler = unit.compiler if unit is not None else type(compiled)._firesteel_compiler
    return [entry.upgrade for units in compiler.units.values() for unit in units for entry in unit.entries]


class Block(torch.nn.Module):
    def __init__(self, depth=12):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(depth))
        self.scale = 2.0
        self.label = "sum"

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.sum() * self.scale if self.label == "sum" else x


def test_the_checker_passes_its_own_test_and_is_made_once():
    self_test(checker())
    assert checker() is checker()
    assert checker().tensors is not None and checker().tensors.autograd is not None


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_it_is_the_same_in_any_mode(mode):
    with mode():
        found = tensor_layout()
    assert found is not None and found == checker().tensors


def test_wrong_offsets_are_noticed(monkeypatch):
    monkeypatch.setattr(objects, "SIZE", 24)
    with pytest.raises(NativeUnavailable, match="laid out"):
        objects.check_layout()


def test_a_wrong_checker_is_noticed(monkeypatch):
    # the test of the checker must be able to fail: a row that checks nothing in place of one that checks the type
    original, made = Program.check, checker()
    monkeypatch.setattr(Program, "check", lambda self, op, *rest, **named: original(
        self, Op.SAME if op is Op.TYPE else op, 0) if op is Op.TYPE else original(self, op, *rest, **named))
    with pytest.raises(NativeUnavailable, match="sample [0-9]+ accepted"):
        self_test(made)


def test_all_guards_of_a_small_function_are_native():
    def f(x, y):
        return x + y

    c = fs.compile(f, backend="eager")
    x, y = torch.ones(2), torch.ones(2)
    assert torch.equal(c(x, y), f(x, y))
    (made,) = upgrades(c)
    assert made.native is not None and made.kept_in_python == []
    assert made.native(x, y) == ()
    assert torch.equal(c(x, y), f(x, y)) and made.native(x, x) is None


def test_all_guards_of_a_module_are_native():
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(c(x), m(x))
    (made,) = upgrades(c)
    assert made.native is not None
    assert made.kept_in_python == []
    assert "*_fs_inputs" in made.text


@pytest.mark.parametrize("other_keys_stay", [True, False])
def test_guards_on_dictionaries_with_other_keys_than_strings_stay_in_python(other_keys_stay):
    table = {"all": 2.0, 0: 1.0}
    if not other_keys_stay:
        del table[0]  # it is laid out for any keys from then on

    def f(x):
        return x * table["all"] if "none" not in table else x

    c = fs.compile(f, backend="eager")
    x = torch.ones(2)
    for number in (2.0, 3.0):
        table["all"] = number
        for _ in range(3):
            assert torch.equal(c(x), f(x))
    for made in upgrades(c):
        assert made.native is not None and made.kept_in_python
    table["none"] = 1
    assert torch.equal(c(x), x)


def test_another_thread_changes_what_guards_read_while_the_checker_is_made(monkeypatch):
    held = [1, 2]

    def f(x):
        return x * len(held)

    original = upgrade_module.split

    def split(*args):
        found = original(*args)
        if len(held) == 2:
            held.append(3)
        return found

    monkeypatch.setattr(upgrade_module, "split", split)
    c = fs.compile(f, backend="eager")
    x = torch.ones(2)
    assert torch.equal(c(x), x * 2)
    (made,) = upgrades(c)
    assert made.native is None
    monkeypatch.undo()
    held.pop()
    for _ in range(upgrade_module.AGAIN):
        assert torch.equal(c(x), x * 2)
    assert made.native is not None


def make(kind, **options):
    with torch.no_grad():
        base = torch.ones(4, 4, **options)
    return {
        "plain": lambda: base, "smaller": lambda: base[:2].clone(), "one more": lambda: base[None].clone(),
        "strided": lambda: base.t(), "double": lambda: base.double(), "int": lambda: base.int(),
        "half": lambda: base.half(), "bfloat16": lambda: base.bfloat16(), "grad": lambda: base.clone().requires_grad_(),
        "not a leaf": lambda: base.clone().requires_grad_() * 1, "meta": lambda: base.to("meta"),
        "sparse": lambda: base.to_sparse(), "complex": lambda: base.to(torch.complex64),
        "conj": lambda: base.to(torch.complex64).conj(), "neg": lambda: base.to(torch.complex64).conj().imag,
        "parameter": lambda: torch.nn.Parameter(base),
        "frozen parameter": lambda: torch.nn.Parameter(base, requires_grad=False), "none": lambda: None,
        "number": lambda: 1, "list": lambda: [base], "subclass": lambda: base.as_subclass(Labelled),
        "stride of a single row": lambda: base.as_strided((1, 4), (9, 1)), "one row": lambda: base[:1].clone(),
        "inference": lambda: inference(base), "empty": lambda: base[:0], "scalar": lambda: base.sum(),
    }[kind]()


def inference(base):
    with torch.inference_mode():
        return base.clone()


class Labelled(torch.Tensor):
    pass


KINDS = ["plain", "smaller", "one more", "strided", "double", "int", "half", "bfloat16", "grad", "not a leaf", "meta",
         "complex", "parameter", "frozen parameter", "stride of a single row", "one row", "inference", "empty",
         "scalar"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_is_told_from_every_other(kind):
    def f(x):
        return x.abs() if x.is_floating_point() or x.is_complex() else x + 1

    c = fs.compile(f, backend="eager")
    first = make(kind)
    c(first)
    unit = c._firesteel_unit
    (entry,) = unit.entries
    native = entry.upgrade.native
    assert native is not None and entry.upgrade.kept_in_python == []
    assert native(first) is not None and native(make(kind)) is not None
    for other in [*KINDS, "conj", "neg", "none", "number", "list", "subclass", "sparse"]:
        value = make(other)
        # the guards as Python are the measure: native code accepts exactly what they accept
        accepted = first_failure(entry, unit, (value,)) is None
        assert (native(value) is not None) == accepted == (other == kind), (kind, other)


def test_metadata_changed_in_place():
    m, x = Block(2), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    c(x)
    made = upgrades(c)[0]
    weight = m.layers[0].weight
    assert made.native(m, x) is not None
    weight.requires_grad_(False)
    assert made.native(m, x) is None
    weight.requires_grad_(True)
    assert made.native(m, x) is not None
    data = weight.data
    weight.data = torch.ones(3, 3).t().contiguous().t()
    assert made.native(m, x) is None
    weight.data = data
    assert made.native(m, x) is not None
    with torch.no_grad():
        x.resize_(3, 3)
    assert made.native(m, x) is None


def test_a_view_whose_base_gained_history_is_no_leaf():
    base = torch.ones(4)
    view = base.view(2, 2)
    view.requires_grad_()

    def f(x):
        return x.is_leaf, x * 2

    c = fs.compile(f, backend="eager")
    assert c(view)[0] is True
    with torch.no_grad():
        other = torch.ones(4)
    v = other.view(2, 2)
    other.mul_(torch.ones(4, requires_grad=True))
    assert v.requires_grad and not v.is_leaf
    assert c(v)[0] is False


@pytest.mark.parametrize("change", [
    lambda m: m.layers[3].register_forward_hook(lambda *a: None),
    lambda m: setattr(m, "scale", 3.0), lambda m: setattr(m, "scale", -0.0), lambda m: setattr(m, "scale", 2),
    lambda m: setattr(m, "scale", True), lambda m: setattr(m, "label", "none"),
    lambda m: m.layers.append(torch.nn.Linear(3, 3)),
    lambda m: setattr(m.layers[1], "forward", lambda x: x + 1), lambda m: m.layers[1].__dict__.pop("bias", None),
    lambda m: setattr(m.layers[1], "bias", None), lambda m: m.layers.__setitem__(2, torch.nn.Identity()),
    lambda m: m.layers[0].__dict__.update({5: "a key that is no string"}),
    lambda m: setattr(m.layers[4], "weight", torch.nn.Parameter(torch.ones(3, 3).t())),
    lambda m: m.layers[0].__setattr__("__dict__", dict(m.layers[0].__dict__)),
])
def test_changes_of_a_module_are_seen(change):
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    torch.testing.assert_close(c(x), m(x))
    assert upgrades(c)[0].native is not None
    change(m)
    for _ in range(3):
        torch.testing.assert_close(c(x), m(x))


@pytest.mark.parametrize("change", ["method", "base", "added", "special"])
def test_changes_of_a_class_are_seen(change):
    class Base(torch.nn.Module):
        def forward(self, x):
            return self.inner(x) * 2

        def inner(self, x):
            return x + 1

    class Derived(Base):
        pass

    m, x = Derived(), torch.ones(2)
    c = fs.compile(m, backend="eager")
    torch.testing.assert_close(c(x), m(x))
    if change == "method":
        Base.inner = lambda self, x: x + 5
    elif change == "base":
        Derived.__bases__ = (type("Other", (torch.nn.Module,), {"forward": lambda self, x: x * 7}),)
    elif change == "added":
        Derived.inner = lambda self, x: x + 6
    else:
        Derived.__call__ = lambda self, x: x * 9
    for _ in range(2):
        torch.testing.assert_close(c(x), m(x))


def test_hostile_keys_run_no_python_inside_the_checker():
    ran, armed = [], False

    class Evil:
        def __init__(self, name):
            self.name = name

        def __hash__(self):
            return hash(self.name)

        def __eq__(self, other):
            if armed:
                ran.append(other)
                holder.__dict__.clear()
                gc.collect()
            return False

    class Holder:
        pass

    holder = Holder()
    holder.weight = torch.ones(3)

    def f(h, x):
        return x + h.weight

    c = fs.compile(f, backend="eager")
    x = torch.ones(3)
    c(holder, x)
    made = upgrades(c)[0]
    assert made.native(holder, x) is not None
    holder.__dict__.pop("weight")
    holder.__dict__[Evil("weight")] = 1
    holder.__dict__["weight"] = torch.ones(3)
    armed = True
    assert made.native(holder, x) is None and not ran
    armed = False
    torch.testing.assert_close(c(holder, x), f(holder, x))


def test_objects_of_other_kinds_in_every_place():
    class Holder:
        pass

    def f(h, items, x):
        return x + h.a["key"][1] + items[0] + len(items)

    def fresh():
        holder = Holder()
        holder.a = {"key": (1, 2.5)}
        return holder, [3, "text"], torch.ones(3)

    c = fs.compile(f, backend="eager")
    args = fresh()
    torch.testing.assert_close(c(*args), f(*args))
    made = upgrades(c)[0]
    assert made.native(*args) is not None
    junk = [None, 1, "a", (), [], {}, object(), torch.ones(1), Holder(), Holder, f, type, 1 << 80, float("nan"), {1}]
    for position in range(3):
        for value in junk:
            changed = list(args)
            changed[position] = value
            assert made.native(*changed) is None
    for value in junk:
        args[0].a = value
        assert made.native(*args) is None
        args[0].a = {"key": value}
        assert made.native(*args) is None
        args[0].a = {"key": (1, value)}
        assert made.native(*args) is None
    del args[0].a
    assert made.native(*args) is None
    assert made.native() is None and made.native(*args, 1) is None
    assert sys.exc_info() == (None, None, None)


def test_closures_and_globals():
    factor = 2.0
    bias = torch.ones(3)

    def f(x):
        return x * factor + bias

    c = fs.compile(f, backend="eager")
    x = torch.ones(3)
    torch.testing.assert_close(c(x), f(x))
    made = upgrades(c)[0]
    assert made.native is not None and made.kept_in_python == []
    factor = 3.0
    torch.testing.assert_close(c(x), f(x))
    bias = torch.ones(3, dtype=torch.float64)
    torch.testing.assert_close(c(x), f(x))
    assert len(upgrades(c)) >= 2


def test_global_state_is_part_of_it():
    def f(x):
        return x @ x

    c = fs.compile(f, backend="eager")
    x = torch.ones(3, 3)
    c(x)
    made = upgrades(c)[0]
    assert made.native(x) is not None and made.kept_in_python == []
    with torch.no_grad():
        assert made.native(x) is None
    with torch.inference_mode():
        assert made.native(x) is None
    with torch.autocast("cpu"):
        assert made.native(x) is None
    with torch.device("meta"):
        assert made.native(x) is None
    torch.set_default_dtype(torch.float64)
    try:
        assert made.native(x) is None
    finally:
        torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        assert made.native(x) is None
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.func.vmap(lambda y: y if made.native(x) is None else None)(x) is not None
    assert made.native(x) is not None


def test_no_python_of_function_modes_runs():
    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def f(x):
        return x * 2

    seen, x = [], torch.ones(4, requires_grad=True).view(2, 2)
    c = fs.compile(f, backend="eager")
    c(x)
    native = upgrades(c)[0].native
    assert native(x) is not None
    with Watch():
        assert native(x) is None
    assert seen == []


def test_no_references_are_lost_or_kept():
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    c(x)
    native = upgrades(c)[0].native
    weight, table = m.layers[0].weight, m.layers[0].__dict__
    watched = [weight, table, x, m, None, True, False, torch.nn.Linear, torch.float32, native]

    def counts():
        return [sys.getrefcount(obj) for obj in watched]

    wrong = torch.ones(3, 3)
    native(m, x), native(m, wrong)
    gc.collect()
    tracemalloc.start()
    try:
        before, size = counts(), tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            native(m, x)
            native(m, wrong)
            native(wrong, m)
        after, grown = counts(), tracemalloc.get_traced_memory()[0] - size
    finally:
        tracemalloc.stop()
    assert [b - a for a, b in zip(before, after)] == [0] * len(watched)
    assert grown < 10_000


def test_loaded_objects_survive_what_they_were_loaded_from():
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    c(x)
    native = upgrades(c)[0].native
    found = native(m, x)
    values = [value.sum().item() for value in found]
    del m, c
    gc.collect()
    assert [value.sum().item() for value in found] == values


def test_classes_are_not_kept_alive():
    import weakref

    def build():
        class Local:
            def __init__(self):
                self.weight = torch.ones(3)

        return Local()

    def f(h, x):
        return x + h.weight

    holder, x = build(), torch.ones(3)
    c = fs.compile(f, backend="eager")
    c(holder, x)
    made = upgrades(c)[0]
    assert made.native(holder, x) is not None
    alive = weakref.ref(type(holder))
    del holder
    gc.collect()
    assert alive() is None
    assert made.native(build(), x) is None


@pytest.mark.parametrize("setting, expected", [("auto", 50), ("always", 1), ("never", None)])
def test_when_an_entry_is_upgraded(setting, expected):
    x = torch.ones(2, 3)
    with config.patch(native_guards=setting):
        for function in (lambda a: a + 1, Block()):
            function = fs.compile(function, backend="eager")
            upgraded_at = None
            for call in range(1, 60):
                function(x)
                made = upgrades(function)[0]
                if made is not None and made.native is not None and upgraded_at is None:
                    upgraded_at = call
            assert upgraded_at == expected


def test_the_setting_is_checked(monkeypatch):
    with pytest.raises(ValueError, match="native_guards is one of 'auto', 'always', 'never', got 'perhaps'"):
        config.native_guards = "perhaps"
    before = config.native_guards
    with pytest.warns(UserWarning, match="FIRESTEEL_NATIVE_GUARDS='perhaps' must be one of auto, always, never"):
        config._read_environment({"FIRESTEEL_NATIVE_GUARDS": "perhaps"})
    assert config.native_guards == before
    config._read_environment({"FIRESTEEL_NATIVE_GUARDS": "never"})
    assert config.native_guards == "never"


def test_the_module_that_makes_native_code_is_not_loaded_for_a_few_calls():
    program = ("import sys, torch, firesteel as fs\n"
               "f = fs.compile(lambda x: x + 1, backend='eager')\n"
               "for _ in range(4): f(torch.ones(2))\n"
               "print('llvmlite' in sys.modules)\n")
    environment = {key: value for key, value in os.environ.items() if key != "FIRESTEEL_NATIVE_GUARDS"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "False", done.stderr


def test_without_native_code_everything_stays_python(monkeypatch):
    monkeypatch.setattr(checker_module, "_checker", NativeUnavailable("not today"))
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    for _ in range(3):
        torch.testing.assert_close(c(x), m(x))
    (made,) = upgrades(c)
    assert made.native is None
    m.scale = 5.0
    torch.testing.assert_close(c(x), m(x))


def test_an_entry_returns_to_python_when_the_checker_keeps_refusing():
    m, x = Block(2), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    c(x)
    (made,) = upgrades(c)
    m.__dict__[1] = "makes the dictionary one with general keys"
    for _ in range(upgrade_module.REFUSALS + 1):
        torch.testing.assert_close(c(x), m(x))
    assert len(upgrades(c)) == 1
    assert made.function.__code__ is made._python and made.namespace["_fs_warm"] is None
    torch.testing.assert_close(c(x), m(x))


def test_errors_keep_the_users_traceback():
    def f(x):
        y = x + 1
        raise ValueError(y.sum().item())

    c = fs.compile(f, backend="eager")
    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            c(torch.ones(2))
        names = [entry.name for entry in caught.traceback]
        assert names[-1] == "f" and str(caught.value) == "4.0"


def test_threads():
    m, x = Block(), torch.ones(2, 3)
    with config.patch(native_guards="auto"):
        c = fs.compile(m, backend="eager")
        expected, failed = m(x), []

        def work():
            for _ in range(30):
                if not torch.equal(c(x), expected):
                    failed.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert any(made.native is not None for made in upgrades(c))


def test_builtins_that_take_arguments_are_refused():
    for other in (len, sys.exit, lambda: 1, int, [].append):
        with pytest.raises(ValueError):
            builtin_parts(other)


def test_guards_hold_natively():
    """The tests of the guards, with every entry's guards native from its first call."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/capture/test_guards.py"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "FIRESTEEL_NATIVE_GUARDS": "always"},
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


class PassThrough(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("change", [
    torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), lambda: torch.device("cpu"), PassThrough,
])
def test_torchs_libraries_answer_as_python_does(change):
    """In every state that an entry's guards ask about, machine code learns what Python says; and entries heed it."""
    questions = native_questions()
    assert len(questions) == 5
    compiled = fs.compile(lambda x: x + 1, backend="eager")
    x = torch.ones(2)
    compiled(x)
    assert all(upgrade.native is not None and not upgrade.kept_in_python for upgrade in upgrades(compiled))
    outside = [question() for question in questions]
    with change():
        inside = [question() for question in questions]
        assert [native.result(answer) for native, answer in zip(questions.values(), inside, strict=True)] == [
            ask(native) for native in questions.values()]
        compiled(x)
    if inside != outside:
        assert len(upgrades(compiled)) == 2 or change is PassThrough
    assert [native.result(answer) for native, answer in zip(questions.values(), outside, strict=True)] == [
        ask(native) for native in questions.values()]


def test_guards_are_compiled_once():
    """The upgraded entry calls the one that it was where the checker refuses, and has no guards in Python itself."""
    m, x = Block(), torch.ones(2, 3)
    c = fs.compile(m, backend="eager")
    torch.testing.assert_close(c(x), m(x))
    (made,) = upgrades(c)
    assert made.native is not None and made.text.count("if not (") == 0 and "return _fs_python(" in made.text
    other = torch.ones(4, 3)
    torch.testing.assert_close(c(other), m(other))
    torch.testing.assert_close(c(x), m(x))
