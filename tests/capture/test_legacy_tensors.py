"""``torch.Tensor(2, 3)``, ``torch.LongTensor([1, 2])`` and the like are part of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from tests.capture.differential import check

import firesteel as fs

WHOLE = (
    "torch.IntTensor([1.7, 2])", "torch.IntTensor([True])", "torch.IntTensor((1, 2))", "torch.IntTensor(range(3))",
    "torch.IntTensor(2).zero_()", "torch.IntTensor(torch.Size([2])).zero_()", "torch.IntTensor([])",
    "torch.IntTensor()", "torch.IntTensor([[1, 2], [3, 4]])", "torch.Tensor([1, 2])", "torch.Tensor([1.5])",
    "torch.Tensor(2, 3).zero_()", "torch.Tensor([True])", "torch.ByteTensor([-1])", "torch.CharTensor([1])",
    "torch.HalfTensor([1e6])", "torch.BoolTensor([2, 0])", "torch.DoubleTensor([1])", "torch.BFloat16Tensor([1])",
    "torch.ShortTensor(3, 0)", "torch.Tensor(x.shape).zero_()", "torch.Tensor(*x.shape).zero_()",
    "torch.Tensor([x.shape[0], 2])", "torch.LongTensor([x.sum().item(), 2.5])", "torch.Tensor(x.numel()).fill_(2)",
    "torch.Tensor([[], []])", "torch.DoubleTensor([x.shape[0] / 3])", "torch.FloatTensor([1, 2])[0] + x",
)
LEFT_TO_PYTHON = (
    "torch.IntTensor([x[0], 2])", "torch.IntTensor([x, x])", "torch.IntTensor(x)", "torch.LongTensor(x)",
    "torch.FloatTensor([1], device='cpu')", "torch.FloatTensor([1], device='meta')", "torch.ByteTensor([300])",
    "torch.IntTensor([2**40])", "torch.IntTensor([float('nan')])", "torch.FloatTensor(1.5)", "torch.Tensor(True)",
    "torch.IntTensor('a')", "torch.IntTensor(['a'])", "torch.Tensor([1j])", "torch.Tensor([[1], [2, 3]])",
    "torch.FloatTensor(data=[1])", "torch.IntTensor(None)", "torch.LongTensor([None])", "torch.Tensor(-1)",
    "torch.IntTensor([x.sum().item() * 2**40])", "torch.LongTensor([numpy.int64(3)])", "torch.Tensor(numpy.ones(3))",
    "torch.sparse.FloatTensor(2, 3)",
)


def program(text: str) -> Callable[[torch.Tensor], Any]:
    return eval(f"lambda x: {text}", {"torch": torch, "numpy": numpy})  # type: ignore[no-any-return]


@pytest.mark.parametrize("text", WHOLE)
def test_is_one_graph(text: str) -> None:
    function = program(text)
    check(function, lambda: (torch.arange(3),))
    compiled = fs.compile(function, fullgraph=True)
    for rows in (3, 4, 5):
        x = torch.arange(rows)
        torch.testing.assert_close(compiled(x), function(x), rtol=0, atol=0)


@pytest.mark.parametrize("text", LEFT_TO_PYTHON)
def test_is_as_in_python(text: str) -> None:
    function = program(text)
    outcomes = []
    for call in (function, fs.compile(function)):
        try:
            result = call(torch.arange(3))
            outcomes.append((result.dtype, result.to_dense().tolist()))
        except Exception as error:
            outcomes.append((type(error), str(error)))
    assert outcomes[0] == outcomes[1]


def test_follows_the_default_dtype_and_no_default_device() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.Tensor([1]) + x, torch.FloatTensor([1])

    compiled = fs.compile(function, fullgraph=True)
    x = torch.zeros(2)
    assert [part.dtype for part in compiled(x)] == [torch.float32] * 2
    torch.set_default_dtype(torch.float64)
    try:
        assert [part.dtype for part in compiled(x)] == [torch.float64, torch.float32]
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert all(part.device.type == "cpu" for part in compiled(x))


def test_new_takes_sizes_for_a_size_and_data_for_a_tuple() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        rates = torch.distributions.Exponential(x + 1)
        return (x.new(x.shape).fill_(1), x.half().new(x.size()[:1] + (4,)).fill_(2), x.new(torch.Size(())).fill_(3),
                torch.Tensor.new(x, x.shape).fill_(4), x.new((3, 2)), rates.sample(), rates.rsample((2,)))

    for x in torch.rand(3, 2), torch.rand(5, 2), torch.rand(5, 2, requires_grad=True):
        torch.manual_seed(0)
        expected = function(x)
        torch.manual_seed(0)
        actual = fs.compile(function, fullgraph=True)(x)
        torch.testing.assert_close(actual, expected)
        assert [part.requires_grad for part in actual] == [part.requires_grad for part in expected]
