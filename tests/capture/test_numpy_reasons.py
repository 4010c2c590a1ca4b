"""Reasons of breaks at functions of NumPy's name the argument that is not captured, and the step runs as in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import firesteel as fs

from .test_numpy import difference

X = np.random.default_rng(0).standard_normal((6, 4))
REASONS = {
    "np.quantile with several q and an array of float32": lambda x: np.quantile(x.astype(np.float32), [0.1, 0.9]),
    "np.quantile with an array of float16": lambda x: np.quantile(x.astype(np.float16), 0.5),
    "np.quantile with method='lower'": lambda x: np.quantile(x, 0.5, method="lower"),
    "np.linalg.norm with an array of complex128": lambda x: np.linalg.norm(x * 1j),
    "np.histogram with bins='auto'": lambda x: np.histogram(x, bins="auto"),
    "np.histogram with bins that are edges": lambda x: np.histogram(x, bins=[-1, 0, 1]),
    "np.histogram with density=True": lambda x: np.histogram(x, density=True),
    "np.histogram with weights=": lambda x: np.histogram(x, weights=x),
    "np.unique with axis=0": lambda x: np.unique(x, axis=0),
    "np.unique with return_index=True": lambda x: np.unique(x, return_index=True),
    "np.median with overwrite_input=True": lambda x: np.median(x.copy(), overwrite_input=True),
    "np.add with order='F'": lambda x: np.add(x, 1, order="F"),
    "np.add with casting='unsafe'": lambda x: np.add(x, 1, casting="unsafe"),
    "np.take with mode='clip'": lambda x: np.take(x, [0, 99], mode="clip"),
    "np.linspace with retstep=": lambda x: np.linspace(0, 1, 5, retstep=True)[0] + x[0, 0],
    "np.nan_to_num with copy=False": lambda x: np.nan_to_num(x.copy(), copy=False),
    "np.einsum with subscripts that are no text": lambda x: np.einsum(x, [0, 1], [1]),
    "np.fft.fft2 with s=": lambda x: np.fft.fft2(x, s=(4, 4)),
    "np.add.reduceat with an array of 2 dimensions": lambda x: np.add.reduceat(x, [0, 2]),
    "np.polyfit with w=": lambda x: np.polyfit(np.arange(6.0), x[:, 0], 1, w=np.ones(6)),
}


@pytest.mark.parametrize("reason", REASONS)
def test_the_reason_names_the_argument(reason):
    explained = fs.explain(REASONS[reason])(X.copy())
    assert explained.break_reasons[0].reason == reason
    assert not difference(REASONS[reason](X.copy()), fs.compile(REASONS[reason])(X.copy()))
