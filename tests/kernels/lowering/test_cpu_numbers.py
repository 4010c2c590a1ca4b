"""Tensors without dimensions on the CPU as numbers of kernels, as a graph on a GPU has them."""

from __future__ import annotations

import sys

import pytest
import torch

import firesteel as fs
from firesteel.kernels.lowering.cpu_numbers import takes_numbers

NUMBERS = [
    torch.tensor(3.0), torch.tensor(0.1, dtype=torch.float64), torch.tensor(3), torch.tensor(True),
    torch.tensor(2**40 + 1), torch.tensor(7, dtype=torch.int32), torch.tensor(0.1).bfloat16(),
]


@pytest.fixture
def numbered(monkeypatch):
    """Kernels on the CPU take them as those on a GPU do."""
    lowerer = sys.modules["firesteel.kernels.lowering.lower"]._Lowerer
    monkeypatch.setattr(lowerer, "_takes_numbers", lambda self, node: takes_numbers(node))
    fs.reset()
    with fs.config.patch(raise_on_internal_error=True):
        yield
    fs.reset()


@pytest.mark.parametrize("native_host", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_results(numbered, dtype, native_host, monkeypatch):
    monkeypatch.setenv("FIRESTEEL_DISK_CACHE", "0")
    x = (torch.randn(20) * 3).to(dtype)

    def program(x, s):
        return x * s, x + s, s < x, x > s, torch.where(x > 0, x, s), (x + torch.tensor(2.5)) * s

    compiled = fs.compile(program, backend="native", options={"native_host": native_host})
    for number in NUMBERS:
        torch.testing.assert_close(compiled(x, number), program(x, number))
    other = NUMBERS[0] + 1  # the same kernel, another number
    torch.testing.assert_close(compiled(x, other), program(x, other))


def test_only_pointwise_operators_take_them():
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    aten = torch.ops.aten
    found = [takes_numbers(graph.call_function(op, (x, x)))
             for op in (aten.mul.Tensor, aten.where.self, aten.cat.default, aten.index_add.default)]
    assert found == [True, True, False, False]
