"""Kernels that check every access: right ones run as before, one element too few raises, nothing else is touched."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import firesteel as fs
from firesteel import config, shapes
from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from firesteel.kernels.cpu.engine import compile_kernels
from firesteel.kernels.host.bounds import check_tensor, checked_launcher
from firesteel.shapes import symbol
from kernels.cpu.running import axis, kernel

F = torch.float32
SIZES = (1, 2, 131)


@pytest.fixture(params=["host", "avx2"])
def machine(request):
    if request.param == "avx2" and target.host().vector_bytes <= 32:
        pytest.skip("that is what the host is, or less")
    made = target.host() if request.param == "host" else target.avx2()
    return dataclasses.replace(made, checked=True)


def run(body, tensors, writes, machine, sizes=None, scratch=()):
    made = kernel(body, tensors, writes, list(sizes or {}), scratch)
    [compiled] = compile_kernels([made], machine)
    checked_launcher(compiled.address, made)(*tensors.values(), *(sizes or {}).values())


def short(size: int) -> torch.Tensor:
    """A tensor that ends with its storage."""
    return torch.arange(float(size))


def store(name, index, value, **kwargs):
    return ir.Store(ir.Place(name, shapes.as_expr(index)), value, **kwargs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_pointwise(size, dynamic, machine):
    s0 = symbol("s0")
    i = axis("i", s0 if dynamic else size)
    value = ir.op("add", ir.load("x", i.symbol, F), ir.const(1.0, F))
    body = [ir.Loop(i, [store("out", i.symbol, value)], parallel=True)]
    sizes = {s0: size} if dynamic else None
    x, out = short(size), torch.zeros(size)
    run(body, {"x": x, "out": out}, ["out"], machine, sizes)
    assert torch.equal(out, x + 1)
    with pytest.raises(RuntimeError, match=rf"kernel k reads element.* {size - 1} of buffer x of {size - 1}"):
        run(body, {"x": short(size - 1), "out": out}, ["out"], machine, sizes)
    memory = torch.zeros(size + 8)
    whole = torch.empty(0).set_(memory.untyped_storage()[: 4 * size - 4], 0, (size - 1,), (1,))
    with pytest.raises(RuntimeError, match=rf"kernel k writes element.* {size - 1} of buffer out of {size - 1}"):
        run(body, {"x": x, "out": whole}, ["out"], machine, sizes)
    # storages of parts share memory: nothing was written behind the part
    assert not memory[size - 1:].any()


ACCESSES = {
    "every second": (lambda i, n: 2 * i, 2),
    "every third": (lambda i, n: 3 * i, 3),
    "every fourth": (lambda i, n: 4 * i, 4),
    "every ninth": (lambda i, n: 9 * i, 9),
    "backwards": (lambda i, n: n - 1 - i, 1),
    "remainders": (lambda i, n: (i * 5) % n, 1),
    "the same": (lambda i, n: shapes.as_expr(n - 1), 1),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ACCESSES)
def test_loads(way, size, machine):
    index, step = ACCESSES[way]
    i = axis("i", size)
    body = [ir.Loop(i, [store("out", i.symbol, ir.load("x", index(i.symbol, size), F))], parallel=True)]
    least = (size - 1) * step + 1
    x, out = short(least), torch.zeros(size)
    run(body, {"x": x, "out": out}, ["out"], machine)
    assert torch.equal(out, x[[int(index(shapes.as_expr(k), size)) for k in range(size)]])
    with pytest.raises(RuntimeError, match=rf"reads element.* of buffer x of {least - 1}"):
        run(body, {"x": short(least - 1), "out": out}, ["out"], machine)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ["every third", "backwards", "remainders"])
def test_stores(way, size, machine):
    index, step = ACCESSES[way]
    i = axis("i", size)
    body = [ir.Loop(i, [store("out", index(i.symbol, size), ir.load("x", i.symbol, F))], parallel=True)]
    least = (size - 1) * step + 1
    run(body, {"x": short(size), "out": torch.zeros(least)}, ["out"], machine)
    with pytest.raises(RuntimeError, match=rf"writes element.* of buffer out of {least - 1}"):
        run(body, {"x": short(size), "out": torch.zeros(least - 1)}, ["out"], machine)


def test_in_front_of_the_buffer(machine):
    i = axis("i", 20)
    body = [ir.Loop(i, [store("out", i.symbol, ir.load("x", i.symbol - 1, F))], parallel=True)]
    with pytest.raises(RuntimeError, match="reads elements? -1.* of buffer x of 20"):
        run(body, {"x": short(20), "out": torch.zeros(20)}, ["out"], machine)
    out = torch.zeros(20)
    run(body, {"x": short(21)[1:], "out": out}, ["out"], machine)  # the storage begins earlier
    assert torch.equal(out, short(20))


@pytest.mark.parametrize("rows, columns", [(16, 16), (33, 20)])
def test_transposed_tiles(rows, columns, machine):
    i, j = axis("i", rows), axis("j", columns)
    body = [ir.Loop(i, [ir.Loop(j, [store("out", i.symbol * columns + j.symbol,
                                          ir.load("x", j.symbol * rows + i.symbol, F))])], parallel=True)]
    x, out = short(rows * columns), torch.zeros(rows * columns)
    run(body, {"x": x, "out": out}, ["out"], machine)
    assert torch.equal(out.view(rows, columns), x.view(columns, rows).t())
    with pytest.raises(RuntimeError, match="reads element.* of buffer x"):
        run(body, {"x": x[:-1].clone(), "out": out}, ["out"], machine)
    with pytest.raises(RuntimeError, match="writes element.* of buffer out"):
        run(body, {"x": x, "out": out[:-1].clone()}, ["out"], machine)


def test_scratch_memory(machine):
    i = axis("i", 40)
    first = ir.Loop(i, [store("row", i.symbol, ir.load("x", i.symbol, F))])
    second = ir.Loop(i, [store("out", i.symbol, ir.load("row", i.symbol, F))])
    tensors = {"x": short(40), "out": torch.zeros(40)}
    run([first, second], tensors, ["out"], machine, scratch=[ir.Scratch("row", F, shapes.as_expr(40))])
    assert torch.equal(tensors["out"], tensors["x"])
    with pytest.raises(RuntimeError, match="writes element.* of buffer row of 39"):
        run([first, second], tensors, ["out"], machine, scratch=[ir.Scratch("row", F, shapes.as_expr(39))])


def test_scans_and_reductions(machine):
    i = axis("i", 50)
    scan = ir.Scan("cumsum", i, ir.load("x", i.symbol, F), ir.Place("out", i.symbol), F)
    out = torch.zeros(50)
    run([scan], {"x": short(50), "out": out}, ["out"], machine)
    torch.testing.assert_close(out, short(50).cumsum(0))
    with pytest.raises(RuntimeError, match="reads element.* of buffer x of 49"):
        run([scan], {"x": short(49), "out": out}, ["out"], machine)
    total = [ir.Reduce("a", "sum", [i], ir.load("x", i.symbol, F), F), store("out", 0, ir.local("a", F))]
    run(total, {"x": short(50), "out": out}, ["out"], machine)
    assert out[0] == 1225
    with pytest.raises(RuntimeError, match="reads element.* of buffer x of 49"):
        run(total, {"x": short(49), "out": out}, ["out"], machine)


def test_threads_report_once(machine):
    size = 1 << 20
    i = axis("i", size)
    body = [ir.Loop(i, [store("out", i.symbol, ir.load("x", i.symbol, F))], parallel=True)]
    with pytest.raises(RuntimeError, match="of buffer x of 1000"):
        run(body, {"x": short(1000), "out": torch.zeros(size)}, ["out"], machine)


# Whole programs


def test_views_may_begin_in_front_of_the_tensor():
    def f(x):
        return x.as_strided((2,), (1,), 0) * 2

    base = torch.arange(5.0)
    with config.patch(check_bounds=True):
        assert torch.equal(fs.compile(f)(base[3:]), f(base[3:]))


def _model(x, y, i):
    mixed = (x * 2 + y).softmax(-1).cumsum(0)
    turned = x.t().contiguous() + mixed.t()
    return mixed, turned, x[:, i].sum(0), torch.zeros(8).index_add(0, i, y[0, :3]), (x @ y.t()).relu()


@pytest.mark.parametrize("native_host", [True, False])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_programs_run_as_before(dynamic, native_host):
    x, y, i = torch.randn(37, 43), torch.randn(37, 43), torch.tensor([3, 2, 7])
    with config.patch(check_bounds=True):
        compiled = fs.compile(_model, dynamic=dynamic, options={"native_host": native_host})
        torch.testing.assert_close(compiled(x, y, i), _model(x, y, i))
        torch.testing.assert_close(compiled(x[:30], y[:30], i), _model(x[:30], y[:30], i))


def test_checks_are_part_of_the_keys(monkeypatch):
    """Code and plans that were made without checks are not taken for those with them."""
    from firesteel.kernels.cpu import engine

    made = []
    original = engine.llvm_text
    monkeypatch.setattr(engine, "llvm_text", lambda kernel, *rest: made.append(original(kernel, *rest)) or made[-1])

    def f(x):
        return x * 3.25 - 0.1234

    x = torch.randn(19)
    for checked in (False, True):
        fs.reset()
        with config.patch(check_bounds=checked):
            assert torch.equal(fs.compile(f)(x), f(x))
    assert [".check(" in text for text in made[-1:]] == [True]


def test_views_have_to_lie_inside_of_their_storage():
    base = torch.zeros(10)
    check_tensor(base[3:].as_strided((2, 2), (4, 1)))
    check_tensor(base[:0].as_strided((0, 5), (5, 1)))
    view = base.as_strided((2, 3), (7, 1))  # torch refuses views beyond the storage, so that shrinks afterwards
    base.untyped_storage().resize_(32)
    with pytest.raises(RuntimeError, match="views elements 0 to 9 of a storage of 8"):
        check_tensor(view)


@pytest.mark.parametrize("function", [lambda x: (x * x).repeat(2, 1, 1), lambda x: x.cumsum(-1)])
def test_loops_that_do_not_run_load_nothing(function):
    """Not in front of loops around them either: with a step of 0 every element is the first, which is not there."""
    x = torch.empty(0).as_strided((4, 0), (0, 0))
    with config.patch(check_bounds=True):
        assert torch.equal(fs.compile(function)(x), function(x))
