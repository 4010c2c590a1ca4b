"""Matrix products in oneDNN: which of them, and that results stay as exact as eager's."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

from firesteel.kernels.products.linear_library import linear_library
from firesteel.torch_compat import library_operators
from passes.pass_checks import body, check_compiled, functional, operators, transformed

LINEAR = "mkldnn._linear_pointwise.default"
pytestmark = pytest.mark.skipif(library_operators.onednn_linear() is None, reason="this torch has no oneDNN")


@pytest.fixture(autouse=True)
def on_every_machine(monkeypatch):
    torch.manual_seed(0)
    module = sys.modules[linear_library.__module__]
    monkeypatch.setattr(module, "mkl_is_slower", lambda: True)
    monkeypatch.setattr(library_operators, "onednn_has_bfloat16", lambda: True)
    with torch.no_grad():
        yield


def linear(x0, x1, x2):
    return F.linear(x0, x1, x2)


def arguments(rows, inputs, outputs, dtype=torch.float32):
    weight = torch.randn(outputs, inputs) / inputs**0.5
    return torch.randn(rows, inputs, dtype=dtype), weight.to(dtype), torch.randn(outputs, dtype=dtype)


def test_graph_before_and_after():
    args = arguments(512, 384, 128)
    assert body(functional(linear, args)) == (
        "t: f32[384, 128]/[1, 384] = aten.t.default(x1)\n"
        "addmm: f32[512, 128] = aten.addmm.default(x2, x0, t)\n"
        "return addmm")
    assert body(transformed(linear_library, linear, *args)) == (
        "_linear_pointwise_default: f32[512, 128] = mkldnn._linear_pointwise.default(x0, x1, x2, 'none', [], '')\n"
        "return _linear_pointwise_default")
    check_compiled(linear, *args)


def test_without_bias():
    x0, x1, _ = arguments(512, 384, 128)
    assert operators(transformed(linear_library, lambda x0, x1: F.linear(x0, x1), x0, x1)) == [LINEAR]


@pytest.mark.parametrize("args", [
    arguments(512, 768, 128), arguments(8, 384, 128), arguments(512, 384, 128, torch.float64),
    (torch.randn(384, 512).t(), *arguments(1, 384, 128)[1:]),
])  # fmt: skip
def test_left_alone(args):
    assert LINEAR not in operators(transformed(linear_library, linear, *args))


def test_other_products_left_alone():
    x0, x1, x2 = arguments(512, 384, 384)
    for f in (lambda x0, x1, x2: x0 @ x1, lambda x0, x1, x2: torch.addmm(x2, x0, x1.t(), beta=2),
              lambda x0, x1, x2: torch.addmm(x2[:1], x0, x1.t())):
        assert LINEAR not in operators(transformed(linear_library, f, x0, x1, x2))


def test_rounding_error():
    x0, x1, x2 = arguments(1024, 384, 384)
    operator = library_operators.onednn_linear()
    exact = F.linear(x0.double(), x1.double(), x2.double())
    errors = [(result.double() - exact).pow(2).mean().sqrt()
              for result in (operator(x0, x1, x2, "none", [], ""), F.linear(x0, x1, x2))]
    assert errors[0] <= 2 * errors[1]


@pytest.mark.skipif(not library_operators.onednn_has_bfloat16(), reason="no bfloat16 in this machine's oneDNN")
@pytest.mark.parametrize("rows", [1, 64])
def test_bfloat16_bit_for_bit(rows):
    args = arguments(rows, 96, 160, torch.bfloat16)
    after = transformed(linear_library, linear, *args)
    assert operators(after) == [LINEAR]
    from firesteel.functional import run

    assert torch.equal(run(after, list(args))[0], F.linear(*args))
    check_compiled(linear, *args)
