"""Reductions: what they add up in, NaN and infinities, empty and single elements, strides."""

import pytest
import torch

from firesteel.kernels import ir
from firesteel.kernels.lowering import lower
from firesteel.kernels.verify import verify_lowered
from firesteel.repair.lowered_run import run
from kernels.lowering.recording import record

F = torch.nn.functional


def lowered(function, *inputs):
    module, expected = record(function, *inputs)
    graph = lower(module)
    verify_lowered(graph)
    return graph, expected


def same(function, *inputs):
    graph, expected = lowered(function, *inputs)
    assert not graph.fallbacks
    for result, want in zip(run(graph, list(inputs)), expected, strict=True):
        torch.testing.assert_close(result, want, equal_nan=True)
        assert result.stride() == want.stride()
    return graph


def reductions(graph):
    return [step for step in graph.operations if isinstance(step, ir.Computation) and step.reduce]


def test_short_floats_are_rounded_once():
    graph = same(lambda x: x.sum(-1), torch.randn(3, 500).bfloat16())
    [reduction] = reductions(graph)
    assert reduction.value.dtype is torch.float32 and reduction.dtype is torch.bfloat16


def test_integers_are_added_up_as_int64():
    [reduction] = reductions(same(lambda x: x.sum(), torch.full((300,), 100, dtype=torch.int8)))
    assert reduction.value.dtype is torch.int64


@pytest.mark.parametrize("function", [
    lambda x: x.amax(1), lambda x: x.max(1), lambda x: x.argmin(1), lambda x: x.min(0), lambda x: x.logsumexp(1),
    lambda x: x.cummax(1), lambda x: x.cummin(0), lambda x: x.nansum(1), lambda x: torch.softmax(x, 1),
], ids=["amax", "max", "argmin", "min", "logsumexp", "cummax", "cummin", "nansum", "softmax"])  # fmt: skip
def test_nan_and_infinities(function):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 3.0, nan], [inf, 1.0, inf, 2.0], [-inf, -inf, -inf, -inf], [2.0, 2.0, -inf, 2.0]])
    same(function, x)


def test_a_single_element_needs_no_reduction():
    assert not reductions(same(lambda x: x.sum(1), torch.randn(4, 1)))
    assert not reductions(same(lambda x: x.argmax(1), torch.randn(4, 1)))


def test_nothing_to_reduce():
    same(lambda x: (x.sum(0), x.prod(0), x.any(0), x.all(0), x.mean(0)), torch.randn(0, 3))
    same(lambda x: x.sum(1), torch.randn(0, 3))


def test_the_variance_of_large_numbers():
    x = torch.randn(4, 1000) + 10000
    graph, _ = lowered(lambda x: x.var(1), x)
    torch.testing.assert_close(run(graph, [x])[0], x.double().var(1).float(), rtol=1e-4, atol=0)


def test_softmax_of_a_row_reads_exponentials_back():
    graph = same(lambda x: torch.softmax(x, -1), torch.randn(3, 7))
    assert [step.reduce for step in graph.operations] == ["max", None, "sum", None]


def test_results_that_nobody_uses_are_not_computed():
    graph = same(lambda x: F.max_pool2d(x, 2), torch.randn(1, 2, 4, 4))
    assert len(graph.operations) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_norms_over_short_and_long_floats(dtype):
    x, w, b = (torch.randn(*shape).to(dtype) for shape in ((4, 6, 5), (5,), (5,)))
    same(lambda x, w, b: F.layer_norm(x, (5,), w, b), x, w, b)
    same(lambda x: F.layer_norm(x, (6, 5)), x)
    same(lambda x: F.group_norm(x, 3), x)
    same(lambda x: torch.log_softmax(x, 1), x)
    same(lambda x: torch.log_softmax(x, -1), x)


def test_channels_last_stays_channels_last():
    x = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last)
    same(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x)
    same(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), x)
    same(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), x)
    same(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)
    same(lambda x: F.interpolate(x, scale_factor=2), x)


@pytest.mark.parametrize("new", [3, 7, 10, 17, 64])
def test_nearest_neighbours_are_eagers(new):
    for mode in ("nearest", "nearest-exact"):
        same(lambda x, mode=mode: F.interpolate(x, size=new, mode=mode), torch.arange(10.0).view(1, 1, 10))


def test_large_windows_are_reductions():
    x = torch.randn(2, 3, 12, 12)
    x[0, 0] = -float("inf")
    same(lambda x: F.max_pool2d(x, 5, 2, 2, return_indices=True), x)
    same(lambda x: F.max_pool2d(x, 5, 3, 2, dilation=2, ceil_mode=True, return_indices=True), x)
    same(lambda x: F.avg_pool2d(x, 5, 2, 2), x)
    same(lambda x: F.adaptive_max_pool2d(x, 2, return_indices=True), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("values", [[3.3e38], [3.3e38, 3.3e38], [1e20], [float("inf")], [float("-inf"), 1.0],
                                    [float("inf"), float("inf")], [float("nan")]])
def test_deviations_of_huge_and_infinite_elements(dtype, values):
    x = torch.linspace(-1, 2, 10, dtype=dtype).view(2, 5)
    first, last = x.clone(), x.clone()
    first[:, :len(values)] = torch.tensor(values, dtype=dtype)
    last[:, -len(values):] = torch.tensor(values, dtype=dtype)
    for given in (first, last):
        same(lambda x: (x.var(-1), x.std(-1), x.std(), x.var(), x[:1].std(1)), given)
        same(lambda x: (*torch.var_mean(x, -1), *torch.std_mean(x, correction=0), *torch.var_mean(x, 0)), given)
    if dtype is not torch.float64:  # where it is eager's rounding that shows
        same(lambda x: (x.var(), x.std(0), x[:1].var(1)), torch.full((3, 2), 3.3e38, dtype=dtype))
