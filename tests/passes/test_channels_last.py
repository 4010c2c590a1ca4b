"""Channels last for convolution networks: what the graph looks like, where it is left alone, equal results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from firesteel.passes.channels_last import channels_last
from passes.pass_checks import body, check_compiled, functional, operators, transformed

CONVOLUTION = "aten.convolution.default"


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def depthwise(x0, x1, x2):
    hidden = F.conv2d(x0, x1, None, 1, 1, 1, 8).relu()
    return F.conv2d(hidden, x2) + 1


def depthwise_args():
    return torch.randn(2, 8, 16, 16), torch.randn(8, 1, 3, 3), torch.randn(4, 8, 1, 1)


def test_graph_before_and_after():
    args = depthwise_args()
    assert body(functional(depthwise, args)) == (
        "convolution: f32[2, 8, 16, 16] = aten.convolution.default"
        "(x0, x1, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 8)\n"
        "relu: f32[2, 8, 16, 16] = aten.relu.default(convolution)\n"
        "convolution_1: f32[2, 4, 16, 16] = aten.convolution.default"
        "(relu, x2, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)\n"
        "add: f32[2, 4, 16, 16] = aten.add.Tensor(convolution_1, 1)\n"
        "return add")
    assert body(transformed(channels_last, depthwise, *args)) == (
        "clone_default: f32[2, 8, 16, 16]/[2048, 1, 128, 8] = aten.clone.default"
        "(x0, memory_format=torch.channels_last)\n"
        "convolution: f32[2, 8, 16, 16]/[2048, 1, 128, 8] = aten.convolution.default"
        "(clone_default, x1, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 8)\n"
        "relu: f32[2, 8, 16, 16]/[2048, 1, 128, 8] = aten.relu.default(convolution)\n"
        "convolution_1: f32[2, 4, 16, 16]/[1024, 1, 64, 4] = aten.convolution.default"
        "(relu, x2, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)\n"
        "add: f32[2, 4, 16, 16]/[1024, 1, 64, 4] = aten.add.Tensor(convolution_1, 1)\n"
        "clone_default_1: f32[2, 4, 16, 16] = aten.clone.default(add, memory_format=torch.contiguous_format)\n"
        "return clone_default_1")


def viewed(x0, x1):
    hidden = F.conv2d(x0, x1, None, 1, 1, 1, 8)
    return hidden.view(2, -1), hidden.permute(0, 2, 3, 1) * 2, hidden.flatten(2).softmax(-1)


def of_one_memory(x0, x1):
    hidden = F.conv2d(x0, x1, None, 1, 1, 1, 8)
    again = F.conv2d(hidden, x1, None, 1, 1, 1, 8)
    return again, again[0], again.view(-1)


def several(x0, x1):
    hidden = F.max_pool2d(F.conv2d(x0, x1, None, 1, 1, 1, 8), 2)
    up = F.interpolate(hidden, scale_factor=2.0)
    return torch.cat([F.conv2d(up, x1, None, 1, 1, 1, 8), up], 1).mean((2, 3))


def strided(x0, x1):
    hidden = F.conv2d(F.conv2d(x0, x1, None, 1, 1, 1, 8), x1, None, 1, 1, 1, 8)
    return hidden.as_strided((4, 4), (16, 1)), hidden.stride(1) + hidden


@pytest.mark.parametrize("f", [viewed, of_one_memory, several, strided])
def test_operators_that_look_at_strides(f):
    args = torch.randn(2, 8, 16, 16), torch.randn(8, 1, 3, 3)
    after = transformed(channels_last, f, *args)
    assert "channels_last" in str(after)
    check_compiled(f, *args)


def test_random_numbers_are_drawn_in_the_order_of_the_old_layout():
    def noisy(x0, x1):
        hidden = F.conv2d(x0, x1, None, 1, 1, 1, 8)
        return F.conv2d(hidden + torch.rand_like(hidden), x1, None, 1, 1, 1, 8)

    after = channels_last(functional(noisy, (torch.randn(2, 8, 16, 16), torch.randn(8, 1, 3, 3))))
    [drawn] = [node for node in after.graph.nodes if "rand_like" in str(node.target)]
    assert "channels_last" in str(after) and drawn.meta["val"].is_contiguous()
    assert drawn.args[0].meta["val"].is_contiguous()


def unchanged(f, *args):
    return str(functional(f, args)) == str(channels_last(functional(f, args)))


def test_left_alone():
    def convolve(x0, x1):
        return F.conv2d(x0, x1, None, 1, 1)

    # Too many products for the rounding error, weights that outweigh the image, no gain for one convolution.
    assert unchanged(convolve, torch.randn(1, 64, 32, 32), torch.randn(64, 64, 3, 3))
    assert unchanged(convolve, torch.randn(1, 16, 2, 2), torch.randn(512, 16, 3, 3))
    assert unchanged(convolve, torch.randn(1, 16, 32, 32), torch.randn(16, 16, 3, 3))
    assert unchanged(convolve, torch.randn(1, 8, 9, 9, dtype=torch.float64), torch.randn(8, 8, 3, 3).double())
    assert unchanged(lambda x0: x0 + 1, torch.randn(2))


def test_wide_convolutions_keep_their_layout():
    def mixed(x0, x1, x2):
        hidden = x0
        for _ in range(3):
            hidden = F.conv2d(hidden, x1, None, 1, 1, 1, 64).relu()
        return F.conv2d(hidden, x2, None, 1, 1)

    after = transformed(channels_last, mixed, torch.randn(1, 64, 32, 32), torch.randn(64, 1, 3, 3),
                        torch.randn(64, 64, 3, 3))
    wide = [node for node in after.graph.nodes if str(node.target) == CONVOLUTION][-1]
    assert wide.args[0].meta["val"].is_contiguous() and wide.meta["val"].is_contiguous()
    assert operators(after).count("aten.clone.default") == 2


def convolutions(graph):
    return [node for node in graph.graph.nodes if str(node.target) == CONVOLUTION]


def is_last(node):
    return node.meta["val"].is_contiguous(memory_format=torch.channels_last)


def test_regions_are_decided_one_by_one():
    def two(x0, x1, x2, x3):
        hidden = F.conv2d(x0, x1, None, 1, 1, 1, 16).relu()
        hidden = F.conv2d(hidden, x2, None, 1, 1).relu()
        # Alone between wide ones, with an input that is needed in both layouts.
        return F.conv2d(hidden, x3, None, 2) + F.conv2d(hidden, x2[:16], None, 2, 1)

    after = transformed(channels_last, two, torch.randn(1, 64, 24, 24), torch.randn(64, 4, 3, 3) / 8,
                        torch.randn(64, 64, 3, 3) / 24, torch.randn(16, 64, 1, 1) / 8)
    assert [is_last(node) for node in convolutions(after)] == [False] * 4

    def with_depthwise(x0, x1, x2, x3):
        for _ in range(2):
            x0 = F.conv2d(x0, x1, None, 1, 1, 1, 64).relu()
        return two(x0, x1.expand(-1, 4, -1, -1), x2, x3)

    after = transformed(channels_last, with_depthwise, torch.randn(1, 64, 24, 24), torch.randn(64, 1, 3, 3) / 3,
                        torch.randn(64, 64, 3, 3) / 24, torch.randn(16, 64, 1, 1) / 8)
    assert [is_last(node) for node in convolutions(after)] == [True] * 3 + [False] * 3


def test_transposed_convolutions_and_parts_of_a_whole():
    def up(x0, x1, x2):
        grown = F.conv_transpose2d(x0, x1, None, 2)
        return F.conv2d(torch.cat([grown, grown.relu()], 1), x2, None, 1, 1)

    args = torch.randn(2, 64, 12, 12), torch.randn(64, 32, 2, 2) / 8, torch.randn(8, 64, 3, 3) / 24
    after = transformed(channels_last, up, *args)
    assert [is_last(node) for node in convolutions(after)] == [True, False]
    # The parts change their layout, so that the whole is written once.
    whole = next(node for node in after.graph.nodes if str(node.target) == "aten.cat.default")
    assert whole.meta["val"].is_contiguous() and all(str(part.target) == "aten.clone.default" for part in whole.args[0])
    check_compiled(up, *args)


def test_a_copy_in_the_old_layout_is_for_all_who_read_it():
    def residual(x0, x1, x2):
        for _ in range(2):
            x0 = F.conv2d(x0, x1, None, 1, 1, 1, 64)
        pooled = F.max_pool2d(x0, 2)
        return F.conv2d(pooled, x2, None, 1, 1) + pooled

    args = torch.randn(1, 64, 16, 16), torch.randn(64, 1, 3, 3) / 3, torch.randn(64, 64, 3, 3) / 24
    after = transformed(channels_last, residual, *args)
    *_, wide = convolutions(after)
    add = next(node for node in after.graph.nodes if str(node.target) == "aten.add.Tensor")
    assert add.args[1] is wide.args[0] and str(add.args[1].target) == "aten.clone.default"
    check_compiled(residual, *args)


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.norm = nn.BatchNorm2d(16)
        self.depth = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.point = nn.Conv2d(16, 24, 1)
        self.head = nn.Linear(24, 5)

    def forward(self, x):
        x = F.hardswish(self.norm(self.stem(x)))
        x = x + F.relu(self.depth(x))
        return self.head(self.point(x).mean((2, 3)))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_models(dynamic, dtype):
    model = Blocks().eval().to(dtype)
    for size in (32, 20):
        check_compiled(model, torch.randn(2, 3, size, size, dtype=dtype), dynamic=dynamic)
