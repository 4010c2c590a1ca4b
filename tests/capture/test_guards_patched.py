"""Guards on what programs rely on without naming it: torch's own methods, modes, flags, modules in `sys.modules`."""

from __future__ import annotations

import abc
import contextlib
import enum
import math
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import firesteel as fs
from capture.guard_probe import outcome, same

X = torch.linspace(-1, 1, 12).reshape(3, 4)
BACKENDS = ("eager", "native")


@contextlib.contextmanager
def patched(holder: Any, name: str, value: Any) -> Iterator[None]:
    own = vars(holder)
    had, old = name in own, own.get(name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, old) if had else delattr(holder, name)


def check(function: Callable[..., Any], change: Callable[[], Any], *args: Any, backend: str = "eager") -> None:
    """The function compiled and plain: before a change, while it is in force, twice, and afterwards."""
    compiled = fs.compile(function, backend=backend)
    args = args or (X,)

    def compare(where: str) -> Any:
        fresh = [[arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args] for _ in range(2)]
        expected, actual = outcome(function, fresh[0], {}), outcome(compiled, fresh[1], {})
        return where, expected, actual

    seen = [compare("before"), compare("before")]
    with change():
        seen += [compare("changed"), compare("changed")]
    seen += [compare("after"), compare("after")]
    for where, expected, actual in seen:
        assert same(expected, actual), f"{where}: expected {expected}, got {actual}"
    assert not same(seen[0][1], seen[2][1]), "the change changes nothing"


METHODS: dict[str, tuple[Callable[[torch.Tensor], Any], str, Any]] = {
    "method": (lambda x: x.sin(), "sin", lambda self: torch.cos(self)),
    "operator": (lambda x: x + 1, "__add__", lambda self, other: torch.sub(self, other)),
    "operator in Python": (lambda x: 2 - x, "__rsub__", lambda self, other: torch.neg(self)),
    "method in Python": (lambda x: x.split(1)[0], "split", lambda self, size: (torch.neg(self),)),
    "len": (lambda x: len(x), "__len__", lambda self: 7),
    "attribute": (lambda x: x.shape[0], "shape", property(lambda self: (7,))),
    "size": (lambda x: x.size(0), "size", lambda self, dim: 7),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", METHODS)
def test_methods_of_tensor(kind: str, backend: str) -> None:
    function, name, other = METHODS[kind]
    check(function, lambda: patched(torch.Tensor, name, other), backend=backend)


SUBSCRIPT = """
import torch, firesteel as fs
compiled = fs.compile(lambda x: x[0], backend="eager")
x = torch.linspace(-1, 1, 12).reshape(3, 4)
assert torch.equal(compiled(x), x[0])
real = torch.Tensor.__getitem__
torch.Tensor.__getitem__ = lambda self, key: torch.neg(self)
assert torch.equal(compiled(x), -x)
torch.Tensor.__getitem__ = real
assert torch.equal(compiled(x), x[0])
"""


def test_subscripts_of_tensor() -> None:
    """In a process of its own: Python keeps the slot of a patched `__getitem__` and takes tensors for sequences."""
    subprocess.run([sys.executable, "-c", SUBSCRIPT], check=True)


def test_methods_added_to_tensor_do_not_recompile() -> None:
    compiled = fs.compile(lambda x: x * 2, backend="eager")
    compiled(X)
    with patched(torch.Tensor, "an_extension", lambda self: 1), fs.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X), X * 2)


def test_native_guards_see_patched_methods() -> None:
    with fs.config.patch(native_guards="always"):
        compiled = fs.compile(lambda x: x.sin(), backend="native")
        for _ in range(3):
            compiled(X)
        upgraded = compiled._firesteel_unit.entries[0].upgrade
        assert upgraded.native is not None and not any("value" in line for line in upgraded.kept_in_python)
        with patched(torch.Tensor, "sin", torch.Tensor.cos):
            assert torch.equal(compiled(X), X.cos())
        torch.testing.assert_close(compiled(X), X.sin())


def test_methods_of_parameter() -> None:
    weight = nn.Parameter(torch.ones(4))
    check(lambda x: weight.mul(2), lambda: patched(nn.Parameter, "mul", lambda self, other: torch.neg(self)))


@pytest.mark.parametrize("name", ("__call__", "_call_impl"))
def test_calls_of_modules(name: str) -> None:
    linear = nn.Linear(4, 4)
    check(lambda x: linear(x), lambda: patched(nn.Module, name, lambda self, x: x * 3))


def test_call_of_a_compiled_module() -> None:
    linear = nn.Linear(4, 4)
    compiled = fs.compile(linear, backend="eager")
    compiled(X)
    with patched(nn.Module, "__call__", lambda self, x: x * 3):
        assert torch.equal(compiled(X), X * 3)


