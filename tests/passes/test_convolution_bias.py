"""Biases outside of convolutions: graphs before and after, equal results and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firesteel.passes.convolution_bias import convolution_bias
from passes.pass_checks import body, functional, operators, transformed


def convolved(x0, x1, x2):
    return F.conv2d(x0, x1, x2, 1, 1).relu()


def test_graph_before_and_after():
    args = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3), torch.randn(4)
    assert body(transformed(convolution_bias, convolved, *args)) == (
        "convolution_default: f32[2, 4, 5, 5] = aten.convolution.default"
        "(x0, x1, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)\n"
        "view_default: f32[4, 1, 1] = aten.view.default(x2, [4, 1, 1])\n"
        "add_tensor: f32[2, 4, 5, 5] = aten.add.Tensor(convolution_default, view_default)\n"
        "relu: f32[2, 4, 5, 5] = aten.relu.default(add_tensor)\n"
        "return relu")


@pytest.mark.parametrize("program, x, weight", [
    (F.conv1d, (2, 3, 9), (4, 3, 2)), (F.conv3d, (2, 3, 4, 5, 6), (4, 3, 2, 2, 2)),
    (F.conv_transpose2d, (2, 3, 5, 5), (3, 4, 2, 2)),
])  # fmt: skip
def test_dimensions(program, x, weight):
    def function(x0, x1, x2):
        return program(x0, x1, x2)

    graph = transformed(convolution_bias, function, torch.randn(x), torch.randn(weight), torch.randn(4))
    assert "aten.add.Tensor" in operators(graph)


@pytest.mark.parametrize("groups, layout, apart", [
    (1, torch.contiguous_format, True), (4, torch.channels_last, True), (4, torch.contiguous_format, False)])
def test_short_floats_that_eager_rounds_twice(groups, layout, apart):
    def convolved(x0, x1, x2):
        return F.conv2d(x0, x1, x2, 1, 1, 1, groups).relu()

    shapes = (2, 4, 5, 5), (4, 4 // groups, 3, 3), (4,)
    args = [torch.randn(shape).bfloat16() for shape in shapes]
    args[0] = args[0].to(memory_format=layout)
    assert ("aten.add.Tensor" in operators(convolution_bias(functional(convolved, args)))) == apart
    with torch.backends.cudnn.flags(enabled=False):
        assert "aten.add.Tensor" not in operators(convolution_bias(functional(convolved, args)))


def test_what_has_none_stays():
    graph = functional(lambda x0, x1: F.conv2d(x0, x1), (torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)))
    before = str(graph)
    assert str(convolution_bias(graph)) == before


@pytest.mark.parametrize("asked", [[True, True, True], [False, True, True], [True, True, False]])
def test_gradients(asked):
    def backward(x0, x1, x2):
        results = torch.ops.aten.convolution_backward(
            x0, x1, x2, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, asked)
        return [part for part in results if part is not None]

    args = torch.randn(2, 4, 5, 5), torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    found = operators(transformed(convolution_bias, backward, *args))
    assert ("aten.sum.dim_IntList" in found) == asked[2]
    assert ("aten.convolution_backward.default" in found) == any(asked[:2])


def test_gradient_of_the_bias_alone():
    def backward(x0, x1, x2):
        return torch.ops.aten.convolution_backward(
            x0, x1, x2, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, False, True])[2]

    args = torch.randn(2, 4, 5, 5), torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    assert operators(transformed(convolution_bias, backward, *args)) == ["aten.sum.dim_IntList"]
