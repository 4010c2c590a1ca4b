"""Buffers: when they come and go, and who takes over whose memory."""

import torch

from firesteel.kernels.plan import Allocate, Free
from firesteel.kernels.scheduling.memory import peak_bytes
from kernels.scheduling.programs import planned


def allocations(plan):
    return {step.buffer.name: step.reuse for step in plan.steps if isinstance(step, Allocate)}


def test_in_place_after_a_call():
    plan = planned(lambda x, w: torch.tanh(x @ w) * 2, torch.randn(4, 4), torch.randn(4, 4))
    assert None not in allocations(plan).values()


def test_inputs_are_not_overwritten():
    x = torch.randn(4, 4)
    before = x.clone()
    plan = planned(lambda x: torch.tanh(x), x)
    assert list(allocations(plan).values()) == [None] and torch.equal(x, before)


def test_transposed_result_is_not_in_place():
    plan = planned(lambda x, w: torch.tanh(x @ w).t().contiguous(), torch.randn(4, 4), torch.randn(4, 4))
    assert list(allocations(plan).values()) == [None]


def test_freed_memory_is_used_again():
    def program(x, w):
        for _ in range(6):
            x = torch.tanh((x @ w).t()) @ w
        return x

    plan = planned(program, torch.randn(4, 4), torch.randn(4, 4))
    freed = [name for step in plan.steps if isinstance(step, Free) for name in step.buffers]
    reused = [name for name in allocations(plan).values() if name is not None]
    assert not set(freed) & set(reused)
    assert peak_bytes(plan.steps, plan.buffers, {}) <= 3 * 64


def test_results_stay():
    plan = planned(lambda x, w: (x @ w, torch.tanh(x @ w)), torch.randn(4, 4), torch.randn(4, 4))
    gone = {name for step in plan.steps if isinstance(step, Free) for name in step.buffers}
    assert not gone & {output.buffer for output in plan.outputs}


def test_dynamic_sizes():
    def program(x, w):
        return torch.tanh(torch.tanh(x @ w) @ w) + x

    plan = planned(program, torch.randn(5, 4), torch.randn(4, 4), dynamic=True)
    assert None not in allocations(plan).values()


def test_large_memory_does_not_wait_while_a_library_is_called():
    def program(x, w):
        first = torch.tanh(x) @ w  # nobody needs the tangent from here on
        second = first @ w
        turned = second.flip(0)
        return torch.sin(turned) @ w, torch.cos(turned) @ w

    for size, reused in ((8, 2), (256, 1)):
        plan = planned(program, torch.randn(size, size), torch.eye(size))
        assert sum(name is not None for name in allocations(plan).values()) == reused
