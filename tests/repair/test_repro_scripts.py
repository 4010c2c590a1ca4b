"""Scripts that fail as firesteel has failed."""

from __future__ import annotations

import ast
import os
import sys
import types
import warnings

import pytest
import torch

import firesteel as fs
from firesteel.backends import registry
from firesteel.capture.opcode_handlers import HANDLERS
from firesteel.kernels.lowering.registry import LOWERINGS
from firesteel.repro_scripts import functions
from firesteel.repro_scripts import scripts as module
from firesteel.torch_compat.custom_operators import forget_operators


def refuse(*args, **kwargs):
    raise KeyError("a fault")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("offset", torch.arange(4.0))
        self.factor = 2.0

    def forward(self, x, *more, scale=1):
        return torch.atan(self.inner(x) * self.factor + self.offset) * -LIMIT * scale


LIMIT = 3


@pytest.fixture
def failures(tmp_path, monkeypatch):
    """A folder for scripts, in a process that has written none."""
    monkeypatch.setattr(module, "WRITTEN", [])
    with fs.config.patch(repro=str(tmp_path), raise_on_internal_error=False, compile_after=0.0):
        yield tmp_path


def run(path):
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "__main__"})


def test_a_graph(failures, monkeypatch):
    LOWERINGS.load()
    monkeypatch.setitem(LOWERINGS, "aten.atan.default", refuse)
    model, x = Scaled(), torch.randn(2, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fs.compile(model)(x)
    assert torch.equal(result, model(x))
    (path,) = module.WRITTEN
    (warning,) = [one for one in caught if issubclass(one.category, fs.errors.FiresteelWarning)]
    assert path in str(warning.message) and os.path.dirname(path) == str(failures)
    with fs.config.patch(repro=""), pytest.raises(fs.errors.BackendError, match="KeyError: 'a fault'"):
        run(path)
    monkeypatch.undo()
    run(path)


def test_functions_of_torch_that_a_function_has_made():
    graph = fs.capture_graph(lambda x: torch.nn.functional.max_pool2d(x, 2).cos())(torch.ones(1, 4, 4)).graph_module
    text = module.script_of_graph(graph, [torch.ones(1, 4, 4)], "a graph")
    assert "torch.nn.functional.max_pool2d(x, 2)" in text
    namespace = {"__name__": "__main__"}
    exec(compile(text, "script", "exec"), namespace)
    torch.testing.assert_close(namespace["f"](torch.ones(1, 4, 4))[0], torch.ones(1, 2, 2).cos())


def test_a_function_that_cannot_be_captured(failures, monkeypatch):
    HANDLERS.load()
    monkeypatch.setitem(HANDLERS, "UNARY_NEGATIVE", refuse)
    model, x = Scaled(), torch.randn(2, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fs.compile(model, dynamic=True)(x, 1, scale=2)
    (path,) = module.WRITTEN
    assert any(path in str(one.message) for one in caught)
    text = open(path).read()
    assert "dynamic=True" in text and "LIMIT = 3" in text and "scale=2" in text
    with fs.config.patch(repro=""), pytest.raises(KeyError, match="a fault"):
        run(path)
    monkeypatch.undo()
    run(path)


def test_behind_a_break(failures, monkeypatch):
    LOWERINGS.load()
    HANDLERS.load()

    def f(x):
        x = x + 1
        fs.graph_break()
        return -x

    monkeypatch.setitem(HANDLERS, "UNARY_NEGATIVE", refuse)
    with pytest.warns(fs.errors.FiresteelWarning, match="fails in the same way"):
        fs.compile(f)(torch.ones(2))
    (path,) = module.WRITTEN
    assert "graph_break" in open(path).read()


def test_raised_errors_name_the_script(failures, monkeypatch):
    LOWERINGS.load()
    monkeypatch.setitem(LOWERINGS, "aten.atan.default", refuse)
    with fs.config.patch(raise_on_internal_error=True), pytest.raises(fs.errors.BackendError) as caught:
        fs.compile(lambda x: torch.atan(x))(torch.ones(2))
    (path,) = module.WRITTEN
    assert any(path in note for note in caught.value.__cause__.__notes__)


def test_nothing_is_written_where_nobody_asks(tmp_path, monkeypatch):
    LOWERINGS.load()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(LOWERINGS, "aten.atan.default", refuse)
    with fs.config.patch(raise_on_internal_error=False), pytest.warns(fs.errors.FiresteelWarning,
                                                                      match="FIRESTEEL_REPRO=1"):
        fs.compile(lambda x: x.atan(), backend="native")(torch.ones(2))
    assert not os.listdir(tmp_path)


FACTOR = 3.0


def made(scale):
    def backend(graph, examples):
        raise ValueError(f"a fault of {scale * FACTOR}")

    return backend


@fs.register_backend(name="of this test")
def registered(graph, examples):
    raise ValueError("a fault of 6.0")


@pytest.mark.parametrize("backend", [made(2.0), "of this test", lambda graph, examples: made(2.0)(graph, examples)],
                         ids=["a closure", "a name", "a lambda"])
def test_backends_of_the_program(failures, backend, monkeypatch):
    with pytest.warns(fs.errors.FiresteelWarning, match="fails in the same way"):
        fs.compile(Scaled(), backend=backend)(torch.randn(2, 4))
    (path,) = module.WRITTEN
    monkeypatch.delitem(registry._backends, "of this test")
    with fs.config.patch(repro=""), pytest.raises(fs.errors.BackendError, match=r"a fault of 6\.0"):
        run(path)


def test_backends_without_source(failures):
    with pytest.warns(fs.errors.FiresteelWarning):
        fs.compile(lambda x: x + 1, backend=eval("lambda graph, examples: 1 / 0"))(torch.ones(2))
    assert not module.WRITTEN


def test_repro_gives_the_paths(tmp_path, monkeypatch):
    LOWERINGS.load()
    monkeypatch.setitem(LOWERINGS, "aten.atan.default", refuse)
    with fs.config.patch(raise_on_internal_error=False), warnings.catch_warnings(), \
            fs.repro(str(tmp_path)) as written:
        warnings.simplefilter("ignore")
        fs.compile(lambda x: x.atan(), backend="native")(torch.ones(3))
    assert len(written) == 1 and os.path.dirname(written[0]) == str(tmp_path)


@pytest.mark.parametrize("value", [
    torch.arange(6).view(2, 3), torch.zeros(2, dtype=torch.bool), torch.randn(3, 4).t(), torch.randn(4)[1:],
    torch.randn(2, dtype=torch.bfloat16), torch.randn(2, requires_grad=True), torch.randn(2, 0), torch.tensor(3.0),
    torch.randn(2, dtype=torch.complex64), torch.ones(3, 1).expand(3, 4), torch.nn.Parameter(torch.ones(2)),
])
def test_tensors_have_the_same_layout(value):
    from firesteel.repro_scripts.values import tensor_source

    for exact in (False, True):
        made = eval(tensor_source(value, exact), {"torch": torch})
        assert (made.dtype, made.shape, made.stride(), made.requires_grad) == \
            (value.dtype, value.shape, value.stride(), value.requires_grad)
    if value.is_contiguous() and value.dtype is torch.int64:
        assert torch.equal(made, value)


OPERATORS = """import torch

SCALE = 3.0
library = torch.library.Library("repro_scripts", "FRAGMENT")
library.define("thrice(Tensor x) -> Tensor")
x = object()


def thrice(x):
    return x * SCALE


@torch.library.impl(library, "thrice", "CompositeExplicitAutograd")
def _(x):
    return thrice(x)


@torch.library.register_fake("repro_scripts::thrice")
def thrice_fake(x):
    return torch.empty_like(x)


@torch.library.custom_op("repro_scripts::lie", mutates_args=())
def lie(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0, keepdim=True)


@lie.register_fake
def _(x):
    return torch.empty_like(x)


lie.register_autograd(lambda context, x: x)


def unused(x):
    return x


def f(x):
    return lie(torch.ops.repro_scripts.thrice(x)).cos()
"""


def forgotten(namespace):
    known = types.ModuleType("known")
    vars(known).update(namespace)
    forget_operators({"repro_scripts::lie", "repro_scripts::thrice"}, known)


@pytest.mark.parametrize("of_graph", [False, True])
def test_operators_of_the_programs_come_with_their_kernels(tmp_path, monkeypatch, of_graph):
    path = tmp_path / "operators.py"
    path.write_text(OPERATORS)
    main = types.ModuleType("__main__")
    main.__file__ = str(path)
    exec(compile(OPERATORS, str(path), "exec"), vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    try:
        if of_graph:
            graph = fs.capture_graph(main.f)(torch.ones(2, 3)).graph_module
            text = module.script_of_graph(graph, [torch.ones(2, 3)], "a graph")
        else:
            text = module.script_of_function(main.f.__code__, vars(main), [torch.ones(2, 3)], "a function")
    finally:
        forgotten(vars(main))
    assert "unused" not in text and "thrice_fake" in text and "lie.register_autograd" in text
    namespace = {"__name__": "__main__"}
    try:
        with pytest.raises(AssertionError, match=r"\(1, 3\)"):
            exec(compile(text, "script", "exec"), namespace)
    finally:
        forgotten(namespace)


def test_names_of_parameters_are_not_those_of_the_file():
    names = functions.read_names(ast.parse("f = lambda x, *more: [x + y for x in more if LIMIT]").body[0])
    assert sorted(names) == ["LIMIT", "y"]
