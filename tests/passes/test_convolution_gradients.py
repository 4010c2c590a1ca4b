"""Gradients of convolutions in two calls: which of them, with what results, and that memory is free in between."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.passes.convolution_gradients import convolution_gradients

from .pass_checks import check_compiled, operators, transformed

BACKWARD = torch.ops.aten.convolution_backward.default
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")


def arguments(channels=16, size=(160, 130), kernel=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1):
    x, weight = torch.randn(1, channels, *size), torch.randn(8, channels // groups, *kernel)
    y = F.conv2d(x, weight, None, stride, padding, dilation, groups)
    return torch.randn_like(y), x, weight


@needs_onednn
@pytest.mark.parametrize(("stride", "padding", "dilation", "kernel"), [
    ((1, 1), (1, 1), (1, 1), (3, 3)), ((2, 2), (1, 1), (1, 1), (3, 3)), ((2, 3), (0, 2), (2, 1), (2, 5)),
    ((3, 1), (2, 0), (1, 1), (4, 1))])
def test_equal_to_one_call(stride, padding, dilation, kernel):
    def f(x0, x1, x2):
        return BACKWARD(x0, x1, x2, [8], stride, padding, dilation, False, [0, 0], 1, [True, True, True])

    args = arguments(stride=stride, padding=padding, dilation=dilation, kernel=kernel)
    found = operators(transformed(convolution_gradients, f, *args))
    assert "aten.convolution.default" in found
    got = fs.compile(f, backend="native", fullgraph=True)(*args)
    assert all(torch.equal(a, b) for a, b in zip(got, f(*args), strict=True))


@needs_onednn
@pytest.mark.parametrize(("mask", "changes"), [
    ([True, False, False], {}), ([False, True, True], {}), ([True, True, True], {"kernel": (1, 1), "padding": (0, 0)}),
    ([True, True, True], {"groups": 2}), ([True, True, True], {"size": (20, 20)})])
def test_what_stays(mask, changes):
    def f(x0, x1, x2):
        made = BACKWARD(x0, x1, x2, [8], [1, 1], changes.get("padding", (1, 1)), [1, 1], False, [0, 0],
                        changes.get("groups", 1), mask)
        return [part for part in made if part is not None]

    args = arguments(**changes)
    assert operators(transformed(convolution_gradients, f, *args)).count(str(BACKWARD)) == 1
    check_compiled(f, *args)


@needs_onednn
def test_channels_last_stays():
    def f(x0, x1, x2):
        return BACKWARD(x0, x1, x2, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True])

    args = [arg.to(memory_format=torch.channels_last) for arg in arguments()]
    assert operators(transformed(convolution_gradients, f, *args)).count(str(BACKWARD)) == 1


@needs_onednn
def test_the_input_is_gone_before_its_gradient_comes():
    """Although a later kernel reads what the input is made of, and could be one with the kernel that makes it."""
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.Conv2d(k, 16, 3, padding=1) for k in (16, 32))
            self.norm = torch.nn.BatchNorm2d(16)

        def forward(self, x):
            x = torch.nn.functional.relu(self.norm(self.first(x)))
            return self.second(torch.cat([x.cos(), x], 1)).square().mean()

    module, x = Block(), torch.randn(1, 16, 160, 130, requires_grad=True)
    loss = fs.compile(module, backend="native", fullgraph=True, options={"native_host": False})(x)
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    order = [event.name for event in profile.events() if event.name in (
        "aten::convolution_backward", "aten::convolution")]
    assert order == ["aten::convolution_backward", "aten::convolution"] * 2
