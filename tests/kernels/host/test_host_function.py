"""Host programs from plans made by hand, with kernels that are Python functions."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from firesteel.kernels import ir
from firesteel.kernels.host import program
from firesteel.kernels.host.printer import host_function
from firesteel.kernels.plan import Allocate, Free, KernelPlan, Launch, WriteBack
from firesteel.shapes import as_expr, symbol
from kernels.host.stub_kernels import Stubs, buffer

pytestmark = pytest.mark.usefixtures("quick_collections")

aten = torch.ops.aten


@pytest.fixture(params=[True, False], ids=["native", "portable"])
def native(request):
    return request.param


def plan_of(inputs, steps, outputs, symbols=None, constants=None, others=()):
    buffers = {b.name: b for b in inputs if isinstance(b, ir.Buffer)}
    buffers.update((step.buffer.name, step.buffer) for step in steps if isinstance(step, Allocate))
    buffers.update((b.name, b) for b in others)
    return KernelPlan(list(inputs), symbols or {}, steps, outputs, buffers, constants or {})


def adding(count):
    def body(x, y, out, *_):
        for i in range(count):
            out[i] = x[i] + y[i]

    return body


def test_one_kernel_is_one_native_function(native):
    stubs = Stubs()
    x, y, out = buffer("x", 4, kind="input"), buffer("y", 4, kind="input"), buffer("buf0", 4)
    k0 = stubs.kernel("k0", [x, y, out], adding(4))
    plan = plan_of([x, y], [Allocate(out), Launch(k0, ("x", "y", "buf0"), ())], [ir.BufferRef("buf0")])
    host = host_function(plan, stubs.addresses, native)
    a, b = torch.randn(4), torch.randn(4)
    (result,) = host.run(a, b)
    assert host.native is native
    assert torch.equal(result, a + b)
    assert "k0(x, y, buf0)" in host.source and "empty_strided((4,), (1,), dtype=torch.float32)" in host.source


def test_storage_offsets_of_inputs_are_part_of_their_address(native):
    stubs = Stubs()
    x, out = buffer("x", 3, strides=[2], kind="input"), buffer("buf0", 3)

    def body(x, out):
        for i in range(3):
            out[i] = x[2 * i] * 10

    k0 = stubs.kernel("k0", [x, out], body)
    plan = plan_of([x], [Allocate(out), Launch(k0, ("x", "buf0"), ())], [ir.BufferRef("buf0")])
    base = torch.arange(8.0)
    assert host_function(plan, stubs.addresses, native).run(base[1::2][:3])[0].tolist() == [10.0, 30.0, 50.0]


def test_sizes_come_from_inputs_and_arithmetic(native):
    stubs = Stubs()
    s0, s1 = symbol("s0"), symbol("s1")
    x, out = buffer("x", s0, s1, kind="input"), buffer("buf0", s0 * s1 + 1)

    def body(x, out, n, m):
        assert m == 7
        for i in range(n):
            out[i] = x[i] + 1
        out[n] = -1

    k0 = stubs.kernel("k0", [x, out], body, sizes=[symbol("n"), symbol("m")])
    launch = Launch(k0, ("x", "buf0"), (s0 * s1, (s0 * s1) // s1 + 7 - s0))
    plan = plan_of([x], [Allocate(out), launch], [ir.BufferRef("buf0")],
                   {s0: ("x", "size", 0), s1: ("x", "size", 1)})
    host = host_function(plan, stubs.addresses, native)
    for rows, columns in ((2, 3), (1, 1), (5, 4)):
        x = torch.randn(rows, columns)
        (result,) = host.run(x)
        assert torch.equal(result, torch.cat([x.flatten() + 1, torch.tensor([-1.0])]))


def test_numbers_are_arguments(native):
    stubs = Stubs()
    n, factor = symbol("n"), symbol("factor", "float")
    x, out = buffer("x", 2, kind="input"), buffer("buf0", 2)

    def body(x, out, count, a, b):
        for i in range(2):
            out[i] = x[i] * a + b + count

    k0 = stubs.kernel("k0", [x, out], body, sizes=[symbol("c")], numbers=[symbol("a", "float"), symbol("b", "float")])
    plan = plan_of([x, n, factor], [Allocate(out), Launch(k0, ("x", "buf0"), (n + 1,), (factor, factor * 2.0))],
                   [ir.BufferRef("buf0"), n * 2, None, 3])
    results = host_function(plan, stubs.addresses, native).run(torch.ones(2), 4, 1.5)
    assert results[0].tolist() == [9.5, 9.5] and results[1:] == (8, None, 3)


def test_memory_within_a_stretch_and_tensors_across_calls(native):
    stubs = Stubs()
    x, w = buffer("x", 2, 3, kind="input"), buffer("w", 3, 2, kind="input")
    inner, first, second, out = (buffer(name, 2, 3) for name in ("inner", "first", "second", "out"))
    product = buffer("product", 2, 2)

    def doubled(x, out):
        for i in range(6):
            out[i] = 2 * x[i]

    def combine(product, x, out):
        for i in range(6):
            out[i] = x[i] + product[i % 4]

    k0 = stubs.kernel("k0", [x, inner], doubled)
    k1 = stubs.kernel("k1", [product, first, out], combine)
    steps = [
        Allocate(inner), Launch(k0, ("x", "inner"), ()), Allocate(first), Launch(k0, ("inner", "first"), ()),
        Free(("inner",)),
        ir.ExternCall(aten.mm.default, (ir.BufferRef("first"), ir.BufferRef("w")), {}, ("product",)),
        Allocate(second), Launch(k0, ("first", "second"), ()),
        Allocate(out), Launch(k1, ("product", "second", "out"), ()), Free(("first", "second", "product")),
    ]
    plan = plan_of([x, w], steps, [ir.BufferRef("out"), ir.BufferRef("product")], others=[product])
    host = host_function(plan, stubs.addresses, native)
    a, b = torch.randn(2, 3), torch.randn(3, 2)
    for _ in range(3):
        result, multiplied = host.run(a, b)
        expected = (4 * a) @ b
        torch.testing.assert_close(multiplied, expected)
        tail = torch.cat([expected.flatten(), expected.flatten()[:2]]).view(2, 3)
        torch.testing.assert_close(result, 8 * a + tail)
    assert "mm(first, w)" in host.source and "del first" in host.source


def test_reused_memory(native):
    stubs = Stubs()
    x, a, b, out = buffer("x", 4, kind="input"), buffer("a", 4), buffer("b", 2, 2), buffer("out", 4)

    def doubled(x, out):
        for i in range(4):
            out[i] = 2 * x[i]

    k0 = stubs.kernel("k0", [x, a], doubled)
    steps = [
        Allocate(a), Launch(k0, ("x", "a"), ()), Allocate(out), Launch(k0, ("a", "out"), ()),
        Allocate(b, "a"), Launch(k0, ("out", "b"), ()),
        ir.ExternCall(aten.sum.default, (ir.BufferRef("b"),), {}, ("total",)),
    ]
    plan = plan_of([x], steps, [ir.BufferRef("out"), ir.BufferRef("b"), ir.BufferRef("total")],
                   others=[buffer("total")])
    for _ in range(2):
        out, b, total = host_function(plan, stubs.addresses, native).run(torch.ones(4))
        assert out.tolist() == [4.0] * 4 and b.tolist() == [[8.0, 8.0], [8.0, 8.0]] and float(total) == 32.0


def test_views_as_arguments_and_results(native):
    stubs = Stubs()
    x, w = buffer("x", 2, 3, kind="input"), buffer("w", 4, 3, kind="input")
    transposed = ir.BufferRef("w", (as_expr(3), as_expr(4)), (as_expr(1), as_expr(3)), as_expr(0))
    column = ir.BufferRef("x", (as_expr(2),), (as_expr(3),), as_expr(1))
    bits = ir.BufferRef("x", (as_expr(2), as_expr(3)), (as_expr(3), as_expr(1)), as_expr(0), torch.int32)
    steps = [ir.ExternCall(aten.mm.default, (ir.BufferRef("x"), transposed), {}, ("product",))]
    plan = plan_of([x, w], steps, [ir.BufferRef("product"), column, ir.BufferRef("x"), bits],
                   others=[buffer("product", 2, 4)])
    a, b = torch.randn(5, 6)[1:3, :3].contiguous(), torch.randn(4, 3)
    for _ in range(2):
        product, seen, same, pattern = host_function(plan, stubs.addresses, native).run(a, b)
        torch.testing.assert_close(product, a @ b.t())
        assert same is a and seen.tolist() == a[:, 1].tolist()
        assert torch.equal(pattern, a.view(torch.int32))
        seen[0] = 7
        assert a[0, 1] == 7


def test_write_back_changes_the_input(native):
    stubs = Stubs()
    x, out = buffer("x", 2, kind="input"), buffer("buf0", 2)
    k0 = stubs.kernel("k0", [x, x, out], adding(2))
    steps = [Allocate(out), Launch(k0, ("x", "x", "buf0"), ()), WriteBack("x", ir.BufferRef("buf0"))]
    plan = plan_of([x], steps, [ir.BufferRef("x")])
    a = torch.tensor([1.0, 2.0])
    version = a._version
    (result,) = host_function(plan, stubs.addresses, native).run(a)
    assert result is a and a.tolist() == [2.0, 4.0] and a._version > version


def test_several_results_some_unused(native):
    x = buffer("x", 4, kind="input")
    steps = [ir.ExternCall(aten.sort.default, (ir.BufferRef("x"),), {}, (None, "order")),
             ir.ExternCall(aten.split.Tensor, (ir.BufferRef("x"), 4), {}, ("whole",))]
    plan = plan_of([x], steps, [ir.BufferRef("order"), ir.BufferRef("whole")],
                   others=[buffer("order", 4, dtype=torch.int64), buffer("whole", 4)])
    order, whole = host_function(plan, {}, native).run(torch.tensor([3.0, 1.0, 2.0, 0.0]))
    assert order.tolist() == [3, 1, 2, 0] and whole.tolist() == [3.0, 1.0, 2.0, 0.0]


def test_numbers_that_data_decides(native):
    stubs = Stubs()
    u0 = symbol("u0")
    x, found, out = buffer("x", 4, kind="input"), buffer("found", u0, 1, dtype=torch.int64), buffer("out", u0)

    def body(found, out, n):
        for i in range(n):
            out[i] = found[i]

    k0 = stubs.kernel("k0", [found, out], body, sizes=[symbol("n")])
    steps = [ir.ExternCall(aten.nonzero.default, (ir.BufferRef("x"),), {}, ("found",)), Allocate(out),
             Launch(k0, ("found", "out"), (u0,))]
    plan = plan_of([x], steps, [ir.BufferRef("out"), u0], {u0: ("found", "size", 0)}, others=[found])
    host = host_function(plan, stubs.addresses, native)
    for values in ([0.0, 1.0, 0.0, 2.0], [1.0, 0.0, 0.0, 0.0]):
        out, count = host.run(torch.tensor(values))
        expected = torch.tensor(values).nonzero().flatten().tolist()
        assert out.tolist() == expected and count == len(expected)


def test_a_result_with_other_strides_is_copied_where_strides_matter(native):
    x, y = buffer("x", 2, 3, kind="input"), buffer("made", 2, 3, strides=[1, 2])
    steps = [ir.ExternCall(aten.neg.default, (ir.BufferRef("x"),), {}, ("made",)),
             ir.ExternCall(aten.neg.default, (ir.BufferRef("made"),), {}, ("unseen",))]
    row = ir.BufferRef("made", (as_expr(3),), (as_expr(2),), as_expr(1))
    plan = plan_of([x], steps, [row, ir.BufferRef("unseen")], others=[y, buffer("unseen", 2, 3, strides=[1, 2])])
    host = host_function(plan, {}, native)
    a = torch.randn(2, 3)
    for _ in range(3):
        second, unseen = host.run(a)
        assert torch.equal(second, -a[1]) and torch.equal(unseen, a)
        assert unseen.stride() == (-a.t().contiguous().t()).stride()
    assert "restride(made" in host.source and "restride(unseen" not in host.source


def test_constants(native):
    stubs = Stubs()
    x, c, out = buffer("x", 2, kind="input"), buffer("c", 2, kind="constant"), buffer("buf0", 2)
    k0 = stubs.kernel("k0", [x, c, out], adding(2))
    plan = plan_of([x], [Allocate(out), Launch(k0, ("x", "c", "buf0"), ())], [ir.BufferRef("buf0"), ir.BufferRef("c")],
                   constants={"c": torch.tensor([10.0, 20.0])}, others=[c])
    a, b = host_function(plan, stubs.addresses, native).run(torch.ones(2))
    assert a.tolist() == [11.0, 21.0] and b.tolist() == [10.0, 20.0]


def test_nothing_stays_alive():
    stubs = Stubs()
    x, out = buffer("x", 4, kind="input"), buffer("buf0", 4)
    k0 = stubs.kernel("k0", [x, x, out], adding(4))
    plan = plan_of([x], [Allocate(out), Launch(k0, ("x", "x", "buf0"), ())], [ir.BufferRef("buf0")])
    run = host_function(plan, stubs.addresses).run
    (result,) = run(torch.ones(4))
    dead = weakref.ref(result)
    del result
    assert dead() is None
    alive = weakref.ref(stubs)
    del run, plan, k0, stubs, x, out
    gc.collect()
    assert alive() is None


def test_a_wrong_number_of_arguments_is_an_error():
    stubs = Stubs()
    x, out = buffer("x", 4, kind="input"), buffer("buf0", 4)
    k0 = stubs.kernel("k0", [x, x, out], adding(4))
    plan = plan_of([x], [Allocate(out), Launch(k0, ("x", "x", "buf0"), ())], [ir.BufferRef("buf0")])
    run = host_function(plan, stubs.addresses).run
    with pytest.raises(RuntimeError, match="number of arguments"):
        run()


def test_too_large_an_allocation_raises():
    stubs = Stubs()
    n = symbol("n")
    out, rest = buffer("buf0", n), buffer("buf1", 4)
    k0 = stubs.kernel("k0", [out], lambda out: None)
    plan = plan_of([n], [Allocate(out), Launch(k0, ("buf0",), ()), Allocate(rest)], [ir.BufferRef("buf1")])
    run = host_function(plan, stubs.addresses).run
    assert run(4)[0].shape == (4,)
    with pytest.raises(RuntimeError, match="memory"):
        run(1 << 60)


def chain(length):
    """``x + 1 + 1 ...`` with a kernel and a buffer for each addition, and the plan's kernels."""
    stubs = Stubs()
    x = buffer("x", 2, kind="input")

    def body(x, out):
        for i in range(2):
            out[i] = x[i] + 1

    k0 = stubs.kernel("k0", [x, buffer("out", 2)], body)
    steps, last = [], "x"
    for number in range(length):
        out = buffer(f"buf{number}", 2)
        steps += [Allocate(out), Launch(k0, (last, out.name), ()), Free((last,))]
        last = out.name
    return plan_of([x], steps, [ir.BufferRef(last)]), stubs


