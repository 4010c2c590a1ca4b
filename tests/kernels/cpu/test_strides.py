"""Loads and stores of every second to fourth element, and scans along lanes, against eager torch."""

from __future__ import annotations

import ctypes
import mmap

import pytest
import torch

import firesteel as fs
from firesteel import shapes
from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from firesteel.kernels.lowering.scalars import cast
from kernels.cpu.running import axis, run

F = torch.float32


@pytest.fixture(params=["host", "avx2"])
def machine(request):
    if request.param == "avx2" and target.host().vector_bytes <= 32:
        pytest.skip("that is what the host is, or less")
    return target.host() if request.param == "host" else target.avx2()


@pytest.fixture
def end_of_memory():
    """A tensor of one page, behind which nothing can be read."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    tensor = torch.frombuffer(memory, dtype=torch.float32, count=page // 4)
    protect = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(tensor.data_ptr() + page, page, mmap.PROT_READ & 0) == 0
    yield tensor
    assert protect(tensor.data_ptr() + page, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_loads_do_not_reach_beyond_the_last_element(step, end_of_memory, machine):
    x = end_of_memory.copy_(torch.arange(end_of_memory.numel()))
    count = (x.numel() - 1) // step + 1
    start = x.numel() - 1 - step * (count - 1)
    out = torch.zeros(count)
    i = axis("i", count)
    body = [ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), ir.load("x", step * i.symbol + start, F))])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x[start::step])


@pytest.mark.parametrize("dtype", [torch.float64, F, torch.bfloat16, torch.int8, torch.bool], ids=str)
@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 2), (2, 0, 3, 1)], ids=str)
def test_stores_that_fill_gaps(order, dtype, machine):
    step, count = len(order), 77
    parts = [torch.randn(count).mul(5).to(dtype) for _ in order]
    out = torch.zeros(step * count, dtype=dtype)
    i = axis("i", count)
    stores = [ir.Store(ir.Place("out", shapes.as_expr(step * i.symbol + at)), ir.load(f"x{at}", i.symbol, dtype))
              for at in order]
    tensors = {f"x{at}": part for at, part in enumerate(parts)}
    run([ir.Loop(i, stores)], {**tensors, "out": out}, ["out"], target=machine)
    assert torch.equal(out, torch.stack(parts, 1).flatten())


def test_stores_to_the_same_places_keep_their_order(machine):
    x, y, out = torch.randn(64), torch.randn(64), torch.zeros(128)
    i = axis("i", 64)
    stores = [ir.Store(ir.Place("out", shapes.as_expr(2 * i.symbol + at)), ir.load(name, i.symbol, F))
              for name, at in (("x", 0), ("x", 1), ("y", 0))]
    run([ir.Loop(i, stores)], {"x": x, "y": y, "out": out}, ["out"], target=machine)
    assert torch.equal(out, torch.stack([y, x], 1).flatten())


@pytest.mark.parametrize("kind", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", [torch.float64, F, torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("size", [5, 333])
def test_scans(size, dtype, kind, machine):
    x = torch.randn(3, size).mul(4).to(dtype)
    out = torch.empty_like(x)
    i, j = axis("i", 3), axis("j", size)
    at = i.symbol * size + j.symbol
    scan = ir.Scan(kind, j, ir.load("x", at, dtype), ir.Place("out", shapes.as_expr(at)), dtype)
    run([ir.Loop(i, [scan])], {"x": x, "out": out}, ["out"], target=machine)
    if kind in ("cumsum", "cumprod"):
        torch.testing.assert_close(out, getattr(torch, kind)(x, 1, dtype=dtype))
    else:
        assert torch.equal(out, getattr(torch, kind)(x, 1).values)


def test_what_is_not_finite_in_scans():
    x = torch.ones(4, 50)
    x[0, 20], x[1, 30], x[1, 33], x[2, 7] = torch.inf, torch.inf, -torch.inf, torch.nan
    compiled = fs.compile(lambda x: (x.cumsum(1), x.cummax(1).values, x.cummin(1).values), backend="native")
    torch.testing.assert_close(compiled(x), (x.cumsum(1), x.cummax(1).values, x.cummin(1).values), equal_nan=True)


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.int8, torch.int16, torch.int32, torch.bool], ids=str)
@pytest.mark.parametrize("count", [9, 17, 33])
def test_one_element_after_whole_vectors_is_written_alone(narrow, count, machine):
    """LLVM has written the wide number that the last element was truncated from, over what lies behind it."""
    wide = torch.float32 if narrow is torch.bfloat16 else torch.int64
    x = torch.arange(4 * count).to(wide) - 7
    memory = torch.full((count + 16,), 1).to(narrow)
    i = axis("i", count)
    value = ir.op("mul", ir.load("x", 4 * i.symbol, wide), ir.const(3, wide))
    body = [ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), cast(value, narrow))])]
    run(body, {"x": x, "out": memory[:count]}, ["out"], target=machine)
    assert torch.equal(memory, torch.cat([(x[::4] * 3).to(narrow), torch.full((16,), 1).to(narrow)]))
