"""Tensor subclasses, function modes and wrappers: results, classes, attributes and gradients are eager's."""

from __future__ import annotations

import contextvars
import functools
import os
import random
import threading
import types

import numpy as np
import pytest
import torch
from tests.capture.subclass_classes import Counting, Labelled, Plain, Scaled, Two
from tests.capture.subclass_programs import PROGRAMS, agree, facts, rand, run, sub, two

import firesteel as fs

BREAKING = frozenset({"a_wrapper_that_logs", "a_wrapper_that_is_not_made_again", "distributed_tensors"})
"""Programs that are right, and no single graph."""
NATIVE = ("gradients_of_a_subclass", "a_wrapper_trained", "autograd_above_dispatch", "training_past_a_quantised_linear",
          "a_module_of_wrappers", "a_wrapper_and_a_plain_tensor_trained", "in_place_on_a_wrapper",
          "a_wrapper_made_inside_of_tensors_that_require_grad")


@pytest.fixture
def group():
    """Ends the group of processes that a program may make."""
    yield
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, group):
    if name.startswith("distributed") and not torch.distributed.is_available():
        pytest.skip("torch is built without torch.distributed")
    program = PROGRAMS[name]
    expected = run(program, program.function)
    graphs = []

    def count(module, examples):
        graphs.append(module)
        return module.forward

    compiled = fs.compile(program.function, backend=count, fullgraph=name not in BREAKING)
    for _ in range(2):
        assert agree(expected, run(program, compiled))
    assert name in BREAKING or len(graphs) <= 1


@pytest.mark.parametrize("name", NATIVE)
def test_native_program(name):
    program = PROGRAMS[name]
    expected = run(program, program.function)
    compiled = fs.compile(program.function, fullgraph=True)
    for _ in range(2):
        assert agree(expected, run(program, compiled))


def calls_of(function):
    """A compiled function that counts its captures."""
    captures = []

    def count(module, examples):
        captures.append(1)
        return module.forward

    return fs.compile(function, backend=count), captures


def test_guard_on_the_class():
    compiled, captures = calls_of(lambda x: x * 2)
    for _ in range(2):
        assert type(compiled(sub(Plain))) is Plain
        assert type(compiled(rand())) is torch.Tensor
        assert type(compiled(two())) is Two
    assert len(captures) == 3


def test_guard_on_what_a_class_defines():
    class Changing(torch.Tensor):
        factor = 2

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {}) * cls.factor

    def f(x):
        with torch._C.DisableTorchFunctionSubclass():
            pass
        return torch.relu(x.as_subclass(torch.Tensor)), Changing.factor

    def other(cls, func, types, args=(), kwargs=None):
        return "other"

    compiled, _ = calls_of(lambda x: torch.sin(x))
    x = sub(Labelled, label="a")
    assert compiled(x).label == "a'"
    original = Labelled.__dict__["__torch_function__"]
    try:
        Labelled.__torch_function__ = classmethod(other)
        assert compiled(x) == "other"
    finally:
        Labelled.__torch_function__ = original
    assert compiled(x).label == "a'"
    compiled, _ = calls_of(f)
    assert compiled(sub(Changing))[1] == 2
    Changing.factor = 5
    assert compiled(sub(Changing))[1] == 5


def test_guard_on_attributes():
    compiled, captures = calls_of(lambda x: torch.exp(x).label)
    assert [compiled(sub(Labelled, label=label)) for label in ("a", "b", "a")] == ["a'", "b'", "a'"]
    assert len(captures) == 2


def test_guard_on_the_context():
    compiled, captures = calls_of(lambda x: x + 1)
    for scale in (2.0, 3.0, 2.0):
        assert agree(facts(compiled(Scaled(rand(), scale))), facts(Scaled(rand(), scale) + 1))
    assert len(captures) == 2


FACTOR = 2.0


