"""Slices of tensors that were written in slices: what they become, where they stay."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.passes.written_slices import written_slices
from passes.pass_checks import assert_same, body, check_compiled, functional, operators, transformed

SCATTER = "aten.slice_scatter.default"


@pytest.fixture(autouse=True)
def without_grad():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def gates(x0):
    whole = x0 + 1
    left, right = whole.chunk(2, 1)
    left.sigmoid_()
    return left * right


def test_graph_before_and_after():
    args = (torch.randn(3, 8),)
    assert SCATTER in operators(functional(gates, args))
    assert body(transformed(written_slices, gates, *args)) == (
        "add: f32[3, 8] = aten.add.Tensor(x0, 1)\n"
        "slice_1: f32[3, 4]/[8, 1] = aten.slice.Tensor(add, 1, 0, 4)\n"
        "sigmoid: f32[3, 4] = aten.sigmoid.default(slice_1)\n"
        "slice_tensor: f32[3, 4]/[8, 1] = aten.slice.Tensor(add, 1, 4, 8)\n"
        "mul: f32[3, 4] = aten.mul.Tensor(sigmoid, slice_tensor)\n"
        "return mul")


def several(x0):
    whole = x0 * 2
    whole[:, 2:4] += 1
    whole[:, 0:2] *= 3
    whole[:, 2:4] = whole[:, 0:2].exp()
    whole[:, -4:-2].neg_()
    return whole[:, 2:4].sin() + whole[:, 0:2] + whole[:, 4:6] + whole[:, 6:8]


def overlapping(x0):
    whole = x0 * 2
    whole[:, 2:5] = 1
    return whole[:, 1:4].exp() + whole[:, 3:6]


def other_dimension(x0):
    whole = x0 * 2
    whole[1:2] = 1
    return whole[:, 0:4].exp()


def with_steps(x0):
    whole = x0 * 2
    whole[:, ::2] = 1
    return whole[:, 1::2].exp() + whole[:, 0:4]


def given_back(x0):
    whole = torch.zeros(6, 8)
    whole[0:3] = x0
    return whole[0:3], whole[3:6]


def narrower(x0):
    whole = torch.zeros(3, 8)
    whole[:, 0:4] = x0[:, 0:4].double()
    return whole[:, 0:4].exp()


def viewed(x0):
    whole = x0 * 2
    whole[:, 0:4] = x0[:, 4:8] + 1
    return whole[:, 0:4].as_strided((2, 2), (8, 1), 1).exp(), whole[:, 0:4].unflatten(1, (2, 2)).transpose(1, 2) * 2


def grown(x0):
    whole = torch.zeros(6, 8)
    whole[0:3] = x0
    x0.add_(1)
    return whole[0:3] * 2, whole[3:6]


@pytest.mark.parametrize("function", [
    gates, several, overlapping, other_dimension, with_steps, given_back, narrower, viewed])
def test_equal_results(function):
    transformed(written_slices, function, torch.randn(3, 8))
    x = torch.randn(3, 8)
    check_compiled(lambda x0: function(x0.clone()), x)


@pytest.mark.parametrize("function, count", [(several, 0), (overlapping, 1), (other_dimension, 1)])
def test_what_is_written(function, count):
    assert operators(transformed(written_slices, function, torch.randn(3, 8))).count(SCATTER) == count


def test_input_changed_later():
    ours, theirs = torch.randn(3, 8).expand(2, 3, 8).clone().unbind()
    assert_same([*fs.compile(grown, backend="native", fullgraph=True)(ours), ours], [*grown(theirs), theirs])


def test_input_is_not_given_back():
    x = torch.randn(3, 8)
    result, _ = fs.compile(given_back, backend="native", fullgraph=True)(x)
    result.zero_()
    assert x.abs().max() > 0
