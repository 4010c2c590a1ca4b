"""The code blocks of PyTorch's compiler FAQ that concern capture, under firesteel and on the CPU.

Blocks that the FAQ calls unsupported must work here too: captured or broken, the results are those of plain Python.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np
import pytest
import torch

import firesteel as fs
from firesteel.errors import GraphBreakError
from seeds.recording import Recorder


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b


def quietly(function, *args):
    """The result of a call and what it printed."""
    with redirect_stdout(io.StringIO()) as printed:
        result = function(*args)
    return result, printed.getvalue()


# Why is my code crashing? Why is compilation slow?


def test_backend_eager_and_nopython():
    compiled = fs.compile(lambda x: torch.sin(x) + 1, backend="eager", nopython=True)
    assert torch.equal(compiled(torch.ones(3)), torch.sin(torch.ones(3)) + 1)
    with pytest.raises(GraphBreakError):
        quietly(fs.compile(toy_example, nopython=True), torch.randn(10), torch.randn(10))


def test_compile_times():
    quietly(fs.compile(toy_example), torch.randn(10), torch.randn(10))
    assert "toy_example" in fs.compile_times()
    fs.reset()
    assert "toy_example" not in fs.compile_times()


def test_compile_profiler():
    def my_model(x, scale):
        return x * len(scale)

    with fs.CompileProfiler() as prof:
        profiler_model = fs.compile(my_model, backend=prof)
        profiler_model(torch.ones(2), "ab")
        assert "no recompilation" in prof.report()
        profiler_model(torch.ones(2), "abc")
    assert prof.frame_count == 2 and prof.op_count == 2
    (where, why), = prof.recompilations
    assert "my_model" in where and "scale" in why
    assert why in prof.report()


# Why are you recompiling in production?


def test_run():
    recorder = Recorder()
    compiled = fs.compile(toy_example, backend=recorder)
    frozen_toy_example = fs.run(compiled)
    args = torch.randn(10), torch.ones(10)
    assert torch.equal(quietly(frozen_toy_example, *args)[0], quietly(toy_example, *args)[0])
    assert recorder.graphs == []  # nothing was compiled, and nothing is compiled now
    quietly(compiled, *args)
    count = len(recorder.graphs)
    assert count == 2
    b = torch.ones(10)
    for args in [(torch.randn(10), b), (torch.randn(10), -b), (torch.randn(7), torch.ones(7))]:
        assert torch.equal(quietly(frozen_toy_example, *args)[0], quietly(toy_example, *args)[0])
    assert len(recorder.graphs) == count
    quietly(compiled, torch.randn(10), -torch.ones(10))
    assert len(recorder.graphs) == count + 1  # the compiled function itself still compiles


# Identifying the cause of a graph break


def test_explain_toy_example():
    explanation, printed = quietly(fs.explain(toy_example), torch.randn(10), torch.ones(10))
    assert printed == "woo\n"
    # The FAQ shows 3 graphs and 2 breaks: here printing does not break, it is replayed in order.
    assert (explanation.graph_count, explanation.graph_break_count) == (2, 1)
    assert explanation.op_count == 6
    assert [reason.frames[-1].source for reason in explanation.break_reasons] == ["if b.sum() < 0:"]
    assert explanation.out_guards and len(explanation.ops_per_graph) == 2


def test_printing_breaks_when_replay_is_off():
    with fs.config.patch(print_replay=False):
        explanation, printed = quietly(fs.explain(toy_example), torch.randn(10), torch.ones(10))
    assert printed == "woo\n"
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (3, 2, 6)
    assert [reason.frames[-1].source for reason in explanation.break_reasons] == ['print("woo")', "if b.sum() < 0:"]


def test_toy_example_results():
    compiled = fs.compile(toy_example)
    for b in (torch.ones(10), -torch.ones(10)):
        a = torch.randn(10)
        assert quietly(compiled, a, b)[1] == "woo\n"
        assert torch.equal(quietly(compiled, a, b)[0], quietly(toy_example, a, b)[0])


def test_fullgraph():
    with pytest.raises(GraphBreakError, match="if b.sum"):
        quietly(fs.compile(toy_example, fullgraph=True, backend="eager"), torch.randn(10), torch.randn(10))


# torch.func


def test_transform_of_a_compiled_function():
    @fs.compile
    def f(x):
        return torch.sin(x)

    def g(x):
        return torch.func.grad(lambda x: f(x).sum())(x)

    x = torch.randn(2, 3)
    assert torch.allclose(g(x), torch.cos(x))
    assert torch.equal(torch.vmap(f)(x), torch.sin(x))


def test_vmap_inside():
    def f(x):
        return torch.sin(x)

    @fs.compile
    def g(x):
        return torch.vmap(f)(x)

    x = torch.randn(2, 3)
    assert torch.equal(g(x), torch.sin(x))


def test_grad_inside():
    def wrapper_fn(x):
        return torch.func.grad(lambda x: x.sin().sum())(x)

    x = torch.randn(3, 3, 3)
    assert torch.allclose(fs.compile(wrapper_fn)(x), x.cos())


def test_vmap_of_a_lambda():
    def my_fn(x):
        return torch.vmap(lambda x: x.sum(1))(x)

    x = torch.randn(3, 3, 3)
    torch.testing.assert_close(fs.compile(my_fn)(x), my_fn(x))


def test_vmap_over_a_tuple():
    def fn(x):
        x1, x2 = x
        return x1 + x2

    def my_fn(x):
        return torch.func.vmap(fn)(x)

    x1, x2 = torch.randn(3, 3, 3), torch.randn(3, 3, 3)
    assert torch.equal(fs.compile(my_fn)((x1, x2)), x1 + x2)


def test_grad_with_a_keyword():
    def fn(x, y):
        return (x + y).sum()

    def my_fn(x, y):
        return torch.func.grad(fn)(x, y=y)

    x, y = torch.randn(3, 3), torch.randn(3, 3)
    assert torch.equal(fs.compile(my_fn)(x, y), torch.ones(3, 3))


def test_vmap_with_a_side_effect():
    some_list = []

    def f(x, y):
        some_list.append(1)
        return x + y

    def my_fn(x, y):
        return torch.func.vmap(f)(x, y)

    x, y = torch.ones(2, 3), torch.randn(2, 3)
    compiled = fs.compile(my_fn)
    assert torch.equal(compiled(x, y), x + y) and some_list == [1]
    assert torch.equal(compiled(x, y), x + y) and some_list == [1, 1]


def test_vmap_of_a_function_that_asks_for_strides():
    def bad_fn(x):
        x.stride()
        return x

    def my_fn(x):
        return torch.func.vmap(bad_fn)(x)

    x = torch.randn(3, 3, 3)
    assert torch.equal(fs.compile(my_fn)(x), x)


def test_allow_in_graph():
    @fs.compile
    def f(x):
        return fs.allow_in_graph(torch.vmap(torch.sum))(x)

    x = torch.randn(2, 3)
    assert torch.equal(f(x), torch.vmap(torch.sum)(x))
    assert torch.equal(f(x), torch.vmap(torch.sum)(x))


# NumPy


def test_numpy():
    @fs.compile
    def numpy_fn(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1))

    for _ in range(2):
        X, Y = np.random.randn(16, 8), np.random.randn(16, 8)
        with torch.device("cpu"):
            Z = numpy_fn(X, Y)
        assert isinstance(Z, np.ndarray)
        np.testing.assert_allclose(Z, np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1)))


def test_numpy_between_tensors():
    @fs.compile
    def numpy_fn(X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        X, Y = X.numpy(), Y.numpy()
        Z = np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1))
        return torch.from_numpy(Z)

    for _ in range(2):
        X, Y = torch.randn(16, 8), torch.randn(16, 8)
        with torch.device("cpu"):
            Z = numpy_fn(X, Y)
        torch.testing.assert_close(Z, (X[:, :, None] * Y[:, None, :]).sum((-2, -1)))


# Which API to use for fine grain tracing?


def test_disable():
    recorder = Recorder()

    def inner(x):
        return x.cos()

    @fs.disable
    def excluded(x):
        return inner(x) + 1

    @fs.compile(backend=recorder)
    def f(x):
        return excluded(x.sin()).exp()

    x = torch.randn(3)
    assert torch.equal(f(x), (x.sin().cos() + 1).exp())
    names = [node.name for gm in recorder.graphs for node in gm.graph.nodes if node.op.startswith("call")]
    assert names == ["sin", "exp"]


def test_disallow_in_graph():
    recorder = Recorder()
    with_sub = fs.compile(lambda x: torch.sub(torch.add(x, 1), 2) * 3, backend=recorder)
    fs.disallow_in_graph(torch.sub)
    try:
        x = torch.randn(3)
        assert torch.equal(with_sub(x), (x + 1 - 2) * 3)
    finally:
        fs.allow_in_graph(torch.sub)
    names = [node.name for gm in recorder.graphs for node in gm.graph.nodes if node.op.startswith("call")]
    assert names == ["add", "mul"]


def test_disable_only_one_frame():
    """The FAQ's picture: a_fn itself runs plain, and aa_fn and ab_fn, which it calls, are compiled."""
    recorder = Recorder()

    def aa_fn(x):
        return x.sin()

    def ab_fn(x):
        return x.cos()

    @fs.disable(recursive=False)
    def a_fn(x):
        return ab_fn(aa_fn(x).neg())

    @fs.compile(backend=recorder)
    def f(x):
        return a_fn(x.abs()).exp()

    x = torch.randn(3)
    for _ in range(2):
        assert torch.equal(f(x), x.abs().sin().neg().cos().exp())
    names = [node.name for gm in recorder.graphs for node in gm.graph.nodes if node.op.startswith("call")]
    assert names == ["abs_1", "sin", "cos", "exp"]


def test_graph_break_prevents_inlining():
    recorder = Recorder()

    def inner(x):
        fs.graph_break()
        return x.cos()

    @fs.compile(backend=recorder)
    def f(x):
        return inner(x.sin()).exp()

    x = torch.randn(3)
    assert torch.equal(f(x), x.sin().cos().exp())
    assert len(recorder.graphs) == 3


@pytest.mark.parametrize("setting, compilations", [("1", 1), ("auto", 2), ("0", 4)])
def test_dynamic_shapes_setting(setting, compilations):
    """ "If you enabled dynamic shapes [...] your code won't recompile on shape changes"; 0 switches them off."""
    def layer(x, weight):
        return torch.relu(x @ weight).sum(dim=-1) / x.shape[0]

    graphs = []

    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    with fs.config.patch(dynamic_shapes=setting):
        compiled = fs.compile(layer, backend=backend)
        for batch in (3, 7, 20, 64):
            args = torch.randn(batch, 8), torch.randn(8, 5)
            torch.testing.assert_close(compiled(*args), layer(*args))
    assert len(graphs) == compilations
