"""Graphs that read the results of another graph's calls: these lie as planned, whatever a fake kernel says."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs


@torch.library.custom_op("results_of_calls::columns", mutates_args=())
def columns(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous().t() * 2


@torch.library.custom_op("results_of_calls::one_row", mutates_args=())
def one_row(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0, keepdim=True).expand(x.shape)


for operator in (columns, one_row):
    operator.register_fake(torch.empty_like)
columns.register_autograd(lambda ctx, gradient: gradient * 2)
one_row.register_autograd(lambda ctx, gradient: gradient.sum(0, keepdim=True).expand(gradient.shape))


@pytest.mark.parametrize("operator", [columns, one_row], ids=["columns", "one_row"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_other_strides_than_those_of_the_fake_kernel(operator, requires_grad):
    def program(x):
        result = operator(x)
        return result, result * 2 + result.flip(0)

    x = torch.randn(30, 40, requires_grad=requires_grad)
    expected, actual = program(x), fs.compile(program)(x)
    torch.testing.assert_close(actual, expected)
    if requires_grad:
        weight = torch.randn(30, 40)
        torch.testing.assert_close(torch.autograd.grad((actual[1] * weight).sum(), x),
                                   torch.autograd.grad((expected[1] * weight).sum(), x))
