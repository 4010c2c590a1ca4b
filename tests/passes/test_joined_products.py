"""Products of parts of one tensor with one matrix: which are joined, equal results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from firesteel.passes.joined_products import joined_products
from passes.pass_checks import body, check_compiled, functional, operators, transformed

PRODUCT = "aten.mm.default"


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def steps(x0, x1):
    state = x0[0] @ x1
    for step in x0[1:]:
        state = torch.tanh(state) + step @ x1
    return torch.tanh(state)


def test_graph_before_and_after():
    def f(x0, x1):
        return (x0[0] @ x1).exp() + x0[1] @ x1

    args = torch.randn(2, 3, 4), torch.randn(4, 5)
    assert body(functional(f, args)) == (
        "select: f32[3, 4] = aten.select.int(x0, 0, 0)\n"
        f"mm: f32[3, 5] = {PRODUCT}(select, x1)\n"
        "exp: f32[3, 5] = aten.exp.default(mm)\n"
        "select_1: f32[3, 4] = aten.select.int(x0, 0, 1)\n"
        f"mm_1: f32[3, 5] = {PRODUCT}(select_1, x1)\n"
        "add: f32[3, 5] = aten.add.Tensor(exp, mm_1)\n"
        "return add")
    assert body(transformed(joined_products, f, *args)) == (
        "slice_tensor: f32[2, 3, 4] = aten.slice.Tensor(x0, 0, 0, 2)\n"
        "view_default: f32[6, 4] = aten.view.default(slice_tensor, [6, 4])\n"
        f"mm_default: f32[6, 5] = {PRODUCT}(view_default, x1)\n"
        "view_default_1: f32[2, 3, 5] = aten.view.default(mm_default, [2, 3, 5])\n"
        "select_int: f32[3, 5] = aten.select.int(view_default_1, 0, 0)\n"
        "select_int_1: f32[3, 5] = aten.select.int(view_default_1, 0, 1)\n"
        "exp: f32[3, 5] = aten.exp.default(select_int)\n"
        "add: f32[3, 5] = aten.add.Tensor(exp, select_int_1)\n"
        "return add")


@pytest.mark.parametrize("count, rows, products", [(9, 16, 3), (4, 32, 2), (2, 1, 1), (3, 33, 3), (1, 4, 1)])
def test_groups(count, rows, products):
    """As many products as make up 64 rows; one that is left over stays alone."""
    args = torch.randn(count, rows, 8), torch.randn(8, 8)
    assert operators(transformed(joined_products, lambda x0, x1: sum(torch.tanh(x @ x1) for x in x0.unbind()), *args)
                     ).count(PRODUCT) == products


LEFT_ALONE = {
    "results": lambda x0, x1: (x0[0] @ x1, (x0[1] @ x1).view(-1)),
    "other matrices": lambda x0, x1: (x0[0] @ x1).sin() + (x0[1] @ (x1 * 2)),
    "gaps": lambda x0, x1: (x0[0] @ x1).sin() + (x0[2] @ x1),
    "along columns": lambda x0, x1: (x0[:, 0] @ x1).sin() + (x0[:, 1] @ x1).cos(),
    "not contiguous": lambda x0, x1: (x0.transpose(1, 2)[0] @ x1).sin() + (x0.transpose(1, 2)[1] @ x1),
    "another dtype": lambda x0, x1: (x0.double()[0] @ x1.double()).sin() + (x0.double()[1] @ x1.double()),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name):
    args = torch.randn(3, 4, 4), torch.randn(4, 4)
    assert operators(transformed(joined_products, LEFT_ALONE[name], *args)).count(PRODUCT) == 2


def test_later_parts_first():
    """The parts may be multiplied in any order."""
    def f(x0, x1):
        state = torch.zeros(2, 4)
        for step in reversed(x0.unbind()):
            state = torch.tanh(state @ x1 + step @ x1)
        return state * 2

    args = torch.randn(5, 2, 4), torch.randn(4, 4)
    assert operators(transformed(joined_products, f, *args)).count(PRODUCT) == 6
    check_compiled(f, *args)


def cell_loop(cell):
    def f(x0):
        h = c = torch.zeros(x0.shape[1], 8)
        found = []
        for step in x0.unbind(0):
            h, c = cell(step, (h, c))
            found.append(h)
        return torch.stack(found), c

    return f


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{}, {"freeze": True}])
def test_cell_of_an_lstm(options, dynamic):
    check_compiled(cell_loop(nn.LSTMCell(12, 8)), torch.randn(6, 3, 12), options=options, dynamic=dynamic)


def test_large():
    check_compiled(steps, torch.randn(7, 16, 96), torch.randn(96, 96) / 10)
