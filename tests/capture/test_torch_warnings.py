"""Warnings that torch's C++ issues: as often as in eager, at the program's line."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch

import firesteel as fs
from firesteel import config

BACKENDS = pytest.mark.parametrize("backend", ["eager", "native"])


@pytest.fixture(autouse=True)
def strict():
    always = torch.is_warn_always_enabled()
    with config.patch(raise_on_internal_error=True):
        yield
    torch.set_warn_always(always)


def issued(function, make, calls=3):
    """The warnings of each of some calls, with the lines that they stand at."""
    found = []
    for _ in range(calls):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(make())
        found.append([(w.category, str(w.message)[:40], w.filename, w.lineno) for w in caught])
    return found


def copied(x):
    return torch.tensor(x)


def copied_to_another_dtype(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True) * 2


def transposed(x):
    return x.T + 1


def as_float(x):
    return float(x.sum())


@BACKENDS
@pytest.mark.parametrize("fullgraph", [False, True])
def test_copies_of_tensors_warn_in_each_call(backend, fullgraph):
    for function in (copied, copied_to_another_dtype):
        compiled = fs.compile(function, backend=backend, fullgraph=fullgraph)
        expected = issued(function, lambda: torch.ones(2))
        assert issued(compiled, lambda: torch.ones(2)) == expected
        assert all(expected)
        x = torch.randn(3, 4).t()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, plain = compiled(x), function(x)
        assert result.stride() == plain.stride() and result.requires_grad == plain.requires_grad
        assert torch.equal(result, plain) and result.data_ptr() != x.data_ptr()


@BACKENDS
def test_warnings_that_are_always_given(backend):
    torch.set_warn_always(True)
    for function in (transposed, as_float):
        make = lambda: torch.ones(2, requires_grad=True)
        expected = issued(function, make)
        assert all(expected)
        assert issued(fs.compile(function, backend=backend), make) == expected


@BACKENDS
def test_warnings_that_are_given_once(backend):
    program = textwrap.dedent(f"""
        import sys, warnings, torch, firesteel as fs
        warnings.showwarning = lambda message, category, filename, line, *more: print(line, str(message)[:30])
        def transposed(x): return x.T
        def as_float(x): return float(x.sum())
        for function in (transposed, as_float):
            function = fs.compile(function, backend={backend!r}) if len(sys.argv) > 1 else function
            for _ in range(3):
                with warnings.catch_warnings():
                    warnings.simplefilter("always")
                    function(torch.ones(2, requires_grad=True))
    """)
    plain, compiled = (subprocess.run([sys.executable, "-c", program, *more], check=True, capture_output=True,
                                      text=True).stdout for more in ([], ["compiled"]))
    assert compiled == plain and len(plain.splitlines()) == 2


def test_what_warnings_have_shown_is_not_forgotten():
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        filters = list(warnings.filters)
        fs.compile(lambda x: x.sin() + x.T, backend="eager")(torch.ones(2, 2))
        assert warnings.filters == filters


@BACKENDS
@pytest.mark.parametrize("function", [
    lambda x: torch.full((2,), np.complex64(3 + 2j)), lambda x: x * np.complex64(3 + 2j), lambda x: np.complex64(3) + x,
    lambda x: torch.where(x > 0, np.clongdouble(3 + 2j), 1.0), lambda x: torch.tensor(np.complex64(3 + 2j)),
    lambda x: x * np.complex128(3 + 2j), lambda x: x * np.longdouble("0.1")])  # fmt: skip
def test_torch_takes_the_real_part_of_complex_numbers_of_numpy(function, backend):
    compiled = fs.compile(function, backend=backend)
    assert issued(compiled, lambda: torch.ones(2)) == issued(function, lambda: torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result, plain = compiled(torch.ones(2)), function(torch.ones(2))
    assert result.dtype is plain.dtype and torch.equal(result, plain)
