"""Long reductions in two stages."""

import pytest
import torch

from firesteel.kernels.scheduling import costs
from kernels.scheduling.programs import kernels, planned


@pytest.fixture(autouse=True)
def everything_is_long(monkeypatch):
    monkeypatch.setattr(costs, "LONG_REDUCTION", 16)
    monkeypatch.setattr(costs, "CHUNKS", 4)
    monkeypatch.setattr(costs, "COLUMN_CHUNKS", 3)
    monkeypatch.setattr(costs, "ENOUGH_ROWS", 8)
    monkeypatch.setattr(costs, "TINY", 1)
    monkeypatch.setattr(costs, "SMALL", 1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("shape", [(64,), (63,), (3, 37), (5, 6, 7), (41, 2)])
@pytest.mark.parametrize("name", ["sum", "amax", "prod", "all"])
def test_everything(name, shape, dynamic):
    x = torch.linspace(0.5, 1.5, torch.Size(shape).numel()).reshape(shape)
    plan = planned(lambda x: getattr(x, name)(), x if name != "all" else x > 0.6, dynamic=dynamic)
    assert len(kernels(plan)) == 2


def test_transposed_and_broadcast():
    x, y = torch.randn(6, 9), torch.randn(9)
    planned(lambda x, y: (x.t() * y[:, None]).sum(), x, y)


def test_columns():
    x = torch.randn(60, 5)
    plan = planned(lambda x: (x * 2).sum(0), x)
    assert len(kernels(plan)) == 2


def test_long_mean_then_use():
    planned(lambda x: x - x.mean(), torch.randn(70))
