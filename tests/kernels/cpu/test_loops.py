"""Loops, memory access and reductions as machine code, against eager torch."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from firesteel import shapes
from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from firesteel.kernels.cpu.engine import compile_kernels
from firesteel.shapes import symbol
from kernels.cpu.running import axis, kernel, launcher, run

F = torch.float32
SIZES = [1, 3, 16, 17, 64, 130, 1000]


@pytest.fixture(params=["host", "avx2"])
def machine(request):
    if request.param == "avx2" and target.host().vector_bytes <= 32:
        pytest.skip("that is what the host is, or less")
    return target.host() if request.param == "host" else target.avx2()


def store(name: str, index, value: ir.Value, **kwargs) -> ir.Store:
    return ir.Store(ir.Place(name, shapes.as_expr(index)), value, **kwargs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", [0, *SIZES])
def test_pointwise(size, dynamic, machine):
    x, out = torch.randn(size), torch.full((size + 8,), 7.0)
    s0 = symbol("s0")
    i = axis("i", s0 if dynamic else size)
    value = ir.op("add", ir.load("x", i.symbol, F), ir.const(1.0, F))
    body = [ir.Loop(i, [store("out", i.symbol, value)], parallel=True)]
    run(body, {"x": x, "out": out}, ["out"], {s0: size} if dynamic else None, target=machine)
    assert torch.equal(out[:size], x + 1)
    assert torch.equal(out[size:], torch.full((8,), 7.0)), "written beyond the end"


def test_parallel_pointwise(machine):
    size = 1 << 20
    x, y, out = torch.randn(size + 3), torch.randn(size + 3), torch.zeros(size + 3)
    i = axis("i", size + 3)
    value = ir.op("mul", ir.load("x", i.symbol, F), ir.load("y", i.symbol, F))
    body = [ir.Loop(i, [store("out", i.symbol, value)], parallel=True)]
    run(body, {"x": x, "y": y, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x * y)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("offset", [0, 1])
def test_large_results(offset, dynamic, machine):
    """Past the cache where they are aligned."""
    size = (1 << 23) + 5
    x, memory = torch.randn(size), torch.zeros(size + 1)
    out, s0 = memory[offset:offset + size], symbol("s0")
    i = axis("i", s0 if dynamic else size)
    body = [ir.Loop(i, [store("out", i.symbol, ir.op("neg", ir.load("x", i.symbol, F)))], parallel=True)]
    made = kernel(body, {"x": x, "out": out}, ["out"], [s0] if dynamic else [])
    if dynamic:
        made.buffers[1] = dataclasses.replace(made.buffers[1], shape=(s0,))
    launcher(compile_kernels([made], machine)[0], [x, out], [size])()
    assert torch.equal(out, -x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_broadcast_and_collapsed_loops(dynamic, machine):
    a, b, c = 7, 300, 70
    x, row, column = torch.randn(a, b, c), torch.randn(c), torch.randn(b, 1)
    out = torch.zeros(a, b, c)
    s = [symbol(f"s{n}") for n in range(3)] if dynamic else [shapes.as_expr(n) for n in (a, b, c)]
    i, j, k = axis("i", s[0]), axis("j", s[1]), axis("k", s[2])
    at = (i.symbol * s[1] + j.symbol) * s[2] + k.symbol
    value = ir.op("add", ir.op("mul", ir.load("x", at, F), ir.load("row", k.symbol, F)), ir.load("column", j.symbol, F))
    body = [ir.Loop(i, [ir.Loop(j, [ir.Loop(k, [store("out", at, value)])], parallel=True)], parallel=True)]
    run(body, {"x": x, "row": row, "column": column, "out": out}, ["out"],
        dict(zip(s, (a, b, c), strict=True)) if dynamic else None, target=machine)
    assert torch.equal(out, x * row + column)


@pytest.mark.parametrize("dtype", [F, torch.float64, torch.int64, torch.int8, torch.bool, torch.bfloat16], ids=str)
@pytest.mark.parametrize("step", [-1, 2, 3, 5])
def test_strides(step, dtype, machine):
    count = 77
    x = (torch.randn(count * abs(step)) * 5).to(dtype)
    out = torch.zeros(count, dtype=dtype)
    i = axis("i", count)
    at = i.symbol * step + (count - 1 if step < 0 else 0)
    run([ir.Loop(i, [store("out", i.symbol, ir.load("x", at, dtype))])], {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x.flip(0) if step < 0 else x[::step])
    back = torch.zeros_like(x)
    run([ir.Loop(i, [store("x", at, ir.load("out", i.symbol, dtype))])], {"out": out, "x": back}, ["x"], target=machine)
    assert torch.equal(back.flip(0) if step < 0 else back[::step], out)


@pytest.mark.parametrize("dynamic", [False, True])
def test_division_in_indices(dynamic, machine):
    """A repeat along the inner axis and a tile along it."""
    n, m = 13, 6
    x = torch.randn(n)
    s0, s1 = (symbol("s0"), symbol("s1")) if dynamic else (shapes.as_expr(n), shapes.as_expr(m))
    i = axis("i", s0 * s1)
    one, two = torch.zeros(n * m), torch.zeros(n * m)
    body = [ir.Loop(i, [store("one", i.symbol, ir.load("x", i.symbol // s1, F)),
                        store("two", i.symbol, ir.load("x", i.symbol % s0, F))])]
    run(body, {"x": x, "one": one, "two": two}, ["one", "two"], {s0: n, s1: m} if dynamic else None, target=machine)
    assert torch.equal(one, x.repeat_interleave(m))
    assert torch.equal(two, x.repeat(m))


def test_negative_division_in_indices(machine):
    x, out = torch.arange(20.0), torch.zeros(37)
    i = axis("i", 37)
    at = (i.symbol - 20) // 3 + 10
    run([ir.Loop(i, [store("out", i.symbol, ir.load("x", at, F))])], {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x[(torch.arange(37) - 20) // 3 + 10])


def test_gather_embedding(machine):
    table, tokens = torch.randn(50, 33), torch.randint(0, 50, (4, 9))
    out = torch.zeros(4, 9, 33)
    row, k, t = axis("r", 36), axis("k", 33), symbol("t")
    token = ir.load("tokens", row.symbol, torch.int64)
    value = ir.load("table", t * 33 + k.symbol, F, [(t, token)])
    body = [ir.Loop(row, [ir.Loop(k, [store("out", row.symbol * 33 + k.symbol, value)])], parallel=True)]
    run(body, {"table": table, "tokens": tokens, "out": out}, ["out"], target=machine)
    assert torch.equal(out, table[tokens])


def test_gather_along_lanes(machine):
    x, index = torch.randn(6, 40), torch.randint(0, 40, (6, 55))
    out = torch.zeros(6, 55)
    r, k, t = axis("r", 6), axis("k", 55), symbol("t")
    where = ir.load("index", r.symbol * 55 + k.symbol, torch.int64)
    body = [ir.Loop(r, [ir.Loop(k, [store("out", r.symbol * 55 + k.symbol,
                                          ir.load("x", r.symbol * 40 + t, F, [(t, where)]))])])]
    run(body, {"x": x, "index": index, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x.gather(1, index))


@pytest.mark.parametrize("mode", ["set", "add", "max"])
def test_scatter(mode, machine):
    x = torch.randn(70)
    index = torch.randperm(90)[:70] if mode == "set" else torch.randint(0, 9, (70,))
    out = torch.zeros(90)
    expected = {"set": lambda: out.scatter(0, index, x), "add": lambda: out.scatter_add(0, index, x),
                "max": lambda: out.scatter_reduce(0, index, x, "amax")}[mode]()
    k, t = axis("k", 70), symbol("t")
    place = ir.Place("out", t, (t,))
    body = [ir.Loop(k, [ir.Store(place, ir.load("x", k.symbol, F), (ir.load("index", k.symbol, torch.int64),), mode)],
                    parallel=True)]
    run(body, {"x": x, "index": index, "out": out}, ["out"], target=machine)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("dtype", [F, torch.int8, torch.bool], ids=str)
def test_masked_loads_pad(dtype, machine):
    x = (torch.randn(40) * 3).to(dtype)
    out = torch.zeros(75, dtype=dtype)
    i = axis("i", 75)
    inside = ir.op("and", ir.op("ge", ir.index(i.symbol), ir.const(20, torch.int64)),
                   ir.op("lt", ir.index(i.symbol), ir.const(60, torch.int64)))
    value = ir.load("x", i.symbol - 20, dtype, mask=inside)
    run([ir.Loop(i, [store("out", i.symbol, value)])], {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, torch.cat([torch.zeros(20, dtype=dtype), x, torch.zeros(15, dtype=dtype)]))


def test_masked_stores_and_uniform_masks(machine):
    x, out = torch.randn(50), torch.zeros(50)
    i = axis("i", 50)
    keep = ir.op("gt", ir.load("x", i.symbol, F), ir.const(0.0, F))
    body = [ir.Loop(i, [ir.Store(ir.Place("out", i.symbol, (), True), ir.load("x", i.symbol, F), (keep,))])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x.clamp(min=0))
    r, k, flat = axis("r", 5), axis("k", 10), torch.zeros(5, 10)
    early = ir.op("lt", ir.index(r.symbol), ir.const(3, torch.int64))
    value = ir.load("x", r.symbol * 10 + k.symbol, F, mask=early)
    body = [ir.Loop(r, [ir.Loop(k, [store("out", r.symbol * 10 + k.symbol, value)])])]
    run(body, {"x": x[:30], "out": flat}, ["out"], target=machine)
    assert torch.equal(flat, torch.cat([x[:30].view(3, 10), torch.zeros(2, 10)]))


KINDS = {"sum": torch.sum, "prod": torch.prod, "max": torch.amax, "min": torch.amin,
         "argmax": torch.argmax, "argmin": torch.argmin}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [F, torch.float64, torch.int64, torch.int32], ids=str)
def test_reductions(dtype, kind, dynamic, dim):
    machine = target.avx2() if target.host().vector_bytes > 32 and dynamic is (dim == 0) else target.host()
    for rows, columns in [(5, 1), (3, 17), (40, 64), (7, 1000)]:
        x = torch.randn(rows, columns) if dtype.is_floating_point else torch.randint(-9, 9, (rows, columns))
        if kind == "prod":
            x = x * 0.2 + 1 if dtype.is_floating_point else torch.where(x > 7, 3, 1)
        x = x.to(dtype)
        if dtype.is_floating_point and kind not in ("sum", "prod"):
            x[rows // 2, columns // 2] = float("nan")
        expected = KINDS[kind](x, dim)
        acc = torch.int64 if kind in ("sum", "prod") and not dtype.is_floating_point else dtype
        s0, s1 = (symbol("s0"), symbol("s1")) if dynamic else (shapes.as_expr(rows), shapes.as_expr(columns))
        i, r = (axis("i", s0), axis("r", s1)) if dim == 1 else (axis("i", s1), axis("r", s0))
        at = i.symbol * s1 + r.symbol if dim == 1 else r.symbol * s1 + i.symbol
        out = torch.zeros(expected.shape, dtype=expected.dtype)
        value = ir.cast(ir.load("x", at, dtype), acc)
        body = [ir.Loop(i, [ir.Reduce("a", kind, (r,), value, expected.dtype),
                            store("out", i.symbol, ir.local("a", expected.dtype))], parallel=True)]
        run(body, {"x": x, "out": out}, ["out"], {s0: rows, s1: columns} if dynamic else None, target=machine)
        torch.testing.assert_close(out, expected, equal_nan=True)


@pytest.mark.parametrize("kind", ["any", "all", "xor"])
def test_logical_reductions(kind, machine):
    x = torch.rand(9, 77) > (0.98 if kind == "any" else 0.02)
    out = torch.zeros(9, dtype=torch.bool)
    i, r = axis("i", 9), axis("r", 77)
    body = [ir.Loop(i, [ir.Reduce("a", kind, (r,), ir.load("x", i.symbol * 77 + r.symbol, torch.bool), torch.bool),
                        store("out", i.symbol, ir.local("a", torch.bool))])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, {"any": x.any(1), "all": x.all(1), "xor": x.sum(1) % 2 == 1}[kind])


@pytest.mark.parametrize("size", [1000, 100_000, 1 << 20])
@pytest.mark.parametrize("dim", [0, 1])
def test_sums_are_as_exact_as_eager(size, dim, machine):
    x = torch.randn((4, size) if dim == 1 else (size, 4)) + 0.5
    out, inner, outer = torch.zeros(4), axis("r", size), axis("i", 4)
    at = outer.symbol * size + inner.symbol if dim == 1 else inner.symbol * 4 + outer.symbol
    body = [ir.Loop(outer, [ir.Reduce("a", "sum", (inner,), ir.load("x", at, F), F),
                            store("out", outer.symbol, ir.local("a", F))])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    exact = x.double().sum(dim)
    errors = [((value.double() - exact).abs() / exact.abs()).max() for value in (out, x.sum(dim))]
    assert errors[0] <= max(2 * errors[1], 2.0**-23), errors


def test_reduction_over_two_axes(machine):
    x, out = torch.randn(6, 5, 70), torch.zeros(5)
    i, a, b = axis("i", 5), axis("a", 6), axis("b", 70)
    value = ir.load("x", a.symbol * 350 + i.symbol * 70 + b.symbol, F)
    body = [ir.Loop(i, [ir.Reduce("m", "sum", (a, b), value, F), store("out", i.symbol, ir.local("m", F))])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    torch.testing.assert_close(out, x.sum((0, 2)))
    where = torch.zeros(5, dtype=torch.int64)
    body = [ir.Loop(i, [ir.Reduce("m", "argmax", (a, b), value, torch.int64),
                        store("out", i.symbol, ir.local("m", torch.int64))])]
    run(body, {"x": x, "out": where}, ["out"], target=machine)
    assert torch.equal(where, x.transpose(0, 1).reshape(5, -1).argmax(1))


def softmax(dim: int, rows, columns) -> list[ir.Statement]:
    i = axis("i", rows if dim == 1 else columns)
    loops = [axis(name, columns if dim == 1 else rows) for name in "jkl"]

    def at(inner):
        return i.symbol * columns + inner.symbol if dim == 1 else inner.symbol * columns + i.symbol

    def shifted(inner):
        return ir.op("exp", ir.op("sub", ir.load("x", at(inner), F), ir.local("m", F)))

    return [ir.Loop(i, [
        ir.Reduce("m", "max", (loops[0],), ir.load("x", at(loops[0]), F), F),
        ir.Reduce("s", "sum", (loops[1],), shifted(loops[1]), F),
        ir.Loop(loops[2], [store("out", at(loops[2]), ir.op("div", shifted(loops[2]), ir.local("s", F)))]),
    ], parallel=True)]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_softmax(dim, dynamic, machine):
    x = torch.randn(37, 130)
    out = torch.zeros_like(x)
    s0, s1 = (symbol("s0"), symbol("s1")) if dynamic else (shapes.as_expr(37), shapes.as_expr(130))
    run(softmax(dim, s0, s1), {"x": x, "out": out}, ["out"], {s0: 37, s1: 130} if dynamic else None, target=machine)
    torch.testing.assert_close(out, x.softmax(dim))


def test_scratch_row(machine):
    """exp is computed once per element, into a row that is used twice."""
    for columns in (50, 20_000):
        x = torch.randn(6, columns)
        out = torch.zeros_like(x)
        i, j, k, r = (axis(name, 6 if name == "i" else columns) for name in "ijkr")
        body = [ir.Loop(i, [
            ir.Loop(j, [store("row", j.symbol, ir.op("exp", ir.load("x", i.symbol * columns + j.symbol, F)))]),
            ir.Reduce("s", "sum", (r,), ir.load("row", r.symbol, F), F),
            ir.Loop(k, [store("out", i.symbol * columns + k.symbol,
                              ir.op("div", ir.load("row", k.symbol, F), ir.local("s", F)))]),
        ], parallel=True)]
        row = ir.Scratch("row", F, shapes.as_expr(columns))
        run(body, {"x": x, "out": out}, ["out"], scratch=[row], target=machine)
        torch.testing.assert_close(out, x.softmax(1))


def test_full_reduction_then_parallel_loop(machine):
    x, out = torch.randn(70_000), torch.zeros(70_000)
    r, i = axis("r", 70_000), axis("i", 70_000)
    value = ir.op("sub", ir.load("x", i.symbol, F), ir.local("s", F))
    body = [ir.Reduce("s", "max", (r,), ir.load("x", r.symbol, F), F),
            ir.Loop(i, [store("out", i.symbol, value)], parallel=True)]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x - x.max())


def test_rows_added_up(machine):
    """A column sum as a row of sums that is added to."""
    x, out = torch.randn(9, 77), torch.full((77,), 5.0)
    i, r, j = axis("i", 77), axis("r", 9), axis("j", 77)
    body = [ir.Loop(i, [store("out", i.symbol, ir.const(0.0, F))]),
            ir.Loop(r, [ir.Loop(j, [store("out", j.symbol, ir.load("x", r.symbol * 77 + j.symbol, F), mode="add")])])]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    torch.testing.assert_close(out, x.sum(0))


SCANS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "cummax": lambda x, d: x.cummax(d).values,
         "cummin": lambda x, d: x.cummin(d).values, "logcumsumexp": torch.logcumsumexp}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("kind", SCANS)
def test_scans(kind, dim, machine):
    x = torch.randn(21, 37)
    out = torch.zeros_like(x)
    i, r = axis("i", 21 if dim == 1 else 37), axis("r", 37 if dim == 1 else 21)
    at = i.symbol * 37 + r.symbol if dim == 1 else r.symbol * 37 + i.symbol
    body = [ir.Loop(i, [ir.Scan(kind, r, ir.load("x", at, F), ir.Place("out", at), F)], parallel=True)]
    run(body, {"x": x, "out": out}, ["out"], target=machine)
    torch.testing.assert_close(out, SCANS[kind](x, dim))


def test_in_place_and_numbers(machine):
    x = torch.randn(50)
    expected, lower = x * 2.5, x - 1
    out, i, n = torch.zeros(50), axis("i", 50), symbol("n", "float")
    scale = ir.cast(ir.number(n), F)
    load = ir.load("x", i.symbol, F)
    body = [ir.Loop(i, [store("x", i.symbol, ir.op("mul", load, scale)),
                        store("out", i.symbol, ir.op("sub", load, ir.const(1.0, F)))])]
    run([ir.Loop(i, [ir.Assign("v", load), store("x", i.symbol, ir.op("mul", ir.local("v", F), scale)),
                     store("out", i.symbol, ir.op("sub", ir.local("v", F), ir.const(1.0, F)))])],
        {"x": x, "out": out}, ["x", "out"], numbers={n: 2.5}, target=machine)
    assert torch.equal(x, expected) and torch.equal(out, lower)


@pytest.mark.parametrize("tile", [0, 16])
@pytest.mark.parametrize("shape", [(5, 7), (64, 48), (100, 33)])
def test_transposed_access(shape, tile, machine):
    rows, columns = shape
    x, y = torch.randn(columns, rows), torch.randn(rows, columns)
    out = torch.zeros(rows, columns)
    i, j = axis("i", rows), axis("j", columns)
    value = ir.op("add", ir.load("x", j.symbol * rows + i.symbol, F), ir.load("y", i.symbol * columns + j.symbol, F))
    body = [ir.Loop(i, [ir.Loop(j, [store("out", i.symbol * columns + j.symbol, value)])], parallel=True, tile=tile)]
    run(body, {"x": x, "y": y, "out": out}, ["out"], target=machine)
    assert torch.equal(out, x.t() + y)


@pytest.mark.parametrize("mode", ["add", "max", "mul"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 11])
def test_rows_accumulated(rows, dynamic, mode, machine):
    """Several rows at a time, in the order that they have."""
    width = 37
    x, out = torch.randn(rows, width), torch.randn(width)
    s0 = symbol("s0")
    r, i = axis("r", s0 if dynamic else rows), axis("i", width)
    value = ir.op("sub", ir.load("x", r.symbol * width + i.symbol, F), ir.cast(ir.index(r.symbol), F))
    want = out.clone()
    for row in range(rows):
        want = {"add": torch.add, "max": torch.maximum, "mul": torch.mul}[mode](want, x[row] - row)
    body = [ir.Loop(r, [ir.Loop(i, [store("out", i.symbol, value, mode=mode)])])]
    run(body, {"x": x, "out": out}, ["out"], {s0: rows} if dynamic else None, target=machine)
    assert torch.equal(out, want)