def test_attributes_of_modules() -> None:
    linear = nn.Linear(4, 4)
    original = nn.Module.__getattr__

    def doubled(self: Any, name: str) -> Any:
        found = original(self, name)
        return found * 2 if name == "weight" else found

    check(lambda x: linear.weight + 1, lambda: patched(nn.Module, "__getattr__", doubled))


def test_a_function_of_torch_that_is_patched_while_it_is_captured() -> None:
    original = torch.sin

    def tripled(x: torch.Tensor) -> torch.Tensor:
        return original(x) * 3

    check(lambda x: torch.sin(x), lambda: patched(torch, "sin", tripled))


def test_a_graph_calls_the_functions_it_was_made_with() -> None:
    saved = torch.sin
    compiled = fs.compile(lambda x: saved(x), backend="eager")
    compiled(X)
    with patched(torch, "sin", torch.cos):
        assert torch.equal(compiled(X), saved(X))


# Enums, imports, flags


class Color(enum.Enum):
    RED = 2

    def weight(self) -> int:
        return self.value * 2

    @property
    def bias(self) -> int:
        return self.value + 1


@pytest.mark.parametrize("function", (
    lambda x: x * Color.RED.value, lambda x: x * Color.RED.weight(), lambda x: x * Color.RED.bias,
))
def test_value_of_an_enum_member(function: Callable[[torch.Tensor], Any]) -> None:
    check(function, lambda: patched(Color.RED, "_value_", 5))


def test_methods_of_enums() -> None:
    check(lambda x: x * Color.RED.weight(), lambda: patched(Color, "weight", lambda self: 7))
    check(lambda x: x * Color.RED.bias, lambda: patched(Color, "bias", property(lambda self: 7)))


@contextlib.contextmanager
def in_modules(module: Any) -> Iterator[None]:
    before = sys.modules["guarded_module"]
    sys.modules["guarded_module"] = module
    try:
        yield
    finally:
        sys.modules["guarded_module"] = before


def test_imports_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = types.ModuleType("guarded_module"), types.ModuleType("guarded_module")
    first.k, second.k = 2, 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "guarded_module", first)

    def whole(x: torch.Tensor) -> torch.Tensor:
        import guarded_module

        return x * guarded_module.k

    def one_name(x: torch.Tensor) -> torch.Tensor:
        from guarded_module import k

        return x * k

    for function in (whole, one_name):
        check(function, lambda: in_modules(second))


def test_attributes_that_modules_compute() -> None:
    module = types.ModuleType("lazy_module")
    module.base = 2  # type: ignore[attr-defined]

    def getter(name: str) -> int:
        if name == "doubled":
            return int(module.base) * 2
        raise AttributeError(name)

    module.__getattr__ = getter  # type: ignore[method-assign]
    check(lambda x: x * module.doubled, lambda: patched(module, "base", 5))


@contextlib.contextmanager
def flag(holder: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, before)


def test_flags_of_backends() -> None:
    # not by assignment, which torch's own test helpers switch off for the whole process
    check(lambda x: x * (2 if torch.backends.mkldnn.enabled else 3),
          lambda: torch.backends.mkldnn.flags(enabled=not torch.backends.mkldnn.enabled))
    check(lambda x: x * (2 if torch.backends.cudnn.benchmark else 3),
          lambda: torch.backends.cudnn.flags(benchmark=not torch.backends.cudnn.benchmark))


@contextlib.contextmanager
def autocast_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", dtype)
    try:
        yield
    finally:
        torch.set_autocast_dtype("cpu", before)


def test_autocast_dtype_without_autocast() -> None:
    check(lambda x: x * (2 if torch.get_autocast_dtype("cpu") is torch.bfloat16 else 3),
          lambda: autocast_dtype(torch.float16))


