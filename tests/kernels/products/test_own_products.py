"""Matrix products in our own machine code: which of them, with sizes that are known and sizes that change."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.cpu import product
from firesteel.kernels.products.linear_library import mkl_is_slower
from firesteel.kernels.products.own_products import own_products
from firesteel.passes.settings import Settings
from passes.pass_checks import body, check_compiled, functional, operators, transformed

pytestmark = pytest.mark.skipif(not (product.is_available() and mkl_is_slower()), reason="MKL is used on this CPU")


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def linear(x0, x1, x2):
    return F.linear(x0, x1, x2)


def arguments(rows=256, inputs=256, outputs=256, dtype=torch.float32):
    return torch.randn(rows, inputs, dtype=dtype), torch.randn(outputs, inputs, dtype=dtype), \
        torch.randn(outputs, dtype=dtype)


def is_own(f, *args):
    return any("product" in name for name in operators(transformed(own_products, f, *args)))


def test_graph_before_and_after():
    args = arguments()
    assert body(functional(linear, args)) == (
        "t: f32[256, 256]/[1, 256] = aten.t.default(x1)\n"
        "addmm: f32[256, 256] = aten.addmm.default(x2, x0, t)\n"
        "return addmm")
    assert body(transformed(own_products, linear, *args)) == (
        "t: f32[256, 256]/[1, 256] = aten.t.default(x1)\n"
        "product: f32[256, 256] = product(x0, t, x2)\n"
        "return product")
    check_compiled(linear, *args)


@pytest.mark.parametrize("f", [
    lambda x0, x1, x2: x0 @ x1, lambda x0, x1, x2: x0 @ x1.t(), lambda x0, x1, x2: x0.t() @ x1,
    lambda x0, x1, x2: x0[:, :200] @ x1[:200] + x2,
])  # fmt: skip
def test_taken(f):
    assert is_own(f, *arguments())
    check_compiled(f, *arguments())


@pytest.mark.parametrize("f", [
    lambda x0, x1, x2: x0[:, ::2] @ x1[:128], lambda x0, x1, x2: torch.addmm(x2, x0, x1, beta=2),
    lambda x0, x1, x2: torch.addmm(x2[:1], x0, x1), lambda x0, x1, x2: torch.addmm(x0, x0, x1),
    lambda x0, x1, x2: x0[:8] @ x1, lambda x0, x1, x2: x0 @ x1[:, ::2],
])  # fmt: skip
def test_left_alone(f):
    assert not is_own(f, *arguments())


def test_other_dtypes_left_alone():
    assert not is_own(linear, *arguments(dtype=torch.float64))
    assert not is_own(linear, *arguments(dtype=torch.bfloat16))


def test_frozen_weights_and_relaxed_libraries_left_to_the_library():
    for settings in (lambda graph: Settings(relaxed=True),
                     lambda graph: Settings(frozen=frozenset(entry.node for entry in graph.inputs))):
        graph = functional(linear, arguments())
        assert "aten.addmm.default" in operators(own_products(graph, settings(graph)))


def test_lower_precision_left_to_eager():
    torch.set_float32_matmul_precision("medium")
    try:
        graph = functional(linear, arguments())
        assert "aten.addmm.default" in operators(own_products(graph))
    finally:
        torch.set_float32_matmul_precision("highest")


def test_one_compilation_for_many_sizes():
    compiled = fs.compile(linear, backend="native", dynamic=True)
    _, weight, bias = arguments()
    for rows in (256, 300, 31, 1, 0, 257):
        x = torch.randn(rows, 256)
        got, expected = compiled(x, weight, bias), linear(x, weight, bias)
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
        assert got.stride() == expected.stride()


def test_gradients():
    weight = (torch.randn(320, 256) / 16).requires_grad_()
    bias = torch.randn(320).requires_grad_()
    x = torch.randn(288, 256).requires_grad_()
    found = []
    for f in (linear, fs.compile(linear, backend="native")):
        with torch.enable_grad():
            f(x, weight, bias).square().mean().backward()
        found.append([one.grad for one in (x, weight, bias)])
        x.grad = weight.grad = bias.grad = None
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()


def test_tuner_chooses(monkeypatch):
    class Chooses:
        def __init__(self, way):
            self.way = way

        def choose(self, title, key, ways):
            for prepare in ways.values():
                prepare()()
            return self.way

    for way in ("own", "ATen"):
        graph = own_products(functional(linear, arguments()), Settings(tuner=Chooses(way)))
        assert ("aten.addmm.default" in operators(graph)) == (way == "ATen")


def test_result_with_large_memory_and_kernels_around():
    def f(x0, x1, x2):
        return F.gelu(F.linear(torch.sin(x0), x1, x2)).sum(0)

    check_compiled(f, torch.randn(512, 256), torch.randn(2304, 256) / 16, torch.randn(2304))