class Global(Two):
    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Global(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(args[0].a * FACTOR, *args[1:])


def test_guard_on_globals_of_a_dispatch():
    global FACTOR
    compiled, _ = calls_of(lambda x: x + 1)
    x = Global(rand(), rand())
    for factor in (2.0, 5.0):
        FACTOR = factor
        assert agree(compiled(x), x.a * factor + 1)


CONFIG = types.ModuleType("a_config_of_the_tests")
SPACE, VARIABLE = types.SimpleNamespace(), contextvars.ContextVar("a_variable_of_the_tests", default=2.0)
LOCAL, TABLE, MANY, NESTED = threading.local(), {}, dict.fromkeys(range(100), 0.0), ([2.0],)
PARTIAL = functools.partial(lambda table: table["factor"], TABLE)


def set_factors(factor):
    """Everything that code of a class reads in the tests below."""
    CONFIG.factor = SPACE.factor = LOCAL.factor = TABLE["factor"] = MANY[5] = NESTED[0][0] = factor
    VARIABLE.set(factor)
    os.environ["A_FACTOR_OF_THE_TESTS"] = str(factor)
    np.random.seed(int(factor))
    random.seed(int(factor))


READS = {
    "module": lambda: CONFIG.factor,
    "name of an attribute": lambda: getattr(CONFIG, "factor"),  # noqa: B009
    "namespace": lambda: SPACE.factor,
    "thread-local": lambda: LOCAL.factor,
    "context variable": lambda: VARIABLE.get(),
    "environment": lambda: float(os.environ["A_FACTOR_OF_THE_TESTS"]),
    "partial": PARTIAL,
    "many items": lambda: MANY[5],
    "tuple": lambda: NESTED[0][0],
    "random numbers": lambda: random.uniform(0, 1),
    "random numbers of NumPy": lambda: float(np.random.rand()),
}


def reading(read, where):
    """A wrapper class that multiplies by what it reads, in its dispatch or when an instance is made."""
    class Reading(torch.Tensor):
        @staticmethod
        def __new__(cls, a):
            return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)

        def __init__(self, a):
            self.a = a
            self.factor = read() if where == "init" else 1.0

        def __tensor_flatten__(self):
            return ["a"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Reading(inner["a"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            own = [arg for arg in args if isinstance(arg, cls)]
            result = func(*[arg.a if isinstance(arg, cls) else arg for arg in args])
            return cls(result * (read() if where == "dispatch" else own[0].factor))

    return Reading


@pytest.mark.parametrize("where", ["dispatch", "init"])
@pytest.mark.parametrize("name", READS)
def test_what_code_of_a_class_reads_is_seen(name, where):
    def program(x):
        result = x + 1
        return [result.a, result.factor]

    set_factors(2.0)
    cls, seen = reading(READS[name], where), []
    for function in (program, fs.compile(program, backend="native")):
        for factor in (2.0, 3.0, 2.0):
            set_factors(factor)
            seen.append(function(cls(torch.ones(2))))
    assert agree(seen[3:], seen[:3])


CHANGES = {
    "module": lambda: setattr(CONFIG, "factor", CONFIG.factor + 1),
    "namespace": lambda: setattr(SPACE, "factor", SPACE.factor + 1),
    "dictionary": lambda: TABLE.update(factor=TABLE["factor"] + 1),
    "tuple": lambda: NESTED[0].append(1),
    "many items": lambda: MANY.update({5: MANY[5] + 1}),
}


@pytest.mark.parametrize("where", ["dispatch", "init"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_code_of_a_class_changes_is_changed_as_often(name, where):
    cls, seen = reading(lambda: (CHANGES[name](), 1.0)[1], where), []
    for function in (lambda x: (x + 1).a, fs.compile(lambda x: (x + 1).a, backend="native")):
        set_factors(2.0)
        del NESTED[0][1:]
        for _ in range(3):
            function(cls(torch.ones(2)))
            seen.append((CONFIG.factor, SPACE.factor, TABLE["factor"], MANY[5], len(NESTED[0])))
    assert seen[3:] == seen[:3]


def test_attributes_that_are_not_flattened():
    cls = reading(lambda: 1.0, "init")
    compiled = fs.compile(lambda x: (x + 1).a, backend="native")
    for factor in (1.0, 5.0, 2.0):
        x = cls(torch.ones(2))
        x.factor = factor
        assert agree(compiled(x), (x + 1).a)


class Overriding(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def begin_to_require(x):
    x.requires_grad_()
    return x * 2


def unsqueeze(x):
    x.unsqueeze_(0)
    return x * 2


LEAVES = {
    "detached": lambda x: x.detach().requires_grad_(),
    "computed": lambda x: (x * 2).detach().requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x),
    "class of a parameter": lambda x: type(torch.nn.Parameter(x)).__name__,
    "argument": begin_to_require,
    "sizes": unsqueeze,
}


@pytest.mark.parametrize("make", [two, lambda: sub(Plain), lambda: sub(Overriding)], ids=["wrapper", "plain", "asked"])
@pytest.mark.parametrize("name", LEAVES)
def test_leaves_are_leaves(name, make):
    seen = []
    for function in (LEAVES[name], fs.compile(LEAVES[name], backend="eager"), fs.compile(LEAVES[name])):
        torch.manual_seed(1)
        x = make()
        try:
            result = function(x)
        except RuntimeError as error:
            seen.append(str(error))
            continue
        told = [x.requires_grad, tuple(x.shape), facts(x), facts(result)]
        if isinstance(result, torch.Tensor):
            told += [result.is_leaf, result.requires_grad, isinstance(result, torch.nn.Parameter)]
            if result.requires_grad:
                (result * 2).sum().backward()
                told += [facts(x.grad), facts(result.grad) if result.is_leaf else None]
        seen.append(told)
    assert agree(seen[1], seen[0]) and agree(seen[2], seen[0])


SEEN = []


class Telling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        SEEN.append(func.__name__)
        if func is torch.Tensor.__bool__:
            return True
        return super().__torch_function__(func, types, args, kwargs or {})


class Converting(torch.Tensor):
    def __bool__(self):
        SEEN.append("bool")
        return True

    def __int__(self):
        SEEN.append("int")
        return 7

    def __len__(self):
        SEEN.append("len")
        return 1


ASKING = [
    lambda x: bool(x), lambda x: not x, lambda x: 1 if x else 2, lambda x: int(x), lambda x: len(list(x[None])),
    lambda x: len([*x[None]]), lambda x: [1 for _ in x[None]], lambda x: len(list(zip(x[None], [1]))),
    lambda x: type(torch.vmap(torch.sin)(x[None])).__name__,
    lambda x: type(torch.func.grad(lambda y: y.sin())(x)).__name__,
    lambda x: type(torch.func.grad(lambda y: y * x)(torch.ones(()))).__name__,
    lambda x: type(torch.func.grad(lambda y, z: y * z)(torch.ones(()), x)).__name__,
]


@pytest.mark.parametrize("cls", [Telling, Converting])
@pytest.mark.parametrize("number", range(len(ASKING)))
def test_a_class_is_asked_as_in_eager(number, cls):
    seen = []
    for function in (ASKING[number], fs.compile(ASKING[number], backend="eager")):
        for value in (0.0, 1.0):
            SEEN.clear()
            result = function(torch.tensor(value).as_subclass(cls))
            seen.append((result, list(SEEN)))
    assert seen[2:] == seen[:2]


def test_code_of_a_class_runs_as_often_as_in_eager():
    Counting.calls = 0
    x = sub(Counting)
    compiled, _ = calls_of(lambda x: torch.sin(x) * 2)
    for calls in (2, 4, 6):
        compiled(x)
        assert Counting.calls == calls


def test_modes_around_a_call():
    seen = []

    class Noticing(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    compiled, _ = calls_of(lambda x: torch.sin(x) + 1)
    x = rand()
    compiled(x)
    with Noticing():
        compiled(x)
    assert seen == [torch.sin, torch.Tensor.add]


def test_dispatch_modes_around_a_call():
    seen = []

    class Noticing(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    compiled, _ = calls_of(lambda x: x * 2 + 1)
    x = two()
    compiled(x)
    with Noticing():
        compiled(x)
    assert seen == ["aten.mul.Tensor", "aten.add.Tensor"]


def test_gradient_of_another_kind_is_refused_with_words():
    compiled = fs.compile(lambda x: x * 3, backend="eager")
    result = compiled(two(grad=True))
    with pytest.raises(RuntimeError, match="gradient of a Two that compiled code has returned"):
        result.backward(torch.ones(4, 6))


def test_sizes_become_symbols():
    compiled, captures = calls_of(lambda x: (x * 2).view(x.shape[0], -1) + x.size(1))
    for size in range(2, 8):
        x = sub(Plain, size, size + 1)
        assert agree(facts(compiled(x)), facts((x * 2).view(size, -1) + (size + 1)))
    assert len(captures) <= 2
