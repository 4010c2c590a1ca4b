"""Convolutions of one pixel over few channels: which go to the library's own operator, equal results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from firesteel.passes.narrow_convolutions import narrow_convolutions
from firesteel.torch_compat import library_operators
from passes.pass_checks import body, check_compiled, functional, operators, transformed

pytestmark = pytest.mark.skipif(library_operators.onednn_convolution() is None, reason="this torch has no oneDNN")
LAST = torch.channels_last


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def convolve(x0, x1, x2):
    return F.conv2d(x0, x1, x2)


def test_graph_before_and_after():
    args = torch.randn(2, 4, 8, 8).to(memory_format=LAST), torch.randn(6, 4, 1, 1), torch.randn(6)
    layout = "f32[2, 6, 8, 8]/[384, 1, 48, 6]"
    assert body(functional(convolve, args)) == (
        f"convolution: {layout} = aten.convolution.default"
        "(x0, x1, x2, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)\nreturn convolution")
    assert body(transformed(narrow_convolutions, convolve, *args)) == (
        f"_convolution_pointwise_default: {layout} = mkldnn._convolution_pointwise.default"
        "(x0, x1, x2, [0, 0], [1, 1], [1, 1], 1, 'none', [], '')\nreturn _convolution_pointwise_default")
    check_compiled(convolve, *args)


@pytest.mark.parametrize("channels, size, dtype, layout", [
    (256, 1, torch.float32, LAST), (4, 3, torch.float32, LAST), (4, 1, torch.float64, LAST),
    (4, 1, torch.float32, torch.contiguous_format),
])  # fmt: skip
def test_left_alone(channels, size, dtype, layout):
    x0 = torch.randn(2, channels, 8, 8, dtype=dtype).to(memory_format=layout)
    args = x0, torch.randn(6, channels, size, size, dtype=dtype), torch.randn(6, dtype=dtype)
    assert operators(transformed(narrow_convolutions, convolve, *args)) == ["aten.convolution.default"]
