"""Functions of float64 that are written out: within about one unit in the last place of the true result."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch

import firesteel as fs
from kernels.cpu.test_operations import UNARY, apply, machine  # noqa: F401 (a fixture)

MOST = {"exp": 0.8, "expm1": 1.1, "sinh": 1.2, "cosh": 1.0, "tanh": 1.1, "log": 0.9, "log1p": 1.3, "asinh": 2.0}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, -5e-324, 1e-310, 1e308, -1e308, -745.2, -1.0, 1.0, -2.0,
           2.0**300, 2.0**301, 36.5, 40.0, 40.1, 709.0, -709.0]


def numbers(op: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)

    def uniform(low: float, high: float, count: int) -> torch.Tensor:
        return torch.rand(count, dtype=torch.float64, generator=generator) * (high - low) + low

    small = 10.0 ** uniform(-308, 0, 200)
    x = torch.cat([uniform(-2, 2, 800), uniform(-0.36, 0.36, 500), uniform(-25, 25, 300), uniform(-709, 709, 200),
                   small, -small])
    if op == "log":
        return torch.cat([x.abs(), uniform(0.7, 1.5, 500), 10.0 ** uniform(-323, 308, 300)])
    return torch.cat([x[x > -1], uniform(-1, 1, 500)]) if op == "log1p" else x


def errors(x: torch.Tensor, y: torch.Tensor, op: str) -> list[float]:
    """How far results are from the true ones, in units in their last place."""
    result = []
    with mpmath.workprec(200):
        for given, computed in zip(x.tolist(), y.tolist(), strict=True):
            exact = getattr(mpmath, op)(mpmath.mpf(given))
            result.append(float(abs(computed - exact) / math.ulp(float(exact))))
    return result


@pytest.mark.parametrize("op", MOST)
def test_accuracy(op, machine):  # noqa: F811
    x = numbers(op)
    assert max(errors(x, apply(op, [x], torch.float64, machine), op)) <= MOST[op]


@pytest.mark.parametrize("op", MOST)
def test_special_numbers(op, machine):  # noqa: F811
    """In vectors and one by one; signs of zeros too."""
    x = torch.tensor(SPECIAL, dtype=torch.float64)
    eager = UNARY[op](x)
    for got in (apply(op, [x], torch.float64, machine), torch.cat([apply(op, [one], torch.float64, machine)
                                                                   for one in x.reshape(-1, 1)])):
        torch.testing.assert_close(got, eager, equal_nan=True, rtol=1e-15, atol=1e-323)
        known = ~eager.isnan() & ((x.abs() > 1e-300) | (x == 0))  # eager's log1p of the smallest numbers is 0
        assert torch.equal(got.signbit()[known], eager.signbit()[known])


def test_results_that_are_finite_where_an_exponential_is_not(machine):  # noqa: F811
    x = torch.tensor([709.8, 710.0, 710.2, 710.4, 710.47, -710.47, 711.0, -1000.0], dtype=torch.float64)
    for op in ("sinh", "cosh"):
        got = apply(op, [x], torch.float64, machine)
        assert max(errors(x[:6], got[:6], op)) <= MOST[op]
        assert got[6:].isinf().all()


def test_hypot(machine):  # noqa: F811
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** (torch.rand(2000, dtype=torch.float64, generator=generator) * 600 - 300)
    x, y = (torch.randn(2000, dtype=torch.float64, generator=generator) * scale for _ in range(2))
    got = apply("hypot", [x, y], torch.float64, machine)
    with mpmath.workprec(200):
        for a, b, size in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
            assert abs(size - mpmath.hypot(a, b)) <= math.ulp(size)
    special = torch.tensor([*SPECIAL, 1.7e308, 3e-200], dtype=torch.float64)
    x, y = (t.reshape(-1).contiguous() for t in torch.meshgrid(special, special, indexing="ij"))
    torch.testing.assert_close(apply("hypot", [x, y], torch.float64, machine), torch.hypot(x, y), equal_nan=True,
                               rtol=1e-15, atol=0)


def test_beside_narrower_numbers():
    """Vectors then have more lanes than fit a register of float64."""
    x, y = torch.linspace(-3, 3, 1003, dtype=torch.float64), torch.linspace(0, 1, 1003)

    def function(x, y):
        return torch.tanh(x) + torch.exp(x) * y, (torch.sinh(x) + torch.log(y + 1)).to(torch.float32)

    torch.testing.assert_close(fs.compile(function, backend="native")(x, y), function(x, y))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_powers_by_other_functions(dtype):
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.5, math.inf, -math.inf, math.nan, 1e-30, 1e30, 100.5, -3.0], dtype=dtype)
    for function in (lambda x: x**1.5, lambda x: 2.0**x, lambda x: torch.ldexp(x, torch.tensor(3)), lambda x: 2**x):
        torch.testing.assert_close(fs.compile(function, backend="native")(x), function(x), equal_nan=True)
