"""Quotients with fewer instructions than a division, against divisions: all kinds of numbers, bit by bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.gpu.blocks import Blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from kernels.gpu import stand_in_triton
from kernels.gpu.on_gpu import needs_gpu
from kernels.gpu.test_blocks import plan_of
from kernels.gpu.test_triton_printer import run_plan

LEAST = 2.0**-149
EDGES = [0.0, -0.0, LEAST, 3 * LEAST, 2.0**-128, 2.0**-127, 2.0**-126, 2.0**-100, 2.0**-90, 0.3, 1.0, -1.0, 3.0, 7.0,
         2.0**64, 2.0**126, 1.5 * 2.0**126, 2.0**127, 3.4028234663852886e38, torch.inf, -torch.inf, torch.nan]
"""Numbers at which something changes."""


def numbers(count, seed=0):
    """Random numbers of all sizes, and the edges."""
    generator = torch.Generator().manual_seed(seed)
    bits = torch.randint(-(1 << 31), 1 << 31, (count,), generator=generator).to(torch.int32)
    return torch.cat([torch.tensor(EDGES), bits.view(torch.float32)])


def assert_rounded(got, a, b):
    """Whether quotients are rounded to the nearest, to a ten thousandth of a unit in the last place; those of small
    numbers, of which nothing that is left can be told, to two units."""
    want, exact = a / b, a.double() / b.double()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())
    known = want.isfinite()
    assert torch.equal(got[known].signbit(), want[known].signbit())
    unit = torch.finfo(torch.float32).eps * torch.exp2(exact.abs().clamp_min(2.0**-126).log2().floor())
    small = (a.abs() < 1e-28).expand(want.shape) | (exact.abs() < 2.0**-125)
    error = (got.double() - exact).abs() / unit
    assert (error[known & ~small] <= 0.5001).all() and (error[known & small] <= 2).all()
    assert (got != want)[known & ~small].sum() <= 0.002 * (known & ~small).sum()


def divided(x, s):
    return x / s


def divided_rows(x, s):
    return x / s.sum(-1, keepdim=True)


def silu(x):
    return x / (torch.exp(-x) + 1)


def results(program, *args):
    plan, kernels, given = plan_of(program, *args)
    made = [print_triton(kernel, Blocks(1 << 17, 1, 1 << 17, 4) if args[0].dim() == 1 else None) for kernel in kernels]
    [result] = run_plan(plan, made, given)
    return result.reshape(program(*args).shape), "".join(kernel.source for kernel in made)


def test_one_divisor_for_all():
    x = numbers(4096)
    plan, kernels, given = plan_of(divided, x, torch.tensor(3.0))
    made = [print_triton(kernel, Blocks(1 << 13, 1, 1 << 13, 4)) for kernel in kernels]
    assert "quotient(" in made[0].source and made[0].source.count("div_rn") == 1
    for divisor in [*EDGES, *numbers(40, 1)[len(EDGES):].tolist()]:
        s = torch.tensor(divisor)
        [got] = run_plan(plan, made, [s if part.dim() == 0 else part for part in given])
        assert_rounded(got, x, s)


def test_one_divisor_for_each_row():
    s = numbers(100, 2)
    x = torch.stack([numbers(42, seed) for seed in range(len(s))])
    pairs = torch.stack([s, torch.zeros_like(s)], -1)
    got, source = results(divided_rows, x, pairs)
    assert "quotient(" in source
    assert_rounded(got, x, pairs.sum(-1, keepdim=True))


@pytest.mark.parametrize("program", [silu, F.silu, torch.sigmoid])
def test_a_divisor_above_one(program, monkeypatch):
    generator = torch.Generator().manual_seed(0)

    def inverse(b):
        """As near as the GPU's: a unit in the last place away, except for powers of two, and zero where it would be
        below the normal numbers."""
        found = b.reciprocal()
        other = torch.nextafter(found, torch.where(torch.rand(b.shape, generator=generator) < 0.5, torch.inf, 0.0))
        other = torch.where(b.frexp().mantissa == 0.5, found, other)
        return torch.where(found.abs() < 2.0**-126, 0.0, other)

    monkeypatch.setitem(stand_in_triton.ASSEMBLY, "rcp.approx.ftz.f32", inverse)
    x = torch.cat([numbers((1 << 15) - len(EDGES)), torch.linspace(-110, 110, 1 << 15), torch.randn(1 << 16)])
    got, source = results(program, x)
    assert "over_one_plus(" in source and "div_rn" not in source
    assert_rounded(got, torch.ones_like(x) if program is torch.sigmoid else x, torch.exp(-x) + 1)


def test_what_stays_a_division():
    """Where the divisor differs from lane to lane, or the dividend does not."""
    x, y = torch.rand(64, 16) + 1, torch.rand(64, 16) + 1
    for program, args in ((divided, (x, y)), (lambda x: 1 / x.sum(-1), (x,))):
        got, source = results(program, *args)
        assert "quotient(" not in source and "div_rn" in source
        torch.testing.assert_close(got, program(*args))


def test_softmax_divides_by_its_sum():
    x = torch.randn(6, 40) * 10
    x[1, 3], x[2], x[3, 0] = torch.nan, -torch.inf, torch.inf
    got, source = results(lambda x: torch.softmax(x, -1), x)
    assert "quotient(" in source
    torch.testing.assert_close(got, torch.softmax(x, -1), equal_nan=True)


@needs_gpu
@pytest.mark.parametrize("program", [silu, F.silu, torch.sigmoid])
def test_a_divisor_above_one_on_a_gpu(program):
    x = torch.cat([numbers(1 << 20), torch.linspace(-110, 110, 1 << 20), torch.randn(1 << 20)]).cuda()
    with torch.no_grad():
        got = fs.compile(program, fullgraph=True)(x)
        assert_rounded(got, torch.ones_like(x) if program is torch.sigmoid else x, torch.exp(-x) + 1)


@needs_gpu
def test_one_divisor_for_all_on_a_gpu():
    x = numbers(1 << 20).cuda()
    with torch.no_grad():
        f = fs.compile(divided, fullgraph=True)
        rows = fs.compile(divided_rows, fullgraph=True)
        for divisor in [*EDGES, *numbers(20, 1)[len(EDGES):].tolist()]:
            s = torch.tensor(divisor, device="cuda")
            assert_rounded(f(x, s), x, s)
        s = numbers(1000, 3).cuda()
        x = torch.stack([numbers(2026, seed) for seed in range(len(s))]).cuda()
        pairs = torch.stack([s, torch.zeros_like(s)], -1)
        assert_rounded(rows(x, pairs), x, pairs.sum(-1, keepdim=True))
