"""Where NumPy differs from torch: NaN in searches and in complex sums, powers of zero, exponents that are large."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import firesteel as fs

from .test_numpy import difference

SEARCHES = {
    "searchsorted": lambda x, v: np.searchsorted(np.sort(x), v),
    "searchsorted right": lambda x, v: np.sort(x).searchsorted(v, side="right"),
    "one number": lambda x, v: np.searchsorted(np.sort(x), 2.0),
    "digitize": lambda x, v: np.digitize(v, np.sort(x)),
    "digitize right": lambda x, v: np.digitize(v, np.sort(x), right=True),
    "intersect1d": lambda x, v: np.intersect1d(x, v),
    "setdiff1d": lambda x, v: np.setdiff1d(x, v),
    "setxor1d": lambda x, v: np.setxor1d(x, v),
    "union1d": lambda x, v: np.union1d(x, v),
    "isin": lambda x, v: np.isin(x, v),
}


def check(f, *args, backends=("native", "eager")):
    with np.errstate(all="ignore"):
        expected = f(*copy.deepcopy(args))
        for backend in backends:
            assert not difference(expected, fs.compile(f, backend=backend)(*copy.deepcopy(args)))


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("count", [1, 6, 40, 5000])
def test_nan_is_behind_all_numbers(name, dtype, count):
    rng = np.random.default_rng(count)
    x = rng.integers(0, count, count).astype(dtype)
    x[rng.random(count) < 0.3] = np.nan
    x[rng.random(count) < 0.1] = np.inf
    v = np.array([0, 1, 2, 2.5, np.nan, -np.inf, np.inf, count], dtype)
    check(SEARCHES[name], x, v)
    check(SEARCHES[name], np.full(count, np.nan, dtype), v)
