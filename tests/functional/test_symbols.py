"""Sizes and numbers that are symbols: nodes of the graph, one graph for all values."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.fake import FakeMode
from firesteel.functional import Number, run, trace
from firesteel.shapes import ShapeEnv
from firesteel.shapes.symnode import make_symbolic
from functional.programs import Traced, assert_equal_worlds, check

PROGRAMS = {
    "pointwise": lambda a: a.sin() * 2 + 1,
    "view": lambda a: (a * 2).view(-1)[1:],
    "sizes": lambda a: a.sum() / a.size(0) + a.shape[1],
    "returned size": lambda a: (a + 1, a.size(0) * 2 + a.size(1)),
    "linear": lambda a: torch.nn.functional.linear(a.t(), torch.ones(3, 1).expand(3, a.size(0))),
    "softmax": lambda a: torch.softmax(a @ a.t(), -1),
    "layer norm": lambda a: torch.nn.functional.layer_norm(a, (a.shape[-1],)),
    "arange": lambda a: a + torch.arange(a.size(1)),
    "cat": lambda a: torch.cat([a, a[:1] * 2]),
    "write": lambda a: (a[1:].add_(1), a[:, a.size(1) - 1].zero_(), a * 1)[-1],
    "view of input": lambda a: (a[1:], a.t(), a * 2),
    "views of a result": lambda a: (lambda y: (y[1:], y.t()))(a + 1),
    "expand": lambda a: a.unsqueeze(1).expand(-1, 3, -1).reshape(a.size(0) * 3, a.size(1)),
    "mask": lambda a: a.masked_fill(torch.ones(a.shape, dtype=torch.bool).triu(), 0.0),
    "attention": lambda a: torch.nn.functional.scaled_dot_product_attention(*[a[None, None]] * 3),
    "reshape": lambda a: torch.stack([a, a], 1).flatten(0, 1).t().contiguous(),
    "halves": lambda a: (lambda h: (a[:, :h] + 1, a[:, h:]))(a.size(1) // 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_for_many_sizes(name):
    program = PROGRAMS[name]
    backend = Traced()
    compiled = fs.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for rows, columns in ((4, 6), (5, 8), (11, 7)):
        expected, actual = [torch.linspace(-1, 1, rows * columns).reshape(rows, columns) for _ in range(2)]
        assert_equal_worlds(program(expected), [expected], compiled(actual), [actual], exact=False)
    assert len(backend.graphs) == 1
    assert name == "write" or not backend.graphs[0].guards


def test_numbers_as_inputs():
    backend = Traced()
    compiled = fs.compile(lambda a, s, n: (a * s + n, a - s, torch.zeros(n), a.clamp(min=s)), backend=backend,
                          fullgraph=True, dynamic=True)
    x = torch.rand(5)
    for s, n in ((2.5, 3), (0.5, 7), (1.5, 4)):
        expected = (x * s + n, x - s, torch.zeros(n), x.clamp(min=s))
        assert_equal_worlds(expected, [], compiled(x, s, n), [], exact=True)
    assert len(backend.graphs) == 1


def test_sizes_are_nodes():
    env = ShapeEnv()
    rows = make_symbolic(env, env.new_symbol(6, "rows", lower=2))
    x = FakeMode().from_real(torch.ones(6, 4), ((rows, 4), (4, 1)))
    graph = trace(torch.fx.symbolic_trace(lambda a: (a.view(-1, 2) + 1, a.size(0) + 1)), [x])
    check(graph)
    assert isinstance(graph.outputs[-1], Number)
    assert str(graph).splitlines() == [
        "input a: f32[s0, 4]",
        "view: f32[2*s0, 2] = aten.view.default(a, [-1, 2])",
        "add: f32[2*s0, 2] = aten.add.Tensor(view, 1)",
        "sym_size: s0 = aten.sym_size.int(a, 0)",
        "add_1: s0 + 1 = add(sym_size, 1)",
        "return add, add_1",
    ]


def test_sizes_that_data_decides():
    def program(a):
        found = torch.nonzero(a > 0)
        return found * 2, a[a > 0] + 1, found.size(0) + 1

    backend = Traced()
    compiled = fs.compile(program, backend=backend)
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(3, 4)
        assert_equal_worlds(program(x), [x], compiled(x), [x], exact=True)
    assert len(backend.graphs) == 1


def test_items():
    def program(a, i):
        n = i.item()
        torch._check(n >= 0)
        torch._check(n <= 3)
        return torch.zeros(n + 1) + a.sum(), a * n

    backend = Traced()
    compiled = fs.compile(program, backend=backend)
    x = torch.ones(4)
    for n in (1, 3, 2):
        assert_equal_worlds(program(x, torch.tensor(n)), [], compiled(x, torch.tensor(n)), [], exact=True)


def test_a_size_and_a_number_that_data_decide():
    def program(a):
        kept = a[a > 0]
        return kept * kept.size(0), kept.sum().item(), a[a > 1].size(0)

    backend = Traced()
    compiled = fs.compile(program, backend=backend)
    for numbers in ([1.0, -1.0, 2.0], [-1.0, -1.0, -1.0], [3.0, 1.5, 0.0]):
        x = torch.tensor(numbers)
        assert_equal_worlds(program(x), [x], compiled(x), [x], exact=True)
    assert len(backend.graphs) == 1


def test_plain_modules_with_real_tensors():
    class Block(torch.nn.Module):
        def forward(self, a, w):
            return torch.nn.functional.gelu(a @ w).t()

    x, w = torch.randn(3, 4), torch.randn(4, 5)
    graph = trace(torch.fx.symbolic_trace(Block()), [x, w])
    check(graph)
    torch.testing.assert_close(run(graph, [x, w]), Block()(x, w))


def test_a_number_is_read_twice():
    """Each has a symbol of its own, and nobody asks whether they are equal."""
    def program(a, b):
        for _ in range(2):
            number = a.sum().item()
            assert number, "zero"
        return (b * 1).sin() * number

    a, b = torch.randn(4), torch.randn(4, requires_grad=True)
    with fs.config.patch(raise_on_internal_error=True):
        compiled = fs.compile(program, backend="native", fullgraph=True)
        torch.testing.assert_close(compiled(a, b), program(a, b))


def test_backward_takes_sizes_that_only_gradients_need():
    compiled = fs.compile(lambda a: torch.nn.functional.pad(a, (1, 2)), backend="native", dynamic=True, fullgraph=True)
    for size in (3, 5):
        a = torch.randn(2, size, requires_grad=True)
        compiled(a).sum().backward()
        assert a.grad.equal(torch.ones(2, size))
