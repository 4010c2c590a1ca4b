"""The text of the loop IR, and the verifier on well-formed and broken pieces of it."""

from dataclasses import replace

import pytest
import torch

from firesteel import shapes
from firesteel.kernels import ir
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Allocate, Free, KernelPlan, Launch
from firesteel.kernels.printing import print_computation, print_value
from firesteel.kernels.verify import MalformedError, verify_kernel, verify_lowered, verify_plan
from kernels.lowering.recording import record

F32 = torch.float32
I0, I1, R0, S0, S1, T0 = (shapes.symbol(name) for name in ("i0", "i1", "r0", "s0", "s1", "t0"))


def text(function, *inputs):
    graph = lower(record(function, *inputs)[0])
    verify_lowered(graph)
    return str(graph)


def test_values():
    x = ir.load("x", S1 * I0 + I1, F32)
    assert repr(ir.op("add", x, ir.const(1, F32))) == "add(load(x, i0*s1 + i1), 1.0)"
    index = ir.load("where", I0, torch.int64)
    inside = ir.op("lt", index, ir.index(S0))
    gathered = ir.load("x", 8 * T0 + I1, F32, [(T0, index)], inside)
    assert repr(gathered) == (
        "load(x, i1 + 8*t0, t0=load(where, i0), mask=lt(load(where, i0), index(s0)))"
    )
    assert repr(ir.cast(x, torch.bfloat16)) == "cast(load(x, i0*s1 + i1), bf16)"
    assert repr(ir.const(1, torch.int8)) == "i8(1)"
    assert repr(ir.number(shapes.symbol("f0", "float"))) == "number(f0)"
    assert print_value(ir.op("mul", x, x), {x: "v0"}) == "mul(v0, v0)"


def test_what_is_shared_gets_a_name():
    x = ir.load("x", I0, F32)
    e = ir.op("exp", x)
    value = ir.op("div", e, ir.op("add", e, ir.const(1, F32)))
    computation = ir.Computation(ir.Place("out", I0), F32, (ir.Axis(I0, S0),), value)
    assert print_computation(computation) == (
        "v0 = exp(load(x, i0))\n"
        "out[i0]: f32 = div(v0, add(v0, 1.0))    for i0 < s0"
    )


def test_lowered_graphs():
    x, y = torch.randn(4, 6), torch.randn(6)
    assert text(lambda x, y: (torch.sin(x) + y).t(), x, y) == (
        "input x0: f32(4, 6) strides (6, 1)\n"
        "input x1: f32(6) strides (1)\n"
        "buf2[6*i0 + i1]: f32 = add(sin(load(x0, 6*i0 + i1)), load(x1, i1))    for i0 < 4, i1 < 6\n"
        "return view(buf2, (6, 4), strides=(1, 6), offset=0)"
    )
    assert text(lambda x, y: torch.mm(x, y * 2), x, torch.randn(6, 5)) == (
        "input x0: f32(4, 6) strides (6, 1)\n"
        "input x1: f32(6, 5) strides (5, 1)\n"
        "buf2[5*i0 + i1]: f32 = mul(load(x1, 5*i0 + i1), 2.0)    for i0 < 6, i1 < 5\n"
        "buf3 = aten.mm.default(x0, buf2)\n"
        "return buf3"
    )


def softmax_kernel():
    x = ir.load("x", S1 * I0 + I1, F32)
    top, total = ir.local("a0", F32), ir.local("a1", F32)
    shifted = ir.op("exp", ir.op("sub", x, top))
    axis = ir.Axis(I1, S1)
    body = [
        ir.Reduce("a0", "max", (axis,), x, F32),
        ir.Reduce("a1", "sum", (axis,), shifted, F32),
        ir.Loop(axis, [ir.Store(ir.Place("out", S1 * I0 + I1), ir.op("div", shifted, total))]),
    ]
    buffers = [ir.Buffer(name, F32, (S0, S1), (S1, shapes.const(1))) for name in ("x", "out")]
    loop = ir.Loop(ir.Axis(I0, S0), body, parallel=True)
    return ir.Kernel("softmax", buffers, [S0, S1], [loop], writes=frozenset({"out"}))


def test_kernels():
    kernel = softmax_kernel()
    verify_kernel(kernel)
    assert str(kernel) == (
        "kernel softmax(x: f32, out: f32; s0, s1):\n"
        "    parallel for i0 < s0:\n"
        "        a0: f32 = max(i1 < s1) load(x, i0*s1 + i1)\n"
        "        a1: f32 = sum(i1 < s1) exp(sub(load(x, i0*s1 + i1), a0))\n"
        "        for i1 < s1:\n"
        "            out[i0*s1 + i1] = div(exp(sub(load(x, i0*s1 + i1), a0)), a1)"
    )


def test_plans():
    kernel = softmax_kernel()
    x, out = kernel.buffers
    plan = KernelPlan(
        [x], {S0: ("x", "size", 0), S1: ("x", "size", 1)},
        [Allocate(out), Launch(kernel, ("x", "out"), (S0, S1))],
        [ir.BufferRef("out")], {"x": x, "out": out},
    )
    verify_plan(plan)
    assert str(plan).split("\n\n")[1] == (
        "input x: f32(s0, s1) strides (s1, 1)\n"
        "s0 = x.size(0)\n"
        "s1 = x.size(1)\n"
        "allocate out: f32(s0, s1) strides (s1, 1)\n"
        "launch softmax(x, out; s0, s1)\n"
        "return out"
    )
    with pytest.raises(MalformedError, match="the output uses out, which is not there"):
        verify_plan(replace(plan, steps=[*plan.steps, Free(("out",))]))
    with pytest.raises(MalformedError, match="launched with out"):
        verify_plan(replace(plan, steps=plan.steps[1:]))


def test_broken_kernels_are_refused():
    kernel = softmax_kernel()
    first, second, last = kernel.body[0].body

    def with_body(*body):
        return replace(kernel, body=[replace(kernel.body[0], body=list(body))])

    with pytest.raises(MalformedError, match="a0 is read before it is assigned"):
        verify_kernel(with_body(second, first, last))
    with pytest.raises(MalformedError, match="i1.* which nothing here defines"):
        verify_kernel(with_body(first, second, *last.body))
    with pytest.raises(MalformedError, match="a store to out"):
        verify_kernel(replace(kernel, writes=frozenset()))
    with pytest.raises(MalformedError, match="but it holds"):
        verify_kernel(replace(kernel, buffers=[replace(kernel.buffers[0], dtype=torch.int64), kernel.buffers[1]]))


def test_broken_graphs_are_refused():
    graph = lower(record(lambda x: torch.mm(x.sin(), x), torch.randn(3, 3))[0])
    verify_lowered(graph)
    graph.operations.reverse()
    with pytest.raises(MalformedError, match="has not been filled"):
        verify_lowered(graph)
