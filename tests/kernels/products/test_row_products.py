"""Products of one row with a transposed matrix as loops: which of them, and with what results."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.products.row_products import row_products
from passes.pass_checks import body, check_compiled, functional, operators, transformed


@pytest.fixture(autouse=True)
def on_any_cpu(monkeypatch):
    monkeypatch.setattr(sys.modules[row_products.__module__], "mkl_is_slower", lambda: True)
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def linear(x0, x1, x2):
    return F.linear(x0, x1, x2)


def arguments(rows=1, inputs=96, outputs=70, dtype=torch.float32):
    return torch.randn(rows, inputs, dtype=dtype), torch.randn(outputs, inputs, dtype=dtype), \
        torch.randn(outputs, dtype=dtype)


def is_taken(f, *args):
    return bool({"aten.mv.default", "aten.addmv.default"} & set(operators(transformed(row_products, f, *args))))


def test_graph_before_and_after():
    assert body(functional(linear, arguments())) == (
        "t: f32[96, 70]/[1, 96] = aten.t.default(x1)\n"
        "addmm: f32[1, 70] = aten.addmm.default(x2, x0, t)\n"
        "return addmm")
    assert body(transformed(row_products, linear, *arguments())) == (
        "select_int: f32[96] = aten.select.int(x0, 0, 0)\n"
        "addmv_default: f32[70] = aten.addmv.default(x2, x1, select_int)\n"
        "unsqueeze_default: f32[1, 70] = aten.unsqueeze.default(addmv_default, 0)\n"
        "return unsqueeze_default")


@pytest.mark.parametrize("f", [
    linear, lambda x0, x1, x2: x0 @ x1.t(), lambda x0, x1, x2: F.linear(x0[None], x1),
    lambda x0, x1, x2: F.linear(x0[:, 3:40], x1[:, 3:40], x2), lambda x0, x1, x2: F.linear(x0[:, ::2], x1[:, :48]),
    # what is computed before and after, and a row that several products read
    lambda x0, x1, x2: F.silu(F.linear(F.softmax(x0 * 2, -1), x1, x2)) * F.linear(F.softmax(x0 * 2, -1), x1 + 1),
    lambda x0, x1, x2: F.linear(F.linear(torch.tanh(x0), x1).sigmoid(), x1.t().contiguous()),
])  # fmt: skip
def test_taken(f):
    assert is_taken(f, *arguments())
    check_compiled(f, *arguments())


@pytest.mark.parametrize("f", [
    lambda x0, x1, x2: x0 @ x1[:, ::2].t().new_ones(96, 4), lambda x0, x1, x2: F.linear(x0[:, :48], x1[:, ::2]),
    lambda x0, x1, x2: F.linear(x0.expand(2, 96), x1), lambda x0, x1, x2: torch.addmm(x2, x0, x1.t(), beta=2),
    lambda x0, x1, x2: torch.addmm(x2[:1], x0, x1.t()),
])  # fmt: skip
def test_left_alone(f):
    assert not is_taken(f, *arguments())
    check_compiled(f, *arguments())


def test_other_dtypes_and_precisions_left_alone():
    assert not is_taken(linear, *arguments(dtype=torch.bfloat16))
    assert not is_taken(linear, *arguments(dtype=torch.float64))
    torch.set_float32_matmul_precision("medium")
    try:
        assert not is_taken(linear, *arguments())
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("inputs", [1, 7, 1000])
def test_rounding(inputs):
    x, weight, bias = arguments(1, inputs, 300)
    exact = F.linear(x.double(), weight.double(), bias.double())
    result = fs.compile(linear, backend="native", fullgraph=True)(x, weight, bias)
    assert (result - exact).abs().max() <= 2 * (linear(x, weight, bias) - exact).abs().max() + 1e-12


def test_not_a_number_and_infinities():
    x, weight, bias = arguments()
    x[0, 5] = float("inf")
    weight[3] = 0
    weight[4, 0] = float("nan")
    check = fs.compile(linear, backend="native", fullgraph=True)(x, weight, bias)
    torch.testing.assert_close(check, linear(x, weight, bias), equal_nan=True)


def test_rows_that_change():
    """A program for several rows runs with one, and the other way round."""
    f = fs.compile(linear, backend="native", fullgraph=True)
    for rows in (1, 4, 1, 9, 2):
        torch.testing.assert_close(f(*(args := arguments(rows))), linear(*args))


@pytest.mark.parametrize("depth", [0, 1])
def test_signs_of_zeros(depth):
    def linear(x, w, b):
        return F.linear(x, w, b), F.linear(x, w)

    x, w, b = torch.full((1, depth), -0.0), torch.tensor([[1.0], [-1.0], [0.0]])[:, :depth], -torch.zeros(3)
    for found, expected in zip(fs.compile(linear)(x, w, b), linear(x, w, b), strict=True):
        assert found.signbit().tolist() == expected.signbit().tolist()
    short = [part.bfloat16() for part in (x, w, b)]
    assert fs.compile(linear)(*short)[0].signbit().tolist() == linear(*short)[0].signbit().tolist()
