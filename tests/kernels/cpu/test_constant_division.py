"""Division of int64 by constants: multiplications that are exact for all numbers of 64 bits."""

from __future__ import annotations

import random

import pytest
import torch

import firesteel as fs
from firesteel.kernels import ir
from kernels.cpu.test_operations import apply, machine  # noqa: F401 (a fixture)

EDGES = [0, 1, -1, 2, -2, 3, -3, 2**31, 2**32, 2**32 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, 2**53, 6]
DIVISORS = [1, 2, 3, 5, 6, 7, 10, 641, 1000, 3 << 20, 2**31 - 1, 2**31 + 1, 2**32 + 1, 10**12 + 39, 2**61 + 1,
            2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, -3, -7]


def numbers(divisor: int) -> torch.Tensor:
    drawn = random.Random(divisor)
    near = [min(max(k * divisor + step, -(2**63)), 2**63 - 1) for k in (-2, -1, 1, 2, 2**63 // abs(divisor))
            for step in (-1, 0, 1)]
    return torch.tensor([*EDGES, *near, *(drawn.randrange(-(2**63), 2**63) for _ in range(300)),
                         *(drawn.randrange(-1000, 1000) for _ in range(100))])


@pytest.mark.parametrize("divisor", DIVISORS)
def test_quotients_and_remainders(divisor, machine):  # noqa: F811
    x = numbers(divisor)
    if divisor < 0:
        x = x[x > -(2**63)]
    for op, exact in (("div_floor", lambda v: v // divisor), ("remainder", lambda v: v % divisor)):
        got = apply(op, [x], torch.int64, machine, lambda a, op=op: ir.op(op, a, ir.const(divisor, torch.int64)))
        assert got.tolist() == [exact(value) for value in x.tolist()]


def test_divisors_that_are_drawn(machine):  # noqa: F811
    drawn = random.Random(0)
    for bits in range(2, 63):
        divisor = drawn.randrange(2 ** (bits - 1), 2**bits)
        x = numbers(divisor)
        got = apply("", [x], torch.int64, machine, lambda a, d=divisor: ir.op("div_floor", a, ir.const(d, torch.int64)))
        assert got.tolist() == [value // divisor for value in x.tolist()], divisor


def test_no_check_of_a_divisor_that_is_known():
    """What is divided in place is written where it is: nothing can raise any more."""
    def function(x):
        x += 1
        x //= 3
        return x % 7

    given, taken = torch.arange(-50, 50), torch.arange(-50, 50)
    assert torch.equal(fs.compile(function, backend="native", fullgraph=True)(taken), function(given))
    assert torch.equal(taken, given)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        fs.compile(lambda x, y: x // y, backend="native")(given, torch.tensor(0))
