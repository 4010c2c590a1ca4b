"""Gradients of strided convolutions of single pixels: which are rewritten, with what results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.passes.pointwise_gradients import pointwise_gradients

from .pass_checks import check_compiled, operators, transformed

BACKWARD = torch.ops.aten.convolution_backward.default


def program(stride, mask, padding=(0, 0), groups=1):
    def f(x0, x1, x2):
        made = BACKWARD(x0, x1, x2, [8], stride, padding, [1, 1], False, [0, 0], groups, mask)
        return [part for part in made if part is not None]

    return f


def arguments(stride, size=(9, 12), kernel=1, padding=(0, 0), groups=1):
    x, weight = torch.randn(2, 6, *size), torch.randn(8, 6 // groups, kernel, kernel)
    return torch.randn_like(F.conv2d(x, weight, None, stride, padding, 1, groups)), x, weight


@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [True, True, False]])
@pytest.mark.parametrize(("stride", "size"), [((2, 2), (9, 12)), ((3, 1), (9, 12)), ((1, 2), (8, 7)), ((4, 5), (3, 6))])
def test_equal_to_the_library(stride, size, mask):
    f, args = program(stride, mask), arguments(stride, size)
    assert "aten.slice_scatter.default" in operators(transformed(pointwise_gradients, f, *args))
    check_compiled(f, *args)
    check_compiled(lambda *given: f(*given)[0].relu() + 1, *args)


def test_no_less_exact():
    f = program((2, 2), [True, False, False])
    args = torch.randn(2, 256, 17, 20), torch.randn(2, 6, 33, 40), torch.randn(256, 6, 1, 1)
    exact, want = f(*(arg.double() for arg in args))[0], f(*args)[0]
    got = fs.compile(f, backend="native", fullgraph=True)(*args)[0]
    assert (got - exact).norm() <= 2 * (want - exact).norm()


@pytest.mark.parametrize("changes", [{"stride": (1, 1)}, {"padding": (1, 1)}, {"groups": 2}, {"kernel": 3}])
def test_what_stays(changes):
    stride = changes.pop("stride", (2, 2))
    args = arguments(stride, **changes)
    changes.pop("kernel", None)
    f = program(stride, [True, True, True], **changes)
    assert "aten.slice_scatter.default" not in operators(transformed(pointwise_gradients, f, *args))
