"""Products that take in a relu: which do, and that results are eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firesteel.kernels.products.relu_products import relu_products
from passes.pass_checks import body, operators, transformed


def two_layers(x0, x1, x2, x3):
    return F.relu(F.linear(x0, x1, x2)) @ x3


def test_graph_before_and_after():
    torch.manual_seed(0)
    args = torch.randn(4, 8), torch.randn(16, 8), torch.randn(16), torch.randn(16, 2)
    assert body(transformed(relu_products, two_layers, *args)) == (
        "t: f32[8, 16]/[1, 8] = aten.t.default(x1)\n"
        "_addmm_activation_default: f32[4, 16] = aten._addmm_activation.default(x2, x0, t)\n"
        "mm: f32[4, 2] = aten.mm.default(_addmm_activation_default, x3)\n"
        "return mm")


@pytest.mark.parametrize("program", [
    lambda x0, x1, x2, x3: (F.relu(F.linear(x0, x1, x2)) * 2) @ x3,
    lambda x0, x1, x2, x3: (F.relu(made := F.linear(x0, x1, x2)) @ x3, made),
    lambda x0, x1, x2, x3: F.relu(torch.addmm(x2, x0, x1.t(), beta=2)) @ x3,
    lambda x0, x1, x2, x3: F.relu(torch.addmm(x2[:1], x0, x1.t())) @ x3,
], ids=["read by a kernel", "another user", "factor", "one number"])  # fmt: skip
def test_others_stay(program):
    args = torch.randn(4, 8), torch.randn(16, 8), torch.randn(16), torch.randn(16, 2)
    assert "aten._addmm_activation.default" not in operators(transformed(relu_products, program, *args))
