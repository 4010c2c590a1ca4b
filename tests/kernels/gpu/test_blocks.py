"""Rows that are longer than a block, loops that are run as one, and the alternatives that are measured."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.gpu import blocks as blocks_module
from firesteel.kernels.gpu.blocks import Blocks, choose_blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.gpu.tuning import alternatives
from kernels.gpu.test_triton_printer import run_plan
from kernels.scheduling.programs import kernels as kernels_of
from kernels.scheduling.programs import planned_for_gpu

INF, NAN = float("inf"), float("nan")


def plan_of(program, *args):
    """The plan of a program, its kernels, and what they are called with."""
    plan, given = planned_for_gpu(program, *args)
    return plan, kernels_of(plan), given


def check(program, args, blocks):
    """The results of a program's kernels in some blocks, against eager; gives their sources."""
    plan, kernels, given = plan_of(program, *args)
    made = [print_triton(kernel, blocks) for kernel in kernels]
    want = program(*args)
    wanted = [want] if isinstance(want, torch.Tensor) else want
    for left, right in zip(wanted, run_plan(plan, made, given), strict=True):
        torch.testing.assert_close(right.reshape(left.shape), left, equal_nan=True)
    return [kernel.source for kernel in made]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("held", [0, 1, 3])
def test_largest_and_sum_of_exponentials_in_one_pass(held, dtype):
    x = torch.randn(9, 52, dtype=dtype) * 20
    x[1], x[2, 7], x[3, 40], x[4, 3] = -INF, -INF, INF, NAN
    x[5, :32], x[6, 20:], x[7] = -INF, -INF, -torch.finfo(dtype).max
    x[8, ::2] = torch.finfo(dtype).max
    [source] = check(lambda x: torch.log_softmax(x, -1), [x], Blocks(1, 16, 0, 1, held=held))
    assert source.count("scaling(a0_here - a0_lanes)") == 1 + max(held, 1)  # 52 is no multiple of 16


SHIFTED = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "sums": lambda x: (x.amax(-1), (x * 2).sum(-1)),
    "scaled": lambda x: x / x.abs().amax(-1, keepdim=True),
    "positions": lambda x: (x * torch.arange(x.shape[-1])).sum(-1, keepdim=True) + x,
    "masked": lambda x: torch.softmax(x.masked_fill(x > 1, -INF), -1),
}


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("width, length, held, dtype", [
    (50, 50, 0, torch.float32), (47, 47, 3, torch.float32), (49, 49, 0, torch.float32), (51, 48, 3, torch.float32),
    (65, 64, 0, torch.bfloat16), (79, 79, 3, torch.float16), (63, 61, 0, torch.float64),
])  # fmt: skip
def test_long_rows_begin_where_memory_is_read_fastest(name, held, width, length, dtype):
    """A block begins at a multiple of 16 bytes, with what is before the row left out."""
    x = torch.randn(11, width).to(dtype)[:, :length]
    if dtype.is_floating_point and name in ("softmax", "log_softmax", "masked"):
        x[3, 0], x[4, -1], x[5], x[6, 1:] = INF, NAN, -INF, -INF
    sources = check(SHIFTED[name], [x], Blocks(1, 16, 0, 1, held=held))
    step = 16 // dtype.itemsize
    # Where results lie otherwise in memory, one of the two is read or written element by element.
    shifted = width == length or name == "sums"
    assert any("i1_skip" in source and f"// {step} * {step}" in source for source in sources) == shifted


@pytest.mark.parametrize("program, x", [
    (lambda x: x.sum(-1), torch.randn(5, 64)),
    (lambda x: x.sum(-1), torch.randn(5, 68)[:, :67]),
    (lambda x: torch.cumsum(x, -1), torch.randn(5, 67)),
    (lambda x: x.argmax(-1), torch.randn(5, 67)),
    (lambda x: F.layer_norm(x, (67,)), torch.randn(5, 67)),
    (lambda x: x.sum(-1), torch.randn(5, 31)),
])  # fmt: skip
def test_other_rows_begin_with_their_first_element(program, x):
    assert not any("_skip" in source for source in check(program, [x], Blocks(1, 16, 0, 1)))


def test_a_mask_of_bytes_is_read_from_where_the_row_is():
    x, mask = torch.randn(7, 77), torch.rand(7, 77) > 0.5
    [source] = check(lambda x, mask: x.masked_fill(mask, -INF).amax(-1), [x, mask], Blocks(1, 32, 0, 1))
    assert "// 16 * 16" in source


def test_loops_over_the_same_points_are_one():
    x, y = torch.randn(200, 16), torch.randn(200, 16)

    def program(x, y):
        z = x * y
        return z, z.sum(0), (z * y).sum(0)

    [source] = check(program, [x, y], Blocks(8, 16, 0, 1))
    assert source.count("for ") == 1
    assert "tl.debug_barrier" not in source


def test_what_follows_from_the_first_sum_is_a_loop_of_its_own():
    x = torch.randn(3, 70)
    [source] = check(lambda x: (x - x.amax(-1, keepdim=True)).abs().sum(-1), [x], Blocks(1, 16, 0, 1))
    assert source.count("for ") == 2


