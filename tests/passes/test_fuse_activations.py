"""Activations inside of library calls: the graphs, equal results, and that it happens only on request."""

from __future__ import annotations

import functools
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import firesteel as fs
from firesteel import config
from firesteel.backends import native
from firesteel.functional import run
from firesteel.kernels.products.linear_library import linear_library
from firesteel.passes.fuse_activations import fuse_activations
from firesteel.passes.settings import Settings
from firesteel.torch_compat import library_operators
from passes.pass_checks import assert_same, body, functional, input_positions

pytestmark = pytest.mark.skipif(library_operators.onednn_convolution() is None, reason="this torch has no oneDNN")
RELAXED = Settings(relaxed=True)


@pytest.fixture(autouse=True)
def strict():
    torch.manual_seed(0)
    with torch.no_grad(), config.patch(raise_on_internal_error=True):
        yield


def fused(f, *args, steps=(fuse_activations,)):
    graph = functional(f, args)
    for step in steps:
        graph = step(graph, RELAXED)
    assert_same(run(graph, [args[position] for position in input_positions(graph, args)]), f(*args))
    return body(graph)


def residual(x0, x1, x2, x3):
    return (F.conv2d(x0, x1, x2, 1, 1) + x3).relu()


def test_graph_before_and_after():
    args = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3), torch.randn(6), torch.randn(2, 6, 8, 8)
    assert body(functional(residual, args)) == (
        "convolution: f32[2, 6, 8, 8] = aten.convolution.default"
        "(x0, x1, x2, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)\n"
        "add: f32[2, 6, 8, 8] = aten.add.Tensor(convolution, x3)\n"
        "relu: f32[2, 6, 8, 8] = aten.relu.default(add)\n"
        "return relu")
    assert fused(residual, *args) == (
        "_convolution_pointwise_binary: f32[2, 6, 8, 8] = mkldnn._convolution_pointwise.binary"
        "(x0, x3, x1, x2, [1, 1], [1, 1], [1, 1], 1, 'add', None, 'relu', [], None)\n"
        "return _convolution_pointwise_binary")


ACTIVATIONS = [
    F.relu, F.silu, torch.sigmoid, torch.tanh, F.hardswish, F.hardsigmoid, F.gelu, F.relu6,
    functools.partial(F.gelu, approximate="tanh"), functools.partial(F.leaky_relu, negative_slope=0.2),
]  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation):
    args = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3) / 6
    text = fused(lambda x0, x1: activation(F.conv2d(x0, x1)), *args)
    assert "mkldnn._convolution_pointwise" in text and text.count("\n") == 1
    args = torch.randn(2, 384, 384), torch.randn(384, 384) / 20, torch.randn(384)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[linear_library.__module__], "mkl_is_slower", lambda: True)
        steps = (linear_library, fuse_activations)
        text = fused(lambda x0, x1, x2: activation(F.linear(x0, x1, x2)), *args, steps=steps)
    assert "mkldnn._linear_pointwise" in text and text.count("\n") == 3


def test_not_alone_not_fused():
    def f(x0, x1):
        y = F.conv2d(x0, x1)
        return y.relu(), y + 1

    assert "mkldnn" not in fused(f, torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3))
    assert "mkldnn" not in fused(lambda x0, x1: F.conv2d(x0, x1) + 1, torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3))


def test_twice_the_same_addend():
    def f(x0, x1):
        y = F.conv2d(x0, x1)
        return (y + y).relu()

    fused(f, torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3))


def test_only_on_request():
    args = torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)
    graph = functional(lambda x0, x1: F.conv2d(x0, x1).relu(), args)
    text = str(graph)
    assert str(fuse_activations(graph)) == text
    function = fs.compile(lambda x0, x1: F.conv2d(x0, x1).relu(), backend="native")
    assert function(args[0] * torch.nan, args[1]).isnan().all()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.norm = nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.point = nn.Conv2d(16, 16, 1)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        return F.relu(self.point(F.hardswish(self.depth(x))) + x)


def test_with_frozen_weights():
    model, x = Block().eval(), torch.randn(2, 3, 16, 16)
    options = {"freeze": True, "relaxed_libraries": True}
    function = fs.compile(model, backend=functools.partial(native.native, options=options), fullgraph=True)
    for _ in range(3):
        assert_same(function(x), model(x))
        model.point.weight.mul_(1.5)
