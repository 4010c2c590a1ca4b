"""What is lowered otherwise for a GPU: gradients of pooling, statistics of batches. The plans are interpreted."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.functional import trace
from firesteel.kernels.host import in_place
from firesteel.kernels.host.results import with_results
from firesteel.kernels.lowering import batch_statistics, lower
from firesteel.kernels.lowering.batch_statistics import LEAST_ROWS, MOST_PARTS, MOST_ROWS, part_rows
from firesteel.kernels.plan import Launch, WriteBack
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.scheduling.machines import GPU
from firesteel.repair.plan_run import run
from passes import gpu_graphs


def planned(program, *args):
    """The plan of a program for a GPU, and its results."""
    found = []

    def backend(module, examples):
        graph = gpu_graphs.on_gpu(trace(module, examples))
        plan = schedule(lower(graph.module, device=gpu_graphs.GPU), GPU)
        found.append(plan)
        return lambda *given: run(plan, given)

    fs.reset()
    torch.manual_seed(0)
    with torch.no_grad(), fs.config.patch(raise_on_internal_error=True):
        results = fs.compile(program, backend=backend, fullgraph=True)(*args)
    [plan] = found
    return plan, results


def launches(plan):
    return [step for step in plan.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("kernel, stride, padding, ceil_mode", [
    (3, 2, 1, False), (2, 2, 0, True), (3, 1, 1, False), ((2, 3), (1, 2), (1, 0), False), (2, 3, 0, False),
])  # fmt: skip
@pytest.mark.parametrize("last", [False, True])
def test_gradient_of_maxima_is_gathered(kernel, stride, padding, ceil_mode, last):
    x = torch.randint(-2, 3, (1, 2, 5, 7)).float()  # equal ones in a window
    if last:
        x = x.contiguous(memory_format=torch.channels_last)
    out, places = F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil_mode, return_indices=True)
    grad = torch.randn_like(out)

    def backward(grad, x, places):
        return torch.ops.aten.max_pool2d_with_indices_backward(
            grad, x, kernel, stride, padding, 1, ceil_mode, places)

    plan, found = planned(backward, grad, x, places)
    assert len(launches(plan)) == len(plan.steps) - 1 == 1  # nothing is set to zero before
    assert torch.equal(found, backward(grad, x, places))
    assert found.stride() == x.stride()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_statistics_of_batches(last, offset, monkeypatch):
    monkeypatch.setattr(batch_statistics, "LEAST_ELEMENTS", 1)
    x = torch.randn(3, 8, 6, 8) * torch.rand(8, 1, 1) + offset
    if last:
        x = x.contiguous(memory_format=torch.channels_last)

    def norm(x, weight, bias):
        return torch.ops.aten._native_batch_norm_legit.no_stats(x, weight, bias, True, 0.1, 1e-5)

    given = x, torch.rand(8), torch.randn(8)
    want, exact = norm(*given), norm(*(t.double() for t in given))
    plan, found = planned(norm, *given)
    # Parts, all parts together, the result; a second pass would read everything once more.
    assert len([step for step in launches(plan) if x.numel() in _sizes(plan, step)]) == 2
    for value, eager, reference in zip(found, want, exact, strict=True):
        error, allowed = ((one.double() - reference).norm().item() for one in (value, eager))
        assert error <= 2 * allowed + 1e-6 * reference.norm().item()
        assert value.stride() == eager.stride()


@pytest.mark.parametrize("shape", [(2, 8, 6, 8), (2, 8, 3, 4)], ids=["rows", "few"])
def test_gradient_of_batch_norm_takes_three_kernels(shape, monkeypatch):
    monkeypatch.setattr(batch_statistics, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(batch_statistics, "ENOUGH", 16)
    x, grad = (torch.randn(shape).contiguous(memory_format=torch.channels_last) for _ in range(2))

    def backward(grad, x, weight, mean, scale):
        grad = torch.where(x > 0, grad, 0.0)
        return torch.ops.aten.native_batch_norm_backward(
            grad, x, weight, None, None, mean, scale, True, 1e-5, [True, True, True])

    given = grad, x, torch.rand(8), x.mean((0, 2, 3)), 1 / x.std((0, 2, 3))
    plan, found = planned(backward, *given)
    for value, want in zip(found, backward(*given), strict=True):
        torch.testing.assert_close(value, want, rtol=1e-4, atol=1e-5)
        assert value.stride() == want.stride()
    # What is added up is made by the kernel that adds up rows; both sums of rows are added up by one.
    assert len(launches(plan)) <= 3


def test_gradients_of_maxima_go_on_to_a_batch_norm():
    x = torch.randn(2, 8, 6, 8)
    out, places = F.max_pool2d(x, 2, return_indices=True)

    def backward(grad, x, places, weight, mean, scale):
        grad = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, 2, 2, 0, 1, False, places)
        grad = torch.where(x > 0, grad, 0.0)
        return torch.ops.aten.native_batch_norm_backward(
            grad, x, weight, None, None, mean, scale, True, 1e-5, [True, True, True])

    given = torch.randn_like(out), x, places, torch.rand(8), x.mean((0, 2, 3)), 1 / x.std((0, 2, 3))
    _, found = planned(backward, *given)
    for value, want in zip(found, backward(*given), strict=True):
        torch.testing.assert_close(value, want, rtol=1e-4, atol=1e-5)


def test_single_elements_share_a_kernel():
    counters = [torch.tensor(number) for number in (3, 5, 8)]
    plan, found = planned(lambda a, b, c: (a + 1, b + 1, c * 2), *counters)
    assert [value.item() for value in found] == [4, 6, 16] and len(launches(plan)) == 1


def _sizes(plan, step):
    found = []
    for name in step.buffers:
        count = 1
        for size in plan.buffers[name].shape:
            count *= int(size)
        found.append(count)
    return found


@pytest.mark.parametrize("count", [784, 3136, 12544, 50176, 200704, 802816, 196, 15 * 13 * 11])
@pytest.mark.parametrize("channels", [3, 64, 512])
def test_parts_divide_what_they_are_parts_of(count, channels):
    rows = part_rows(count, channels)
    assert rows == 0 or (count % rows == 0 and LEAST_ROWS <= rows <= MOST_ROWS
                         and count // rows * channels <= MOST_PARTS)


def test_powers_of_two_are_preferred():
    assert [part_rows(16 * side * side, 64) for side in (56, 28, 14, 7)] == [64, 16, 16, 16]
    assert part_rows(49 * 9, 512) == 21 and part_rows(1009, 64) == 0


def statistics_and_a_convolution(x, weight, mean, variance):
    x = F.batch_norm(x, mean, variance, training=True)
    return F.conv2d(x, weight)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_statistics_are_written_ahead_of_library_calls(on_gpu):
    found = []

    def backend(module, examples):
        graph = trace(module, examples)
        device = torch.device("cpu")
        if on_gpu:
            graph, device = gpu_graphs.on_gpu(graph), gpu_graphs.GPU
        found.append(with_results(schedule(lower(graph.module, device=device), GPU), graph))
        return module.forward

    fs.reset()
    args = torch.randn(4, 8, 6, 6), torch.randn(4, 8, 1, 1), torch.zeros(8), torch.ones(8)
    with torch.no_grad(), mock.patch.object(in_place, "WORTHWHILE", 0):
        fs.compile(statistics_and_a_convolution, backend=backend, fullgraph=True)(*args)
    [plan] = found
    copies = sum(isinstance(step, WriteBack) for step in plan.steps)
    assert copies == (0 if on_gpu else 2)  # on a CPU the convolution could raise
