"""Gradients of tables that are looked up and multiplied with: rows added in place, with eager's results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.passes.embedding_gradients import embedding_gradients

from .pass_checks import check_compiled, operators, transformed

ROWS = torch.ops.aten.embedding_dense_backward.default
ADDED = "firesteel.add_embedding_gradient.default"
INDICES = torch.tensor([[3, 0, 3], [5, 1, 3]])


@pytest.mark.parametrize("padding", [-1, 3])
@pytest.mark.parametrize("swapped", [False, True])
def test_rows_are_added(padding, swapped):
    def f(x0, x1, x2, x3):
        table, rows = x0 @ x1, ROWS(x2, x3, 7, padding, False)
        return rows + table if swapped else table + rows

    args = torch.randn(7, 5), torch.randn(5, 4), torch.randn(2, 3, 4), INDICES
    found = operators(transformed(embedding_gradients, f, *args))
    assert ADDED in found and str(ROWS) not in found
    check_compiled(f, *args)


@pytest.mark.parametrize("f", [
    lambda x0, x1, x2: torch.add(x0, ROWS(x1, x2, 7, -1, False), alpha=2),
    lambda x0, x1, x2: x0 + ROWS(x1, x2, 7, -1, True),
    lambda x0, x1, x2: (x0 + (rows := ROWS(x1, x2, 7, -1, False)), rows * 2),
    lambda x0, x1, x2: x0[:1] + ROWS(x1, x2, 7, -1, False),
    lambda x0, x1, x2: x0.bfloat16() + ROWS(x1.bfloat16(), x2, 7, -1, False),
])
def test_what_stays(f):
    args = torch.randn(7, 4), torch.randn(2, 3, 4), INDICES
    assert ADDED not in operators(transformed(embedding_gradients, f, *args))
    check_compiled(f, *args)


@pytest.mark.parametrize("f", [
    lambda x0, x1, x2: (x0 + ROWS(x2, INDICES, 7, -1, False), x0 * 2),
    lambda x0, x1, x2: ((table := x0 @ x1) + ROWS(x2, INDICES, 7, -1, False), table),
    lambda x0, x1, x2: ((table := x0 @ x1) + ROWS(x2, INDICES, 7, -1, False), table.t() * 3, table[2].sum()),
    lambda x0, x1, x2: (x0 @ x1).t().contiguous().t() + ROWS(x2, INDICES, 7, -1, False),
    lambda x0, x1, x2: (x0 @ x1).relu() + ROWS(x2, INDICES, 7, -1, False),
    lambda x0, x1, x2: (x0 @ x1 + ROWS(x2, INDICES, 7, -1, False)) + ROWS(x2 * 2, INDICES, 7, 3, False),
    lambda x0, x1, x2: (x0 @ x1 + ROWS(x2 + (x0 @ x1)[1], INDICES, 7, -1, False)).exp().sum(0),
])
def test_what_others_use_is_not_changed(f):
    check_compiled(f, torch.randn(7, 4), torch.randn(4, 4), torch.randn(2, 3, 4))


def test_a_tied_table_trains():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(300, 64))

        def forward(self, tokens):
            hidden = F.layer_norm(F.embedding(tokens, self.table), (64,))
            return F.cross_entropy(hidden.flatten(0, 1) @ self.table.t(), tokens.flatten())

    module, tokens = Tied(), torch.randint(0, 300, (4, 33))
    compiled = fs.compile(module, backend="native", fullgraph=True)
    want = torch.autograd.grad(module(tokens), module.table)[0]
    exact = torch.autograd.grad(module.double()(tokens), module.table)[0]
    module.float()
    got = torch.autograd.grad(compiled(tokens), module.table)[0]
    torch.testing.assert_close(got, want)
    assert (got - exact).norm() <= 2 * (want - exact).norm()
