"""Transposed access in tiles, against eager torch."""

from __future__ import annotations

import pytest
import torch

from firesteel import shapes
from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from firesteel.shapes import symbol
from kernels.cpu.running import axis, run


@pytest.fixture(params=["host", "avx2"])
def machine(request):
    if request.param == "avx2" and target.host().vector_bytes <= 32:
        pytest.skip("that is what the host is, or less")
    return target.host() if request.param == "host" else target.avx2()


def transpose(x: torch.Tensor, out: torch.Tensor, build, machine, dynamic: bool = False) -> None:
    """``out[i, j] = build(x[j, i])`` as two loops in tiles."""
    rows, columns = out.shape
    s0, s1 = symbol("s0"), symbol("s1")
    sizes = {s0: rows, s1: columns} if dynamic else {}
    i = axis("i", s0 if dynamic else rows)
    j = axis("j", s1 if dynamic else columns)
    value = build(ir.load("x", i.size * j.symbol + i.symbol, x.dtype))
    place = ir.Place("out", shapes.as_expr(j.size * i.symbol + j.symbol))
    body = [ir.Loop(i, [ir.Loop(j, [ir.Store(place, value)])], parallel=True, tile=32)]
    run(body, {"x": x, "out": out}, ["out"], sizes, target=machine)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("shape", [(64, 32), (1, 40), (40, 1), (300, 77)], ids=str)
def test_copy(shape, dtype, machine):
    x = torch.arange(shape[0] * shape[1]).reshape(shape).to(dtype)
    out = torch.empty(shape[1], shape[0], dtype=dtype)
    transpose(x, out, lambda value: value, machine)
    assert torch.equal(out, x.t())


@pytest.mark.parametrize("dynamic", [False, True])
def test_bodies_that_do_not_fit_registers_go_through_a_buffer(dynamic, machine):
    x, out = torch.randn(100, 70), torch.empty(70, 100)

    def build(value: ir.Value) -> ir.Value:
        for number in range(12):
            value = ir.op("add", ir.op("mul", value, ir.const(0.5, torch.float32)), ir.const(number, torch.float32))
        return value

    transpose(x, out, build, machine, dynamic)
    want = x.t()
    for number in range(12):
        want = want * 0.5 + number
    torch.testing.assert_close(out, want)


@pytest.mark.parametrize("columns", [2048, 2050])
@pytest.mark.parametrize("offset", [0, 1])
def test_large_results_go_past_the_cache_where_rows_are_aligned(columns, offset, machine):
    rows = 4100
    x, memory = torch.randn(columns, rows), torch.zeros(rows * columns + 1)
    out = memory[offset : offset + rows * columns].view(rows, columns)
    transpose(x, out, lambda value: ir.op("neg", value), machine)
    assert torch.equal(out, -x.t())
    assert memory[0 if offset else -1] == 0, "written outside"
