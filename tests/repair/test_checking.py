"""Compiled functions compared with eager, and how differences are judged."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.errors import AccuracyError
from firesteel.repair.referee import first_difference


def scaled_by(factor):
    return lambda graph, examples: lambda *inputs: tuple(result * factor for result in graph.forward(*inputs))


def test_what_is_right_passes():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.5), torch.nn.BatchNorm1d(4))
    x = torch.randn(5, 3, requires_grad=True)
    assert fs.check(model)(x).shape == (5, 4)
    assert fs.check(lambda x, names: {name: x + 1 for name in names})(x, ["a", "b"]).keys() == {"a", "b"}


@pytest.mark.parametrize("factor, text", [(1.001, "result"), (float("nan"), "nan")])
def test_wrong_results(factor, text):
    with pytest.raises(AccuracyError, match=text):
        fs.check(lambda x: x.sin(), backend=scaled_by(factor))(torch.rand(3) + 1)


def test_wrong_gradients():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    def backend(graph, examples):
        return lambda *inputs: tuple(map(Doubled.apply, graph.forward(*inputs)))

    x = torch.rand(3, requires_grad=True)
    with pytest.raises(AccuracyError, match="gradient"):
        fs.check(lambda x: x.sin(), backend=backend)(x)
    assert fs.check(lambda x: x.sin(), backend=backend, backward=False)(x).shape == (3,)


def test_a_change_that_is_not_noticed():
    class Scale:
        factor = 2.0

    scale = Scale()
    checked = fs.check(lambda x: x * scale.factor)
    checked(torch.ones(2))
    checked.compiled = lambda x: x * 2.0  # compiled code without a guard
    scale.factor = 3.0
    with pytest.raises(AccuracyError, match="it is 2.0 and eager's is 3.0"):
        checked(torch.ones(2))


def test_errors_of_the_program_are_its_own():
    with pytest.raises(KeyError, match="missing"):
        fs.check(lambda x: {}["missing"])(torch.ones(2))


@pytest.mark.parametrize("mine, eager, truth, kind", [
    (torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]), None, None),
    (torch.tensor([1.0]), torch.tensor([1.001]), None, "value"),
    (torch.tensor([1.0]), torch.tensor([1.001]), torch.tensor([1.0]).double(), None),  # eager is further away
    (torch.tensor([1.001]), torch.tensor([1.0]), torch.tensor([1.0]).double(), "value"),
    (torch.tensor([float("nan")]), torch.tensor([1.0]), torch.tensor([1.0]).double(), "nan"),
    (torch.tensor([float("inf")]), torch.tensor([float("inf")]), None, None),
    (torch.tensor([1]), torch.tensor([2]), None, "value"),
    (torch.ones(2), torch.ones(2).double(), None, "dtype"),
    (torch.ones(2), torch.ones(3), None, "shape"),
    (torch.ones(2, 2).t().contiguous().t(), torch.ones(2, 2), None, "strides"),
    ((torch.ones(2), 3), (torch.ones(2), 4), None, "value"),
    ([1], (1,), None, "type"),
])
def test_differences(mine, eager, truth, kind):
    found = first_difference(mine, eager, truth)
    assert (found.kind if found is not None else None) == kind, found


def test_what_a_function_reads_and_arguments_with_a_history_have_gradients():
    weight, x = torch.nn.Parameter(torch.ones(3)), torch.ones(3, requires_grad=True)
    assert float(fs.check(lambda x: (x * weight).sum())(torch.ones(3)).detach()) == 3
    assert fs.check(lambda x: x * 2)(x * 1).tolist() == [2, 2, 2]
    fs.check(lambda x: x * 2)(x).sum().backward()  # the history is still there
    assert x.grad.tolist() == [2, 2, 2]

    def wrong(gm, inputs):
        return lambda *given: tuple(result * 1.01 for result in gm.forward(*given))

    with pytest.raises(fs.errors.AccuracyError):
        fs.check(lambda x: x * weight, backend=wrong)(torch.ones(3))
