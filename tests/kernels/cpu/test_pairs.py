"""Arithmetic of bfloat16 in vectors, bit for bit that of eager torch."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from kernels.cpu.running import axis, run

B, F = torch.bfloat16, torch.float32
ALL = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(B)
OTHER = ALL[torch.randperm(1 << 16, generator=torch.Generator().manual_seed(0))]


@pytest.fixture(params=["host", "avx2", "without dot products"])
def machine(request):
    host = target.host()
    if request.param == "host":
        return host
    if host.vector_bytes <= 32:
        pytest.skip("that is what the host is, or less")
    if request.param == "avx2":
        return target.avx2()
    return target.Target(host.cpu, host.features.replace("+avx512vnni", "-avx512vnni"), host.vector_bytes)


def bits(x: torch.Tensor) -> torch.Tensor:
    """The bits of numbers, those of all NaNs made one."""
    return torch.where(torch.isnan(x), torch.full_like(x, float("nan")), x).view(torch.int16)


@pytest.mark.parametrize("size", [1 << 16, 65519, 31, 3, 2])
def test_every_number(size, machine):
    """Each operation is rounded, numbers below the normal ones and NaNs with any bits among them."""
    x, y, out = ALL[-size:], OTHER[:size].contiguous(), torch.empty(size, dtype=B)
    i = axis("i", size)

    def rounded(name: str, *args: ir.Value) -> ir.Value:
        return ir.cast(ir.op(name, *[ir.cast(arg, F) for arg in args]), B)

    first, second = ir.load("x", i.symbol, B), ir.load("y", i.symbol, B)
    product = rounded("mul", first, second)
    value = rounded("max", rounded("sub", rounded("mul", rounded("add", product, first), ir.const(0.5, B)), second),
                    ir.const(-1.0, B))
    run([ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), value)], parallel=True)], {"x": x, "y": y, "out": out},
        ["out"], target=machine)
    want = torch.maximum((x * y + x) * 0.5 - y, torch.tensor(-1.0, dtype=B))
    assert torch.equal(bits(out), bits(want))


def test_nan_of_a_float32_with_low_bits_stays_nan(machine):
    x = torch.tensor([0x7FFFFFFF, 0x7F800001, -1, 0x7F800000, 0x7F7FFFFF, 1], dtype=torch.int32).repeat(20).view(F)
    out = torch.empty(120, dtype=B)
    i = axis("i", 120)
    value = ir.cast(ir.op("neg", ir.load("x", i.symbol, F)), B)
    run([ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), value)])], {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(bits(out), bits((-x).to(B)))


@pytest.mark.parametrize("program", [
    lambda x, y: torch.where(x > y, x, y * 2),
    lambda x, y: (x.clone(), y.neg(), x.clamp(-3, 5)),
    lambda x, y: ((x + y).view(256, 256).amax(1), (x > y).view(256, 256).any(1)),
    lambda x, y: (x + 1).view(torch.int16),
    lambda x, y: x.float() - y,
    lambda x, y: x.view(-1, 64)[:, :33] + y.view(-1, 64)[:, 31:],
])
def test_programs(program):
    finite = [torch.where(torch.isfinite(one), one, torch.zeros_like(one)) for one in (ALL, OTHER)]
    compiled = fs.compile(program, backend="native", dynamic=False)
    torch.testing.assert_close(compiled(*finite), program(*finite), rtol=0, atol=0)


def test_sums_of_rows():
    x = torch.randn(50, 1000).to(B)
    compiled = fs.compile(lambda x: (x * x).sum(1, dtype=F), backend="native")
    torch.testing.assert_close(compiled(x), (x * x).sum(1, dtype=F))
