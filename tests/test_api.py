"""`fs.compile`: what it accepts, what it returns, and what it keeps of the original."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest
import torch

import firesteel as fs
from firesteel.errors import BackendError, GraphBreakError, UserCodeError
from seeds.recording import Recorder

X = torch.arange(4.0)


def module_level(x, y=1, *rest, scale=2.0, **named):
    """Doc of module_level."""
    return (x + y + sum(rest)) * scale + named.get("extra", 0)


# As a decorator and as a function


def test_decorator_without_arguments():
    @fs.compile
    def f(x):
        return x + 1

    assert torch.equal(f(X), X + 1) and len(f._firesteel_unit.entries) == 1


@pytest.mark.parametrize("arguments", [{}, {"backend": "eager"}, {"fullgraph": True, "dynamic": False},
                                       {"mode": "default"}])
def test_decorator_with_arguments(arguments):
    @fs.compile(**arguments)
    def f(x):
        return x + 1

    assert torch.equal(f(X), X + 1) and len(f._firesteel_unit.entries) == 1


def test_disable_argument_returns_the_same():
    assert fs.compile(module_level, disable=True) is module_level
    assert fs.compile(disable=True)(module_level) is module_level


def test_what_is_kept():
    compiled = fs.compile(module_level)
    assert compiled.__name__ == "module_level" and compiled.__qualname__ == "module_level"
    assert compiled.__doc__ == "Doc of module_level." and compiled.__module__ == module_level.__module__
    assert compiled.__wrapped__ is module_level
    assert inspect.signature(compiled) == inspect.signature(module_level)


@pytest.mark.parametrize("args, kwargs", [
    ((X,), {}), ((X, 2), {}), ((X, 2, 3, 4), {}), ((X,), {"y": 5}), ((X,), {"scale": 3.0}), ((), {"x": X, "y": 2}),
    ((X, 1, 2), {"scale": 0.5, "extra": 7}),
])
def test_argument_passing(args, kwargs):
    compiled = fs.compile(module_level)
    assert torch.equal(compiled(*args, **kwargs), module_level(*args, **kwargs))


def test_positional_only_and_keyword_only():
    def f(a, b=2, /, c=3, *, d, e=5):
        return X + a + 10 * b + 100 * c + 1000 * d + 10000 * e

    compiled = fs.compile(f)
    for args, kwargs in [((1,), {"d": 4}), ((1, 7), {"d": 4, "e": 6}), ((1, 7, 8), {"d": 1}), ((1,), {"c": 9, "d": 2})]:
        assert torch.equal(compiled(*args, **kwargs), f(*args, **kwargs))
    for args, kwargs in [((), {"d": 1}), ((1,), {}), ((1, 2, 3, 4), {"d": 1}), ((1,), {"b": 3, "d": 1}),
                         ((1,), {"z": 1, "d": 1})]:
        with pytest.raises(TypeError):
            compiled(*args, **kwargs)


def test_parameters_with_names_that_the_wrapper_uses():
    def f(_fs_unit, _fs_result=3):
        return _fs_unit * _fs_result

    assert torch.equal(fs.compile(f)(X), X * 3)


def test_defaults_changed_later():
    def f(x, y=1, *, z=10):
        return x + y + z

    compiled = fs.compile(f)
    assert torch.equal(compiled(X), X + 11)
    f.__defaults__ = (2,)
    assert torch.equal(compiled(X), X + 12)
    f.__kwdefaults__["z"] = 20
    assert torch.equal(compiled(X), X + 22)
    f.__kwdefaults__ = {"z": 30}
    assert torch.equal(compiled(X), X + 32)


def test_code_replaced_later():
    def f(x, y=1):
        return x + y

    def g(x, y=1):
        return x - y

    compiled = fs.compile(f)
    assert torch.equal(compiled(X), X + 1)
    f.__code__ = g.__code__
    assert torch.equal(compiled(X), X - 1)
    assert torch.equal(compiled(X, y=3), X - 3)


# What can be compiled


def test_lambda_and_closure():
    y = 3
    f = fs.compile(lambda x: x * y)
    assert torch.equal(f(X), X * 3)
    y = 4
    assert torch.equal(f(X), X * 4)


def test_function_made_again_and_again_shares_what_is_compiled():
    recorder = Recorder()
    decorate = fs.compile(backend=recorder)

    def make(y):
        return lambda x: x * y

    for y in (torch.ones(4), torch.zeros(4)):
        assert torch.equal(decorate(make(y))(X), X * y)


class Thing:
    """A class with methods of every kind."""

    factor = 3

    def __init__(self, shift):
        self.shift = shift

    def method(self, x):
        return x * self.factor + self.shift

    @fs.compile
    def decorated(self, x):
        return x * self.factor + self.shift

    @fs.compile
    @staticmethod
    def static(x):
        return x + 1

    @staticmethod
    @fs.compile
    def static_inside(x):
        return x + 2

    @fs.compile
    @classmethod
    def klass(cls, x):
        return x * cls.factor

    @classmethod
    @fs.compile
    def klass_inside(cls, x):
        return x * cls.factor + 1

    def __call__(self, x, y=0):
        return x + self.shift + y


def test_methods():
    thing = Thing(1)
    compiled = fs.compile(thing.method)
    assert torch.equal(compiled(X), X * 3 + 1)
    thing.shift = 2
    assert torch.equal(compiled(X), X * 3 + 2)
    assert compiled.__self__ is thing and compiled.__name__ == "method"
    assert torch.equal(thing.decorated(X), X * 3 + 2)
    assert torch.equal(Thing(5).decorated(X), X * 3 + 5)
    again = fs.compile(compiled, backend=(recorder := Recorder()))
    assert torch.equal(again(X), X * 3 + 2) and len(recorder.graphs) == 1


def test_static_and_class_methods():
    for owner in (Thing, Thing(1)):
        assert torch.equal(owner.static(X), X + 1)
        assert torch.equal(owner.static_inside(X), X + 2)
        assert torch.equal(owner.klass(X), X * 3)
        assert torch.equal(owner.klass_inside(X), X * 3 + 1)


def test_callable_object():
    thing = Thing(1)
    recorder = Recorder()
    compiled = fs.compile(thing, backend=recorder)
    assert torch.equal(compiled(X), X + 1) and torch.equal(compiled(X, y=2), X + 3)
    thing.shift = 9
    assert torch.equal(compiled(X), X + 9)
    assert recorder.graphs and list(inspect.signature(compiled).parameters) == ["x", "y"]


def test_partial():
    compiled = fs.compile(functools.partial(module_level, y=4))
    assert torch.equal(compiled(X), module_level(X, y=4))
    assert torch.equal(compiled(X, scale=1.0), module_level(X, y=4, scale=1.0))


def test_c_function():
    recorder = Recorder()
    assert torch.equal(fs.compile(torch.sin, backend=recorder)(X), X.sin())
    assert len(recorder.graphs) == 1


def test_compiled_again():
    first, second = Recorder(), Recorder()
    once = fs.compile(module_level, backend=first)
    twice = fs.compile(once, backend=second)
    assert torch.equal(twice(X), module_level(X))
    assert (len(first.graphs), len(second.graphs)) == (0, 1)
    assert twice.__wrapped__ is module_level


def test_compiled_calls_compiled():
    inner_recorder, outer_recorder = Recorder(), Recorder()
    inner = fs.compile(lambda x: x.sin(), backend=inner_recorder)
    outer = fs.compile(lambda x: inner(x).cos(), backend=outer_recorder)
    assert torch.equal(outer(X), X.sin().cos())
    assert inner_recorder.graphs == []  # inlined
    assert [name for op, name in outer_recorder.rows(0) if op.startswith("call")] == ["sin", "cos"]


def test_generator_function():
    @fs.compile
    def numbers(x):
        for i in range(3):
            sent = yield x + i
            if sent is not None:
                x = sent

    assert inspect.isgeneratorfunction(numbers)
    values = list(numbers(X))
    assert all(torch.equal(value, X + i) for i, value in enumerate(values)) and len(values) == 3
    running = numbers(X)
    next(running)
    assert torch.equal(running.send(X * 2), X * 2 + 1)


def test_async_functions():
    @fs.compile
    async def double(x):
        await asyncio.sleep(0)
        return x * 2

    @fs.compile
    async def several(x):
        for i in range(2):
            yield await double(x + i)

    async def collect():
        return [value async for value in several(X)]

    assert inspect.iscoroutinefunction(double) and inspect.isasyncgenfunction(several)
    values = asyncio.run(collect())
    assert torch.equal(values[0], X * 2) and torch.equal(values[1], (X + 1) * 2)


# Wrong arguments


@pytest.mark.parametrize("arguments, text", [
    ({"mode": "fastest"}, "unknown mode 'fastest'"), ({"fullgraph": "yes"}, "fullgraph='yes'"),
    ({"dynamic": 1}, "dynamic=1"),
    ({"options": ["a"]}, "options="), ({"mode": "default", "options": {}}, "both mode= and options="),
])
def test_wrong_arguments(arguments, text):
    with pytest.raises(UserCodeError, match=text):
        fs.compile(module_level, **arguments)
    with pytest.raises(UserCodeError, match=text):
        fs.compile(**arguments)


def test_unknown_argument():
    with pytest.raises(TypeError, match="fullgraf"):
        fs.compile(module_level, fullgraf=True)


@pytest.mark.parametrize("thing, text", [(3, "int object cannot be called"), (Thing, "is a class"), ("f", "str obj")])
def test_things_that_cannot_be_compiled(thing, text):
    with pytest.raises(UserCodeError, match=text):
        fs.compile(thing)


def test_unknown_backend():
    with pytest.raises(BackendError, match="Did you mean 'eager'"):
        fs.compile(module_level, backend="eeger")
    with pytest.raises(TypeError, match="a name or a callable"):
        fs.compile(module_level, backend=3)


def test_nopython_is_fullgraph():
    def f(x):
        fs.graph_break()
        return x + 1

    with pytest.raises(GraphBreakError):
        fs.compile(f, nopython=True)(X)
    assert torch.equal(fs.compile(f, nopython=False, fullgraph=True)(X), X + 1)


def test_dynamic_false_keeps_numbers_constant():
    def f(x, n):
        return x * n

    counts = {}
    for dynamic in (None, False):
        recorder = Recorder()
        compiled = fs.compile(f, backend=recorder, dynamic=dynamic)
        for n in range(2, 7):
            assert torch.equal(compiled(X, n), X * n)
        counts[dynamic] = len(recorder.graphs)
    assert counts == {None: 2, False: 5}


def test_registered_backend():
    seen = []

    @fs.register_backend(name="counting")
    def counting(gm, example_inputs):
        seen.append([tuple(value.shape) for value in example_inputs if isinstance(value, torch.Tensor)])
        return gm

    assert "counting" in fs.list_backends()
    assert torch.equal(fs.compile(lambda x: x + 1, backend="counting")(X), X + 1)
    assert seen == [[(4,)]]


def test_every_public_name_exists():
    for name in fs.__all__:
        assert getattr(fs, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'compiel'"):
        fs.compiel  # noqa: B018


def test_names_of_submodules_do_not_hide_functions():
    """Importing a submodule sets it as an attribute of the package, so none may have the name of a public function."""
    import pkgutil

    modules = {"config", "errors", "export"}
    assert not {module.name for module in pkgutil.iter_modules(fs.__path__)} & (set(fs.__all__) - modules)


def test_a_wrong_option_is_an_error_where_it_is_written():
    with pytest.raises(UserCodeError, match="did you mean 'max_autotune'"):
        fs.compile(lambda x: x + 1, backend="native", options={"max_autotun": True})


def test_a_backend_gets_the_options_it_takes():
    given = {}

    def backend(gm, example_inputs, *, options=None, mode=None):
        given.update(options=options, mode=mode)
        return gm.forward

    fs.compile(lambda x: x + 1, backend=backend, options={"level": 3})(torch.ones(2))
    assert given == {"options": {"level": 3}, "mode": None}
    fs.compile(lambda x: x + 1, backend=backend, mode="max-autotune")(torch.ones(2))
    assert given == {"options": None, "mode": "max-autotune"}
    fs.compile(lambda x: x + 1, backend=lambda gm, inputs: gm.forward, options={"level": 3})(torch.ones(2))


@pytest.mark.parametrize("calls_before", [0, 60])
def test_torchscript_traces_the_operators_of_compiled_code(calls_before):
    def f(x):
        return torch.sin(x) * 2

    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    x, other = torch.linspace(0, 1, 4), torch.linspace(2, 3, 4)
    for plain in (f, net):
        compiled = fs.compile(plain)
        for _ in range(calls_before):
            compiled(x)
        traced = torch.jit.trace(compiled, x)
        assert torch.equal(traced(other), plain(other))
        torch.testing.assert_close(compiled(other), plain(other))


def test_an_object_whose_class_gets_another_call():
    class Scaled:
        def __call__(self, x):
            return x * 2

    one = Scaled()
    compiled = fs.compile(one, backend="eager")
    x = torch.ones(2)
    assert torch.equal(compiled(x), x * 2)
    Scaled.__call__ = lambda self, x: x * 9
    assert torch.equal(compiled(x), x * 9)


def test_what_only_torchs_compiler_knows_changes_nothing():
    x = torch.ones(3)
    for how in ({"mode": "lite"}, {"options": {"guard_filter_fn": lambda guards: [False for _ in guards]}}):
        compiled = fs.compile(lambda v: v * len(v), **how)
        assert torch.equal(compiled(x), x * 3) and torch.equal(compiled(torch.ones(4)), torch.ones(4) * 4)
