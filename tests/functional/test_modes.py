"""Grad mode, inference mode and autocast inside graphs; random numbers; order of what has effects."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.functional import Unsupported, run, trace
from functional.programs import Traced, assert_equal_worlds, assert_same, check


def test_autocast():
    def program(a, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = a @ w
            z = torch.nn.functional.layer_norm(y, (5,))
        return y, z, a @ w

    graph = assert_same(program, torch.randn(3, 4), torch.randn(4, 5))
    assert not graph.state_changes


def test_grad_mode_is_put_back():
    def program(a):
        with torch.no_grad():
            b = a * 2
        return b + 1

    assert not assert_same(program, torch.randn(3, 4)).state_changes
    assert torch.is_grad_enabled()


def test_a_graph_that_ends_inside_a_mode():
    def program(a):
        with torch.no_grad():
            b = a * 2
            fs.graph_break()
            return b + 1, torch.is_grad_enabled()

    backend = Traced()
    compiled = fs.compile(program, backend=backend)
    x = torch.randn(3)
    result, enabled = compiled(x)
    torch.testing.assert_close(result, x * 2 + 1)
    assert enabled is False and torch.is_grad_enabled()
    assert [change.args for graph in backend.graphs for change in graph.state_changes] == [(False,), (True,)]


def test_random_operators_keep_their_order():
    def program(a):
        torch.rand(3)  # nobody uses it, but it moves the generator
        b = torch.rand_like(a)
        c = torch.nn.functional.dropout(a, 0.5, True)
        return b, c, torch.randn(2, 2), torch.rand_like(a), torch.randperm(5)

    assert_same(program, torch.ones(4, 4), exact=True)


def test_assertions_stay():
    def program(a, i):
        torch._check(i.item() > 0, lambda: "not positive")
        return a + 1

    backend = Traced()
    compiled = fs.compile(program, backend=backend)
    x = torch.ones(2)
    assert_equal_worlds(program(x, torch.tensor(2)), [], compiled(x, torch.tensor(2)), [], exact=True)
    with pytest.raises(RuntimeError, match="not positive"):
        compiled(x, torch.tensor(-1))


def test_inference_mode_inside():
    def program(a):
        with torch.inference_mode():
            b = (a * 2).sum()
        return a + 1, b.item() > 3

    backend = Traced()
    x = torch.ones(4)
    torch.testing.assert_close(fs.compile(program, backend=backend)(x)[0], x + 1)


def test_a_graph_that_ends_inside_inference_mode_is_refused():
    def program(a):
        with torch.inference_mode():
            b = (a * 2).sum()
            fs.graph_break()
            return b + 1

    refused = []

    def backend(module, example_inputs):
        try:
            return Traced()(module, example_inputs)
        except Unsupported as error:
            refused.append(error.reason)
            return module.forward

    torch.testing.assert_close(fs.compile(program, backend=backend)(torch.ones(3)), torch.tensor(7.0))
    assert refused and not torch.is_inference_mode_enabled()


def test_default_device():
    def program(a):
        with torch.device("cpu"):
            return a + torch.ones(3)

    assert_same(program, torch.ones(3))


def test_profiler_regions():
    def program(a):
        with torch.profiler.record_function("region"):
            return a + 1

    assert_same(program, torch.ones(3))


def test_gradients_inside_of_a_trace():
    def program(a, w):
        y = torch.nn.functional.gelu(torch.nn.functional.layer_norm(a @ w, (5,)))
        y[0].mul_(2)
        loss = torch.nn.functional.cross_entropy(y, torch.arange(3))
        return torch.autograd.grad(loss, (a, w))

    graph = torch.fx.Graph()
    graph.output(graph.call_function(program, (graph.placeholder("a"), graph.placeholder("w"))))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    inputs = [torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)]
    functional = trace(module, inputs)
    check(functional)
    torch.testing.assert_close(run(functional, [t.detach() for t in inputs]), program(*inputs))


def test_nodes_know_their_lines():
    def program(a):
        b = a.sin()
        return torch.nn.functional.linear(b, b)

    graph = assert_same(program, torch.ones(3, 3))
    for node in graph.graph.nodes:
        if node.op == "call_function":
            assert node.meta["user_frames"][-1].function in ("program", "linear"), node
            assert "test_modes.py" in node.meta["stack_trace"]
