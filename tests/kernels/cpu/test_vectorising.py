"""Which of two loops becomes vectors: the one along which memory is read and written."""

from __future__ import annotations

import pytest
import torch

from firesteel.kernels import ir
from firesteel.kernels.cpu.vectorising import vectorise_here
from kernels.cpu.running import axis, run

F = torch.float32


def scaled(channels: int, pixels: int, numbers: int, by_rows: bool) -> ir.Loop:
    """``x * v0 * v1 * ...`` with a number per channel out of each v; pixels of a channel lie together, or do not."""
    c, p = axis("c", channels), axis("p", pixels)
    where = pixels * c.symbol + p.symbol if by_rows else c.symbol + channels * p.symbol
    value = ir.load("x", where, F)
    for number in range(numbers):
        value = ir.op("mul", value, ir.load(f"v{number}", c.symbol, F))
    return ir.Loop(c, [ir.Loop(p, [ir.Store(ir.Place("out", where), value)])], parallel=True)


@pytest.mark.parametrize("numbers", [1, 4, 6])
@pytest.mark.parametrize("by_rows", [True, False])
def test_numbers_per_channel_do_not_decide(numbers, by_rows):
    """They are read once per channel, however many of them there are."""
    loop = scaled(32, 96, numbers, by_rows)
    assert vectorise_here(loop) == (not by_rows)
    x, out = torch.randn(32, 96), torch.empty(32, 96)
    given = x if by_rows else x.t().contiguous()
    vectors = {f"v{number}": torch.randn(32) for number in range(numbers)}
    run([loop], {"x": given, **vectors, "out": out}, ["out"])
    want = x
    for vector in vectors.values():
        want = want * vector[:, None]
    torch.testing.assert_close(out if by_rows else out.view(96, 32).t(), want)
