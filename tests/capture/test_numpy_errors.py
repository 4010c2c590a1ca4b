"""``np.errstate`` in compiled functions: part of the graph where errors are ignored, and as in NumPy otherwise."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import firesteel as fs

from .test_numpy import difference

X = np.array([0.0, 1.0, 2.0])


def masked_logarithm(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, np.log(x), 0.0) / x.sum()


def nested(x):
    with np.errstate(all="ignore"):
        y = x / 0
        with np.errstate(divide="warn", over=None):
            z = np.exp(x * 1000)
    return y, z, x + 1


def raising(x):
    try:
        with np.errstate(divide="ignore"):
            y = np.log(x)
            if x.ndim == 1:
                raise KeyError("out")
    except KeyError:
        y = x * 3
    return y + 1


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("function", [masked_logarithm, nested, raising])
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_ignored_errors_are_part_of_the_graph(function, backend):
    compiled = fs.compile(function, fullgraph=True, backend=backend)
    for _ in range(3):
        settings = np.geterr()
        assert not difference(function(X), compiled(X))
        assert np.geterr() == settings


def broken_inside(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x * 2
        sys.intern("a step of plain Python")
        words = [str(np.geterr()["divide"]), str(np.log(np.array([0.0], dtype=np.longdouble)))]
        z = np.log(x) + y
    return z, words, np.geterr()["divide"]


def kept(x):
    manager = np.errstate(divide="ignore")
    with manager:
        y = np.log(x)
    return y, type(manager)


@pytest.mark.parametrize("function", [broken_inside, kept])
@pytest.mark.filterwarnings("error")
def test_the_block_goes_on_in_plain_python(function):
    compiled = fs.compile(function)
    with np.errstate(divide="warn"):
        for _ in range(3):
            assert not difference(function(X), compiled(X))
            assert np.geterr()["divide"] == "warn"


@pytest.mark.parametrize("what", ["raise", "call", "warn"])
def test_errors_that_are_seen(what):
    seen = []

    def function(x):
        with np.errstate(divide=what, **({"call": lambda *error: seen.append(error)} if what == "call" else {})):
            return np.log(x) * 2

    compiled = fs.compile(function)
    if what == "raise":
        with pytest.raises(FloatingPointError):
            compiled(X)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not difference(function(X), compiled(X))
    assert len(seen) == (2 if what == "call" else 0)


def test_inside_of_a_block_that_raises():
    def function(x):
        with np.errstate(over="ignore"):
            return x / np.zeros(3)

    compiled = fs.compile(function)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        compiled(X[1:].sum() + X)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert not difference(function(X), compiled(X))