PROGRAMS = {
    "flat": (lambda x: torch.sin(x) * 2, (torch.randn(40, 70),)),
    "rows": (lambda x: torch.softmax(x, -1), (torch.randn(9, 70),)),
    "columns": (lambda x: x.sum(0), (torch.randn(30, 70),)),
    "long": (lambda x, w: F.layer_norm(x, (200,), w, w), (torch.randn(3, 200), torch.randn(200))),
    "transposed": (lambda x, y: x + y.t(), (torch.randn(70, 80), torch.randn(80, 70))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_alternatives_give_the_same(name, monkeypatch):
    program, args = PROGRAMS[name]
    monkeypatch.setattr(blocks_module, "LONGEST", 128)
    _, [kernel], _ = plan_of(program, *args)
    found = list(alternatives(kernel))
    assert found[0] == choose_blocks(kernel)
    assert len(set(found)) > 2
    for blocks in set(found):
        check(program, list(args), blocks)


def special(rows, length):
    """Rows with infinite numbers and NaN at some places."""
    x = torch.randn(rows, length) * 20
    x[1], x[2, 7], x[3, length - 3], x[4, 3] = -INF, -INF, INF, NAN
    x[5, : length // 2], x[6, length // 2:], x[7] = -INF, -INF, -3e38
    return x


def layer_norm_backward(grad, x, mean, deviation, w):
    """With the sums of columns for the weights."""
    results = torch.ops.aten.native_layer_norm_backward(grad, x, [768], mean, deviation, w, w, [True, True, True])
    return results[0] + grad, *results[1:]


def columns(x, y):
    z = torch.tanh(x) * y
    return z, z.sum(0), (z * y).amax(0)


BF = torch.bfloat16
# Long sums are of numbers of one sign: those that are nearly 0 would depend on the order of additions.
ON_GPU = {
    "group_norm": (lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)),
                   lambda: (torch.randn(130, 8, 96, 128) + 5, torch.randn(8), torch.randn(8))),
    "long_softmax": (lambda x: torch.softmax(x, -1), lambda: (special(600, 40000),)),
    "long_log_softmax": (lambda x: torch.log_softmax(x, -1), lambda: (special(520, 50257),)),
    "long_short_floats": (lambda x, w: F.layer_norm(x, (30001,), w, w),
                          lambda: (torch.randn(520, 30001).to(BF), torch.randn(30001).to(BF))),
    "long_two_inputs": (lambda x, y: torch.ops.aten._softmax_backward_data(x, y, 1, torch.float32),
                        lambda: (torch.randn(520, 20000), torch.softmax(torch.randn(520, 20000), -1))),
    "columns": (columns, lambda: (torch.rand(8192, 768), torch.rand(8192, 768))),
    "columns_short_floats": (lambda x: x.sum(0), lambda: (torch.randn(8192, 776).to(BF),)),
    "layer_norm_backward": (layer_norm_backward, lambda: (torch.rand(4096, 768), torch.rand(4096, 768),
                                                          -torch.rand(4096, 1), torch.rand(4096, 1), torch.randn(768))),
    "halves": (lambda x, y: torch.cat([x * 2, y], 1), lambda: (torch.randn(300, 1000), torch.randn(300, 1000))),
    "odd_rows": (lambda x, w: F.gelu(x) * w, lambda: (torch.randn(301, 1003).to(BF), torch.randn(301, 1).to(BF))),
    "batch_norm": (lambda x, m, v: F.relu(F.batch_norm(x, m, v)),
                   lambda: (torch.randn(8, 16, 28, 28), torch.randn(16), torch.rand(16))),
}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ON_GPU)
def test_on_gpu(name):
    program, make = ON_GPU[name]
    args = [arg.cuda() for arg in make()]
    with torch.no_grad():
        compiled = fs.compile(program, backend="native")
        wide = [arg.double() if arg.is_floating_point() else arg for arg in args]
        for _ in range(2):
            got, want = compiled(*args), program(*args)
            torch.testing.assert_close(got, want, equal_nan=True)
        if "softmax" in name or name == "long_two_inputs":
            return
        exact = program(*wide)
        for sides in zip(*[[one] if isinstance(one, torch.Tensor) else one for one in (got, want, exact)], strict=True):
            ours, eager = [(side.double() - sides[2]).abs().max().item() for side in sides[:2]]
            assert ours <= 2 * eager + 1e-6 * sides[2].abs().max().item()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_measured_blocks_give_the_same_and_are_kept(monkeypatch, tmp_path):
    from firesteel.kernels.gpu import measuring

    measured = []
    times = measuring.device_seconds
    monkeypatch.setattr(measuring, "device_seconds", lambda ways, device: measured.append(ways) or times(ways, device))
    x, w = torch.randn(300, 20000, device="cuda"), torch.randn(20000, device="cuda")

    def program(x, w):
        return F.gelu(F.layer_norm(x, (20000,), w)), x.sum(0), torch.softmax(x, -1)

    counts = []
    for _ in range(2):
        fs.reset()
        with torch.no_grad(), fs.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
            compiled = fs.compile(program, mode="max-autotune")
            for _ in range(3):
                torch.testing.assert_close(compiled(x, w), program(x, w))
        counts.append(len(measured))
    assert counts[0] > 0
    assert counts[1] == counts[0]
