"""Products padded to multiples of 16 bytes: which are, and that results and strides stay those of eager."""

from __future__ import annotations

import sys

import pytest
import torch

from firesteel.kernels.products.pad_products import pad_products
from passes.pass_checks import body, functional, operators, transformed

module = sys.modules[pad_products.__module__]


@pytest.fixture(autouse=True)
def small_products_count(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(module, "LEAST_WORK", 1)


def product(x0, x1):
    return torch.mm(x0, x1.t())


def test_graph_before_and_after():
    args = torch.randn(16, 8).bfloat16(), torch.randn(13, 8).bfloat16()
    assert body(transformed(pad_products, product, *args)) == (
        "constant_pad_nd_default: bf16[16, 8] = aten.constant_pad_nd.default(x1, [0, 0, 0, 3])\n"
        "t_default: bf16[8, 16]/[1, 8] = aten.t.default(constant_pad_nd_default)\n"
        "mm_default: bf16[16, 16] = aten.mm.default(x0, t_default)\n"
        "slice_tensor: bf16[16, 13]/[16, 1] = aten.slice.Tensor(mm_default, 1, 0, 13)\n"
        "clone_default: bf16[16, 13] = aten.clone.default(slice_tensor, memory_format=torch.contiguous_format)\n"
        "return clone_default")


@pytest.mark.parametrize("rows, inner, columns", [(13, 8, 16), (16, 13, 16), (5, 6, 7), (9, 16, 1)])
def test_all_sides(rows, inner, columns):
    args = torch.randn(rows, inner).bfloat16(), torch.randn(columns, inner).bfloat16()
    assert "aten.constant_pad_nd.default" in operators(transformed(pad_products, product, *args))


def test_padding_is_shared_by_the_products_of_a_gradient():
    def both(x0, x1, x2):
        return torch.mm(x0, x1), torch.mm(x0.t(), x2)

    args = torch.randn(16, 13).bfloat16(), torch.randn(13, 8).bfloat16(), torch.randn(16, 8).bfloat16()
    found = operators(transformed(pad_products, both, *args))
    assert found.count("aten.constant_pad_nd.default") == 2  # of x0 once, and of x1


@pytest.mark.parametrize("args", [
    (torch.randn(16, 8).bfloat16(), torch.randn(16, 8).bfloat16()),
    (torch.randn(16, 8), torch.randn(13, 8)),
], ids=["aligned", "float32"])  # fmt: skip
def test_others_stay(args):
    assert operators(pad_products(functional(product, args))) == ["aten.t.default", "aten.mm.default"]


def test_small_ones_stay(monkeypatch):
    monkeypatch.setattr(module, "LEAST_WORK", 1 << 20)
    args = torch.randn(16, 8).bfloat16(), torch.randn(13, 8).bfloat16()
    assert "aten.constant_pad_nd.default" not in operators(pad_products(functional(product, args)))