def test_long_segments_are_parted():
    plan, stubs = chain(600)
    host = host_function(plan, stubs.addresses)
    assert not host.native and torch.equal(host.run(torch.zeros(2))[0], torch.full((2,), 600.0))
    assert host.source.count("= segment") == 2


def test_segments_with_too_many_registers_are_parted(monkeypatch):
    plan, stubs = chain(12)
    assert host_function(plan, stubs.addresses).native
    monkeypatch.setattr(program, "MAX_REGISTERS", 9)
    host = host_function(plan, stubs.addresses)
    assert not host.native and torch.equal(host.run(torch.ones(2))[0], torch.full((2,), 13.0))
    monkeypatch.setattr(program, "MAX_REGISTERS", 1)
    with pytest.raises(program.TooManyRegisters):
        host_function(plan, stubs.addresses)


def test_results_that_are_no_views_are_made_natively(native):
    stubs = Stubs()
    x, y, out = buffer("x", 4, kind="input"), buffer("y", 4, kind="input"), buffer("buf0", 1, 4)
    k0 = stubs.kernel("k0", [x, y, out], adding(4))
    flat = ir.BufferRef("buf0", (as_expr(4),), (as_expr(1),), as_expr(0))
    product = buffer("product", 2, 2)
    turned = ir.BufferRef("product", (as_expr(2), as_expr(2)), (as_expr(1), as_expr(2)), as_expr(0))
    matrix = ir.BufferRef("x", (as_expr(2), as_expr(2)), (as_expr(2), as_expr(1)), as_expr(0))
    steps = [Allocate(out), Launch(k0, ("x", "y", "buf0"), ()),
             ir.ExternCall(aten.mm.default, (matrix, matrix), {}, ("product",))]
    plan = plan_of([x, y], steps, [flat, turned], others=[product])
    a, b = torch.randn(4), torch.randn(4)
    for new_results in (frozenset(), frozenset({0, 1})):
        plan.new_results = new_results
        host = host_function(plan, stubs.addresses, native)
        total, transposed = host.run(a, b)
        assert torch.equal(total, a + b) and total.shape == (4,)
        assert torch.equal(transposed, (a.view(2, 2) @ a.view(2, 2)).T) and transposed.stride() == (1, 2)
        assert total._is_view() is transposed._is_view() is not (native and bool(new_results))
    plan.outputs = [flat, flat]  # one memory twice: views of one tensor
    first, second = host_function(plan, stubs.addresses, native).run(a, b)
    assert first._base is second._base is not None
