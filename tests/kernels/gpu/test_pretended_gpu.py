"""Programs compiled for a GPU that is not there, forward and backward, and run by a stand-in for Triton, as eager."""

from __future__ import annotations

import functools

import pytest
import torch
import torch.nn.functional as F
from tests.conformance.comparing import differences
from tests.conformance.gradients import differentiate
from tests.kernels.gpu.nearness import nearer
from tests.kernels.gpu.pretended_gpu import PretendedGpu

import firesteel as fs
from firesteel.kernels.gpu.triton_printer import TritonKernel
from firesteel.shapes import const
from kernels.gpu import stand_in_triton
from kernels.gpu.races import Race, Races
from kernels.gpu.random_programs import RandomProgram


def check(program, make, dynamic=None):
    """Results and gradients of a program are eager's; the GPU that it was compiled for."""
    gpu = PretendedGpu()
    fs.reset()
    want = differentiate(program, make(), {})
    with gpu.here(), fs.config.patch(raise_on_internal_error=True):
        got = differentiate(fs.compile(program, backend=gpu, dynamic=dynamic), make(), {})
    if isinstance(got, Exception):
        raise got
    found = differences(want, got, True)
    if found:
        assert all(line.startswith("values:") for line in found), found
        assert nearer(functools.partial(differentiate, program), (make(), {}), want, got, worse=2), found
    assert gpu.printed and not gpu.uncompiled
    return gpu


def leaves(*shapes):
    def make():
        generator = torch.Generator().manual_seed(0)
        return tuple([torch.randn(shape, generator=generator).requires_grad_() for shape in shapes])

    return make


@pytest.mark.parametrize("first", range(0, 24, 6))
def test_random_programs(first):
    for seed in range(first, first + 6):
        program = RandomProgram(seed)
        check(program, program.inputs, dynamic=True if seed % 3 == 1 else None)


def test_convolutions_of_single_channels_in_short_floats():
    def net(x, first, each, second, bias):
        hidden = F.silu(F.conv2d(x, first, bias))
        hidden = F.silu(F.conv2d(hidden, each, bias, padding=1, groups=8))
        return F.conv2d(hidden * hidden.mean((2, 3), keepdim=True).sigmoid(), second)

    def make():
        return tuple([leaf.detach().bfloat16().requires_grad_() for leaf in leaves(
            (2, 4, 8, 8), (8, 4, 3, 3), (8, 1, 3, 3), (5, 8, 1, 1), (8,))()])

    gpu = check(net, make)
    assert sum("addmm" in call or "aten.add" in call for call in gpu.calls) == 0


def test_a_small_net():
    def net(x, weight, scale, shift):
        hidden = F.relu(F.batch_norm(F.conv2d(x, weight), None, None, scale, shift, training=True))
        return F.max_pool2d(hidden, 2)

    gpu = check(net, leaves((2, 3, 8, 8), (4, 3, 3, 3), (4,), (4,)))
    assert {call.split(":")[0] for call in gpu.calls} == {
        "aten.convolution.default", "aten.convolution_backward.default"}


def test_kernels_that_only_store():
    check(lambda x, y: (torch.stack([x + x.bfloat16().float(), x.sin()], 2), (x / (y.abs() + 1)).tril()),
          leaves((4, 1, 6), (4, 1, 6)))


def test_a_size_that_is_one_is_repeated():
    def halves(x):
        first, second = x.chunk(2, 1)
        return first - second * 2

    for size in (2, 3, 4):
        check(halves, leaves((2, size, 4)), dynamic=True)


def test_rows_that_registers_do_not_keep_are_in_memory():
    def program(x, index):
        y = torch.tanh(x) * x.sum(-1, keepdim=True)
        return y.roll(2, -1) * y, y.gather(-1, index), y.flip(-1)

    index = torch.tensor([[2, 0, 1], [0, 0, 3]])
    gpu = check(program, lambda: (*leaves((2, 4))(), index))
    assert not gpu.refused


def test_sums_over_sizes_that_change_and_others_are_kernels():
    gpu = check(lambda x: x.sum((0, 2)), leaves((7, 3, 4)), dynamic=True)
    assert not gpu.calls and not gpu.refused


def test_sizes_that_are_computed_with_floats_are_left_to_aten():
    gpu = check(lambda x: F.interpolate(x, scale_factor=0.6, mode="area") * 2, leaves((2, 3, 10, 10)), dynamic=True)
    assert any("no kernel for this device" in call for call in gpu.calls)


def test_a_row_is_read_by_longer_loops_than_the_one_that_writes_it():
    def program(x, y):
        z = x / (y.abs() + 1)
        return torch.cat([z, torch.tanh(z[:1]), z]).sin(), z.detach()

    gpu = check(program, leaves((33,), (33,)))
    for kernel in gpu.printed:
        stores = [line for line in kernel.source.splitlines() if "tl.store(tmp0" in line]
        if stores and "tl.load(tmp0" in kernel.source:
            between = kernel.source.split(stores[-1])[1].split("tl.load(tmp0")[0]
            assert "tl.debug_barrier()" in between


def kernel(text):
    lines = "".join(f"    {line}\n" for line in text.strip().splitlines())
    return TritonKernel("k", f"@triton.jit\ndef k(a, b):\n{lines}", const(2), ("*fp32", "*fp32"), 4)


@pytest.mark.parametrize("text, message", [
    ("i = tl.arange(0, 4)\ntl.store(a + i, 1.0)\ntl.store(b + i, tl.load(a + (3 - i)))", "without a barrier"),
    ("i = tl.arange(0, 4)\ntl.store(b + i, tl.load(a + i))\ntl.store(a + (3 - i), 1.0)", "without a barrier"),
    ("i = tl.arange(0, 4) + 4 * tl.program_id(0)\ntl.store(a + i, tl.load(a + (7 - i)))", "another"),
    ("i = tl.arange(0, 4) + 4 * tl.program_id(0)\ntl.store(a + i, 1.0)\ntl.debug_barrier()\n"
     "tl.store(b + i, tl.load(a + (7 - i)))", "another"),
    ("i = tl.arange(0, 4) + 4 * tl.program_id(0)\ntl.store(a + i, tl.load(a + i) + 1)\ntl.debug_barrier()\n"
     "tl.store(b + i, tl.load(a + (i + 2) % 4 + 4 * tl.program_id(0)))", None),
])
def test_races_are_found(text, message):
    memory = [torch.zeros(8), torch.zeros(8)]
    if message is None:
        stand_in_triton.run_programs(kernel(text), range(2), memory, (), Races())
        return
    with pytest.raises(Race, match=message):
        stand_in_triton.run_programs(kernel(text), range(2), memory, (), Races())
