"""Convolutions of concatenations: which are taken apart, what becomes of them, how exact they are."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.passes.convolution_parts import convolution_parts
from passes.pass_checks import body, check_compiled, functional, operators, transformed

CONVOLUTION = "aten.convolution.default"


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def joined(x0, x1, x2, x3):
    return F.conv2d(torch.cat([x0, x1], 1), x2, x3, 1, 1)


def joined_args(left=32, right=16, size=16, batch=2, dtype=torch.float32):
    images = [torch.randn(batch, channels, size, size, dtype=dtype) for channels in (left, right)]
    return *images, torch.randn(8, left + right, 3, 3, dtype=dtype), torch.randn(8, dtype=dtype)


def test_graph_before_and_after():
    args = joined_args()
    rest = "[1, 1], [1, 1], [1, 1], False, [0, 0], 1)\n"
    assert body(functional(joined, args)) == (
        "cat: f32[2, 48, 16, 16] = aten.cat.default([x0, x1], 1)\n"
        f"convolution: f32[2, 8, 16, 16] = {CONVOLUTION}(cat, x2, x3, {rest}"
        "return convolution")
    assert body(transformed(convolution_parts, joined, *args)) == (
        "slice_tensor: f32[8, 32, 3, 3]/[432, 9, 3, 1] = aten.slice.Tensor(x2, 1, 0, 32)\n"
        f"convolution_default: f32[2, 8, 16, 16] = {CONVOLUTION}(x0, slice_tensor, x3, {rest}"
        "slice_tensor_1: f32[8, 16, 3, 3]/[432, 9, 3, 1] = aten.slice.Tensor(x2, 1, 32, 48)\n"
        f"convolution_default_1: f32[2, 8, 16, 16] = {CONVOLUTION}(x1, slice_tensor_1, None, {rest}"
        "add_tensor: f32[2, 8, 16, 16] = aten.add.Tensor(convolution_default, convolution_default_1)\n"
        "return add_tensor")


def both_used(x0, x1, x2, x3):
    whole = torch.cat([x0, x1], 1)
    return F.conv2d(whole, x2, x3, 1, 1), whole


@pytest.mark.parametrize("function, args", [
    (both_used, joined_args()),
    (joined, joined_args(64, 32)),                      # a part alone adds up too many products
    (joined, joined_args(16, 16)),                      # the whole does not
    (joined, joined_args(40, 8)),
    (joined, joined_args(dtype=torch.float64)),
    (joined, joined_args(size=1, batch=1)),             # more weights than images
    (joined, tuple(arg.to(memory_format=torch.channels_last) if arg.ndim == 4 else arg for arg in joined_args())),
])  # fmt: skip
def test_left_alone(function, args):
    assert "aten.add.Tensor" not in operators(transformed(convolution_parts, function, *args))


def network(x0, x1, x2, x3):
    """As at the end of a U-Net."""
    skip = F.conv2d(x0, x1, None, 1, 1).relu()
    up = F.interpolate(F.max_pool2d(skip, 2), scale_factor=2.0) * 0.5
    return F.conv2d(torch.cat([up, skip], 1), x2, x3, 1, 1).relu()


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("options", [{}, {"freeze": True}, {"relaxed_libraries": True}])
def test_compiled(options, dynamic):
    args = torch.randn(2, 3, 24, 24), torch.randn(32, 3, 3, 3) / 5, torch.randn(16, 64, 3, 3) / 24, torch.randn(16)
    check_compiled(network, *args, options=options, dynamic=dynamic)


def test_exact_enough():
    """The error against double precision is at most twice that of eager."""
    args = torch.randn(4, 32, 48, 48), torch.randn(4, 32, 48, 48), torch.randn(32, 64, 3, 3) / 24, torch.randn(32)
    exact = joined(*[arg.double() for arg in args])
    got, eager = fs.compile(joined, backend="native", fullgraph=True)(*args), joined(*args)
    assert (got - exact).abs().max() <= 2 * (eager - exact).abs().max()
    assert (got - exact).square().mean().sqrt() <= 2 * (eager - exact).square().mean().sqrt()