# Deterministic algorithms and dispatch modes


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.complex64))
def test_new_memory_is_filled(dtype: torch.dtype, backend: str) -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.empty(3, dtype=dtype), x.new_empty(2, dtype=dtype), torch.empty_like(x), x.new_empty_strided(
            (2, 2), (1, 2))

    compiled = fs.compile(f, backend=backend, fullgraph=True)
    with deterministic():
        for expected, actual in zip(f(X), compiled(X), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)
        with flag(torch.utils.deterministic, "fill_uninitialized_memory", False):
            compiled(X)
        for expected, actual in zip(f(X), compiled(X), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_not_deterministic_raises(backend: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.put_(torch.tensor([0]), torch.tensor([2.0]))

    check(f, deterministic, backend=backend)


class Operators(TorchDispatchMode):
    """Notes the operators it sees, and changes some."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        result = func(*args, **(kwargs or {}))
        return result + 100 if func is torch.ops.aten.mul.Tensor else result


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("compiled_before", (False, True))
def test_dispatch_modes_see_the_operators(backend: str, compiled_before: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1) * 2

    compiled = fs.compile(f, backend=backend)
    if compiled_before:
        compiled(X)
    with Operators() as mode:
        assert torch.equal(compiled(X), (X + 1) * 2)
    assert mode.seen[:2] == ["aten.add.Tensor", "aten.mul.Tensor"]
    torch.testing.assert_close(compiled(X), (X + 1) * 2)


# Globals of a module, as attributes


MODULE = """
G = 1
def bump():
    global G
    G += 1
def read():
    return G
def put(name, value):
    globals()[name] = value
def drop(name):
    global H
    del H
"""


def bumped(m: Any, x: torch.Tensor) -> Any:
    m.bump()
    first = m.G
    m.bump()
    return x * first, x * m.G, m.__dict__["G"], vars(m)["G"], getattr(m, "G")  # noqa: B009


def set_as_attribute(m: Any, x: torch.Tensor) -> Any:
    m.G = m.G + 1
    m.bump()
    m.G += 1
    return x * m.read()


def made_by_the_module(m: Any, x: torch.Tensor) -> Any:
    before = hasattr(m, "N")
    m.put("N", 3)
    return before, hasattr(m, "N"), x * m.N


def deleted_twice(m: Any, x: torch.Tensor) -> Any:
    m.put("H", 1)
    m.drop("H")
    return hasattr(m, "H"), m.drop("H")


@pytest.mark.parametrize("function", (bumped, set_as_attribute, made_by_the_module, deleted_twice))
def test_globals_of_a_module_read_as_attributes(function: Callable[[Any, torch.Tensor], Any]) -> None:
    results = []
    for run in (function, fs.compile(function, backend="eager")):
        module = types.ModuleType("written_module")
        exec(MODULE, vars(module))
        results.append([outcome(run, (module, X), {}) for _ in range(3)])
    assert same(*results)


# Classes that answer for others


class Plain:
    pass


class Answering(type):
    def __instancecheck__(cls, obj: Any) -> bool:
        return False

    def level(cls) -> int:
        return 2

    def __len__(cls) -> int:
        return 3

    @property
    def own(cls) -> int:
        return 4


class Answered(metaclass=Answering):
    pass


class Pair(NamedTuple):
    left: int
    right: int


PLAIN, PAIR = Plain(), Pair(2, 3)


def test_metaclasses() -> None:
    check(lambda x: x * (2 if isinstance(PLAIN, Answered) else 3),
          lambda: patched(Answering, "__instancecheck__", lambda cls, obj: True))
    check(lambda x: x * Answered.level(), lambda: patched(Answering, "level", lambda cls: 7))
    check(lambda x: x * len(Answered), lambda: patched(Answering, "__len__", lambda cls: 7))
    check(lambda x: x * Answered.own, lambda: patched(Answering, "own", property(lambda cls: 7)))


def test_registered_classes() -> None:
    class Abstract(abc.ABC):  # noqa: B024
        pass

    compiled = fs.compile(lambda x: x * (2 if isinstance(PLAIN, Abstract) else 3), backend="eager")
    assert torch.equal(compiled(X), X * 3)
    Abstract.register(Plain)
    assert torch.equal(compiled(X), X * 2)


def test_fields_of_named_tuples() -> None:
    check(lambda x: x * PAIR.left, lambda: patched(Pair, "left", property(lambda self: 7)))


def test_patched_functions_of_the_library() -> None:
    check(lambda x: x * math.floor(2.5), lambda: patched(math, "floor", math.ceil))


class Field:
    def __get__(self, obj: Any, owner: type) -> int:
        return 5


class Hiding:
    scale: Any = 2
    field = Field()


def test_class_attributes_that_an_instance_hides() -> None:
    hiding = Hiding()
    hiding.scale = 3
    check(lambda x: x * hiding.scale, lambda: patched(Hiding, "scale", property(lambda self: 7)))
    vars(hiding)["field"] = 4
    check(lambda x: x * hiding.field, lambda: patched(Field, "__set__", lambda self, obj, value: None))


class Named:
    first = 1


def test_one_name_taken_away_and_another_added() -> None:
    named = Named()
    compiled = fs.compile(lambda x: x * (2 if hasattr(named, "second") else 3), backend="eager")
    assert torch.equal(compiled(X), X * 3)
    del Named.first
    Named.second = 1  # type: ignore[attr-defined]
    try:
        assert torch.equal(compiled(X), X * 2)
    finally:
        del Named.second  # type: ignore[attr-defined]
        Named.first = 1


def test_a_number_that_varies_read_twice() -> None:
    module = types.ModuleType("counting_module")
    module.n = 1  # type: ignore[attr-defined]
    compiled = fs.compile(lambda x: x * module.n + module.n, backend="eager")
    for n in (1, 2, 3):
        module.n = n  # type: ignore[attr-defined]
        assert torch.equal(compiled(X), X * n + n)
