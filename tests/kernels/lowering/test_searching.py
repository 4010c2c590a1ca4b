"""Searches in tables, and indices that need no check because of how they are computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import firesteel as fs
from firesteel.functional import trace
from firesteel.kernels import ir
from firesteel.kernels.lowering import lower
from firesteel.kernels.lowering.index_checks import check_indices

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.uint8]


def assert_like_eager(function, *args):
    with fs.config.patch(verify=True, raise_on_internal_error=True):
        actual = fs.compile(function, backend="native", fullgraph=True)(*args)
    torch.testing.assert_close(actual, function(*args), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 100, 4096, 5000])
def test_searches(size, dtype):
    generator = torch.Generator().manual_seed(size)
    table = torch.randint(0, 100, (size,), generator=generator).to(dtype).sort()[0]
    x = torch.randint(0, 102, (3, 41), generator=generator).to(dtype)
    for right in (False, True):
        assert_like_eager(lambda table, x, right=right: torch.searchsorted(table, x, right=right), table, x)
        assert_like_eager(lambda table, x, right=right: torch.bucketize(x, table, right=right), table, x)
        assert_like_eager(lambda table, x, right=right: torch.searchsorted(table, x, right=right, out_int32=True) + 1,
                          table, x)


def test_searches_among_special_numbers():
    special = torch.tensor([-math.inf, -1.0, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan], dtype=torch.float64)
    for table in (special, special[:-1], special.flip(0), torch.tensor([3.0, 1.0, 2.0, math.nan, 0.0]).double()):
        for right in (False, True):
            assert_like_eager(lambda t, x, right=right: torch.searchsorted(t, x, right=right), table, special)


def test_a_table_for_each_row():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(4, 9, generator=generator).sort(1)[0]
    x = torch.rand(4, 33, generator=generator)
    assert_like_eager(torch.searchsorted, table, x)
    assert_like_eager(torch.searchsorted, table[:, ::2], x[:, 1:])
    assert_like_eager(torch.searchsorted, table[0], torch.rand(0, generator=generator))


def test_every_access_is_checked():
    with fs.config.patch(check_bounds=True):
        x = torch.linspace(-2, 2, 37, dtype=torch.float64)
        assert_like_eager(lambda x: torch.searchsorted(torch.tensor([-1.0, 0.0, 1.5], dtype=torch.float64), x), x)


def test_interpolation_is_one_kernel():
    def function(x):
        return np.interp(x, np.array([-1.0, 0.0, 2.0]), np.array([0.0, 1.0, 4.0]))

    x = np.array([-2.0, -1.0, -0.5, 0.0, 1.0, 2.0, 3.0, math.nan, math.inf, -math.inf])
    np.testing.assert_array_equal(fs.compile(function, backend="native", fullgraph=True)(x), function(x))


def checks(function, *args):
    """How many checks of indices there are in a graph."""
    with torch.no_grad():
        graph = trace(torch.fx.symbolic_trace(function), args)
    steps = lower(graph.module).operations
    return sum(isinstance(step, ir.ExternCall) and step.target is check_indices for step in steps)


def test_indices_known_to_be_in_range_are_not_checked():
    table, x = torch.arange(256.0), torch.tensor([3, 250, -9])
    assert checks(lambda t, x: t[x], table, x) == 1
    assert checks(lambda t, x: t[x.clamp(0, 255)], table, x) == 0
    assert checks(lambda t, x: t[x.clamp(0, 254) + 1] + t[x.clamp(0, 254)], table, x) == 0
    assert checks(lambda t, x: t[x.clamp(0, 255) + 1], table, x) == 1
    assert checks(lambda t, x: t[x.clamp(1, 255) - 2], table, x) == 1
    assert checks(lambda t, x: t[x.to(torch.uint8).to(torch.int64)], table, x) == 0
    assert checks(lambda t, x: t[:2][(x > 3).to(torch.int64)], table, x) == 0
    assert checks(lambda t, x: t[:1][(x > 3).to(torch.int64)], table, x) == 1


def test_a_check_that_remains_raises():
    with pytest.raises(IndexError, match="out of bounds"):
        fs.compile(lambda t, x: t[x.clamp(0, 3) + 1], backend="native")(torch.arange(4.0), torch.tensor([1, 3]))
    given = torch.arange(4.0), torch.tensor([-5, 0, 3, 9])
    assert_like_eager(lambda t, x: t[x.clamp(0, 3)] + t[x.clamp(0, 2) + 1], *given)
    assert_like_eager(lambda t, x: t[x.clamp(-4, 3)], *given)
