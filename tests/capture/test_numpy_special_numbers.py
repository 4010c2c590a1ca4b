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


MISSING = {
    "nansum": lambda x, **along: np.nansum(x, **along),
    "nanprod": lambda x, **along: np.nanprod(x, **along),
    "nanmean": lambda x, **along: np.nanmean(x, **along),
    "nanvar": lambda x, **along: np.nanvar(x, **along),
    "nanstd": lambda x, **along: np.nanstd(x, ddof=1, **along),
}


@pytest.mark.parametrize("name", MISSING)
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_complex_numbers_without_nan(name, dtype):
    nan = np.nan
    x = np.array([[1 + 1j, complex(nan, 1), complex(5, nan), 2j], [3, complex(nan, nan), 1j, 2]], dtype)
    for along in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"axis": (0, 1)}):
        check(lambda x, along=along: MISSING[name](x, **along), x)
        check(lambda x, along=along: MISSING[name](x[:, ::-1] + 1, **along), x[:, :1])


def test_variance_without_nan_in_another_dtype():
    x = np.array([1.0, np.nan, 4.0, 2.0], np.float32)
    check(lambda x: np.nanvar(x, dtype=np.float64), x)
    check(lambda x: np.nanstd(x, dtype=np.float64), x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_ldexp(dtype):
    limits = np.finfo(dtype)
    numbers = np.array([0.0, -0.0, 1, -3, np.inf, -np.inf, np.nan, limits.max, limits.tiny, limits.smallest_subnormal,
                        limits.smallest_subnormal * 5, limits.max / 3, limits.tiny * 1.37], dtype)
    exponents = [0, 1, -1, 5, -5, 10, 20, -24, -25, 150, -149, -150, 300, -300, 1023, 1024, -1022, -1023, -1074, -1075,
                 1100, -1100, 2000, -2000, 2098, -2150, 5000, -5000, 2**31 - 1, -2**31]

    def exact(f, *args):
        with np.errstate(all="ignore"):
            expected, compiled = f(*args), fs.compile(f)(*args)
        assert expected.dtype == compiled.dtype
        np.testing.assert_array_equal(expected, compiled)
        assert np.array_equal(np.signbit(expected), np.signbit(compiled))

    for kind in (np.int64, np.int32):
        exact(lambda x, n: np.ldexp(x[:, None], n), numbers, np.array(exponents, kind))
    exact(lambda x, n: np.ldexp(x[:, None], n), numbers, np.array([2**40, -2**40]))
    for one in (150, 1100, -1100, -1076):
        exact(lambda x, one=one: np.ldexp(x, one), numbers)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_powers_of_complex_zero(dtype):
    x = np.array([0j, 1 + 1j, 2j, 3.0, -2.0, -1j, 1 - 2j], dtype)
    for power in (1 + 2j, 2j, -1 + 1j, 2, -2, 0.5, -0.5, 0, 0j, 3.0):
        check(lambda x, power=power: x ** power, x)
        check(lambda x, power=power: np.power(x[::-1], power), x)
    for base in (0, 0.0, 0j, 2, 1j):
        check(lambda x, base=base: base ** x, x)
    check(lambda x: x ** x, x)
    check(lambda x: x[:, None] ** x, x)


def test_tensordot_gives_an_array():
    x, y = np.arange(3.0), np.arange(6.0).reshape(2, 3)
    check(lambda x, y: np.tensordot(x, x, axes=1), x, y)
    check(lambda x, y: np.tensordot(y, y), x, y)
    check(lambda x, y: np.tensordot(y, y, axes=((0, 1), (0, 1))), x, y)
    check(lambda x, y: (np.inner(x, x), np.dot(x, x), np.vdot(x, x), np.inner(y, x), x @ x), x, y)
    check(lambda x, y: np.tensordot(x, x, axes=([0], [0])) * 2, x, y)
    check(lambda x, y: np.inner(y[None], y).sum(), x, y)


SMALL = np.arange(3.0)
BYTES = np.array([3, 250, 0], np.uint8)
ERRORS = {
    "negative number to an unsigned power": (lambda x: (-2) ** x, BYTES),
    "large number to an unsigned power": (lambda x: np.power(300, x), BYTES),
    "select": (lambda x: np.select([x > 1, x > 0], [1, 2], default=x), BYTES),
    "choose of floats": (lambda x: x.choose([x, x]), SMALL),
    "choose of uint64": (lambda x: np.choose(x.astype(np.uint64), [x, x, x]), SMALL),
    "choose of none": (lambda x: np.choose(x.astype(int) - 1, [x, x, x]), SMALL),
    "choose of too many": (lambda x: np.choose(x.astype(int), [x, x]), SMALL),
    "interp in two dimensions": (lambda x: np.interp(0.5, [0.0, 1.0], [x, x]), SMALL),
    "interp of xp in two dimensions": (lambda x: np.interp(0.5, [x, x + 1], [1.0, 2.0]), SMALL),
    "interp of other lengths": (lambda x: np.interp(x, [0.0, 1.0, 2.0], [1.0, 2.0]), SMALL),
    "interp of nothing": (lambda x: np.interp(x, x[:0], x[:0]), SMALL),
    "copyto a number": (lambda x: np.copyto(1.5, x), np.array(2.0)),
    "copyto a list": (lambda x: np.copyto([1.5, 1.5, 1.5], x), SMALL),
    "put into a list": (lambda x: np.put([1.0, 2.0], [0], x[:1]), SMALL),
    "place in a list": (lambda x: np.place([1.0, 2.0, 3.0], x > 1, x), SMALL),
    "putmask of a list": (lambda x: np.putmask([1.0, 2.0, 3.0], x > 1, x), SMALL),
    "fill_diagonal of a list": (lambda x: np.fill_diagonal([[1.0, 2.0], [3.0, 4.0]], x[1]), SMALL),
    "put_along_axis of a list": (lambda x: np.put_along_axis([1.0, 2.0], x[:1].astype(int), 1, 0), SMALL),
    "histogram of a range that falls": (lambda x: np.histogram(x, range=(2, 1))[0], SMALL),
    "histogram of an infinite range": (lambda x: np.histogram(x, range=(0, np.inf))[0], SMALL),
    "histogram without bins": (lambda x: np.histogram(x, bins=0)[0], SMALL),
    "fro of a vector": (lambda x: np.linalg.norm(x, "fro"), SMALL),
    "fro along an axis": (lambda x: np.linalg.norm(x, "fro", axis=0), SMALL),
    "norm of a number": (lambda x: np.linalg.norm(x.sum(), 2), SMALL),
    "norm of three dimensions": (lambda x: np.linalg.norm(x[None, None], axis=(0, 1, 2)), SMALL),
    "searchsorted on no side": (lambda x: np.searchsorted(x, x, side="z"), SMALL),
    "meshgrid of no indexing": (lambda x: np.meshgrid(x, indexing="z"), SMALL),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_numpy(name):
    f, x = ERRORS[name]
    outcomes = []
    for function in (f, fs.compile(f)):
        with pytest.raises(Exception) as caught:
            function(x.copy())
        outcomes.append((caught.type, str(caught.value)))
    assert outcomes[0] == outcomes[1]


def test_select_between_numbers():
    x = np.array([3, -20, 0], np.int8)
    check(lambda x: np.select([x > 1, x > 0], [1, 2], default=x), x)
    check(lambda x: np.select([x > 1, x > 0], [x, 2], default=1.5), x.astype(np.float32))
    check(lambda x: np.select([x > 1, x < 0], [x, 2 * x], default=0), x.astype(np.uint8))


def test_interp_of_one_point():
    check(lambda x: np.interp(x, [1.0], [5.0]), SMALL)
    check(lambda x: np.interp(x, x[:1], x[1:2], left=-1, right=7), SMALL)
