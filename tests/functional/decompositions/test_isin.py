"""torch.isin, whose decomposition searches in a sorted tensor: NaN is equal to nothing, and hides no number."""

from __future__ import annotations

import math

import pytest
import torch

import firesteel as fs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64])
@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("special", [[], [math.nan], [math.inf], [math.nan, math.inf], [-math.inf, math.nan]])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_isin_with_nan(dtype, invert, special, count):
    numbers = torch.randperm(2 * count, generator=torch.Generator().manual_seed(0))
    among, x = numbers[:count].to(dtype), torch.arange(2 * count).to(dtype).reshape(2, count)
    if dtype.is_floating_point:
        among = torch.cat([among, torch.tensor(special * 3, dtype=dtype)])[torch.randperm(count + 3 * len(special))]
        x = torch.cat([x, torch.tensor([[math.nan, math.inf], [-math.inf, 0.5]], dtype=dtype)], 1)

    def f(x, among):
        return torch.isin(x, among, invert=invert)

    assert torch.equal(fs.compile(f)(x, among), f(x, among))
