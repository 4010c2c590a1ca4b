"""Lowering as a whole: what is computed where it is used, what goes to memory, fallbacks, results, symbols."""

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import torch_compat
from firesteel.fake import FakeTensor
from firesteel.functional import trace
from firesteel.kernels import ir
from firesteel.kernels.lowering import lower
from firesteel.kernels.verify import verify_lowered
from firesteel.repair.lowered_run import run
from kernels.lowering.recording import record


def lowered(function, *inputs):
    """The lowered graph of an eager call, after checking that it gives the same results."""
    module, expected = record(function, *inputs)
    graph = lower(module)
    verify_lowered(graph)
    for result, want in zip(run(graph, inputs), expected, strict=True):
        torch.testing.assert_close(result, want, equal_nan=True)
        assert result.stride() == want.stride()
    return graph


def kinds(graph):
    return ["call" if isinstance(op, ir.ExternCall) else op.reduce or "point" for op in graph.operations]


X, Y = torch.randn(4, 6), torch.randn(6)


def test_a_chain_of_pointwise_operators_is_one_computation():
    graph = lowered(lambda x, y: torch.tanh(F.gelu(x) * y + 1).sigmoid(), X, Y)
    assert kinds(graph) == ["point"]


def test_views_cost_nothing():
    graph = lowered(lambda x: (x.t().unsqueeze(1) * 2).flatten(1)[1:, ::2].permute(1, 0) + 1, X)
    assert kinds(graph) == ["point"]


def test_views_of_inputs_need_no_computation():
    graph = lowered(lambda x: (x.view(2, 2, 6)[1].t(), x[:, 1:3], x.diagonal(), x.unfold(1, 2, 3)), X)
    assert kinds(graph) == []
    assert all(isinstance(part, ir.BufferRef) and part.buffer == "x0" for part in graph.outputs)


def test_what_is_used_twice_and_not_cheap_goes_to_memory():
    def f(x, y):
        a = torch.exp(x * y)
        return a + a.t().reshape(4, 6), a * 3

    assert len(lowered(f, X, Y).operations) == 3


def test_of_several_results_too():
    def f(x):
        pooled = F.max_pool2d(x, 2)
        return torch.tanh(pooled).sum(), pooled.exp().sum()

    assert kinds(lowered(f, torch.randn(1, 2, 4, 4))) == ["point", "sum", "sum"]


def test_what_is_used_twice_and_cheap_is_computed_twice():
    def f(x):
        a = x * 2
        return a + 1, a.t() + 3

    assert len(lowered(f, X).operations) == 2


def test_an_expensive_operand_is_computed_once_before_it_is_broadcast():
    graph = lowered(lambda x, y: x * torch.exp(torch.sin(y)), X, Y)
    assert len(graph.operations) == 2


def test_a_long_chain_is_cut():
    def f(x):
        for k in range(60):
            x = torch.sin(x) + k
        return x

    assert 2 < len(lowered(f, X).operations) < 20


def test_operators_without_lowering_are_called_with_what_they_need_in_memory():
    graph = lowered(lambda x: torch.linalg.qr((x * 2).t())[0] + 1, X)
    assert kinds(graph) == ["point", "call", "point"]
    assert [(f.operator, f.reason) for f in graph.fallbacks] == [("aten.linalg_qr.default", "no lowering")]


def test_reasons_of_fallbacks():
    graph = lowered(lambda x, y: (x ** y, x.to(torch.complex64)), torch.arange(4), torch.tensor([1, 2, 3, 4]))
    assert {f.reason for f in graph.fallbacks} == {"powers of integers", "dtype complex64"}


def test_views_of_complex_tensors_are_views():
    graph = lowered(lambda x: x.t()[1:], torch.randn(3, 4, dtype=torch.complex64))
    assert kinds(graph) == [] and not graph.fallbacks


def test_an_aliasing_fallback_is_copied():
    graph = lowered(lambda x: torch.view_as_complex(x) * 2, torch.randn(3, 2))
    names = [str(op.target) for op in graph.operations]
    assert names[:2] == ["aten.view_as_complex.default", "aten.clone.default"]


def test_results_that_eager_keeps_apart_do_not_share_memory():
    graph = lowered(lambda x: (x.clone(), (x + 1), (x + 1).clone(), x.to(torch.float32)), X)
    buffers = [part.buffer for part in graph.outputs]
    assert len(set(buffers)) == 4 and buffers[3] == "x0"


def test_a_result_and_its_view_share_memory():
    def f(x):
        y = x + 1
        return y, y.t(), y[1]

    graph = lowered(f, X)
    assert len({part.buffer for part in graph.outputs}) == 1 and len(graph.operations) == 1


def test_unused_computations_are_dropped():
    def f(x):
        torch.linalg.qr(x)
        torch.sin(x) + 1
        return x * 2

    assert kinds(lowered(f, X)) == ["point"]


def test_random_numbers_are_drawn_even_if_unused():
    module, _ = record(lambda x: (torch.rand(3), x + 1)[1], X)
    assert kinds(lower(module)) == ["call", "point"]


def test_cat_of_few_parts_is_chosen_from_and_of_many_is_filled_part_by_part():
    assert kinds(lowered(lambda x: torch.cat([x, -x], 1) * 2, X)) == ["point"]
    graph = lowered(lambda x: torch.cat([x + k for k in range(6)], 1) * 2, X)
    assert len({op.buffer for op in graph.operations[:6]}) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_short_floats_are_rounded_after_every_operator_as_in_eager(dtype):
    def f(x, y):
        z = x * y + x / 3 - 0.1
        return F.silu(z) * F.gelu(z, approximate="tanh") + torch.exp(z) * 0.3

    x, y = torch.randn(256, dtype=dtype), torch.randn(256, dtype=dtype)
    module, (want,) = record(f, x, y)
    (result,) = run(lower(module), (x, y))
    assert torch.equal(result, want)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.bool], ids=str)
def test_integers_wrap_and_promote_as_in_eager(dtype):
    x = torch.randint(-128, 127, (50,)).to(dtype)

    def f(x):
        wide = x + torch.tensor(3.5)
        return x * 77 + x, -(x * 3) if dtype is not torch.bool else x, x / 7, x > 2, x.float() * 2 + x, wide, x ** 2

    lowered(f, x)


def test_integer_division_by_constants():
    x = torch.randint(-100, 100, (50,))
    lowered(lambda x: (x // 7, x % 7, x // -3, x % -3, torch.div(x, 5, rounding_mode="trunc"), torch.fmod(x, -4)), x)
    lowered(lambda x: (x // -1, x % -1), torch.tensor([-(2**63), 5]))


def test_shifts_by_too_much():
    x = torch.randint(-100, 100, (40,), dtype=torch.int32)
    by = torch.randint(-3, 40, (40,), dtype=torch.int32)
    lowered(lambda x, by: (x << by, x >> by, x << 3, x >> 2), x, by)


def test_powers():
    x = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), float("nan"), -float("inf"), 1e-30])
    lowered(lambda x: tuple(x**p for p in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.7, 4)) + (2.0**x, 1.0**x), x)


# Symbolic sizes


def compiled(function, graphs):
    """The function through capture with symbolic sizes, tracing and lowering, evaluated."""

    def backend(module, example_inputs):
        functional = trace(module, example_inputs)
        graph = lower(functional.module)
        verify_lowered(graph)
        graphs.append(graph)
        return lambda *args: tuple(run(graph, args))

    return fs.compile(function, backend=backend, dynamic=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: (F.silu(x) * y).reshape(-1, 2) + 1,
        lambda x, y: torch.cat([x, x * y], 1).view(x.size(0), 2, -1).transpose(0, 1) * 2,
        lambda x, y: F.pad(x, (1, 2)) + x.size(1),
        lambda x, y: x[:, 1:] * y[:-1] + torch.arange(x.size(1) - 1) * x.shape[0],
        lambda x, y: torch.tril(x) + torch.ones(x.shape[1]).expand(x.shape) / x.size(0),
        lambda x, y: (x.t().reshape(x.size(0), -1) + 1).flip(0).roll(1, 1),
        lambda x, y: torch.stack([x, x + 1], 2).flatten(1).repeat(2, 3) * 2,
    ],
)  # fmt: skip
def test_one_lowering_serves_all_sizes(function):
    graphs = []
    f = compiled(function, graphs)
    with torch.no_grad():
        for rows, columns in ((4, 6), (2, 8), (7, 10)):
            x, y = torch.randn(rows, columns), torch.randn(columns)
            result = f(x, y)
            torch.testing.assert_close(result, function(x, y))
            assert result.stride() == function(x, y).stride()
    assert len(graphs) == 1
    assert graphs[0].symbols


def test_reshapes_of_symbolic_sizes_leave_no_divisions():
    graphs = []
    f = compiled(lambda x: (x.view(x.size(0), x.size(1), 4, -1).transpose(1, 2) * 2).flatten(2), graphs)
    with torch.no_grad():
        f(torch.randn(2, 3, 8))
    text = str(graphs[0])
    assert "//" in text or "%" in text
    assert text.count("for") == 1


def test_a_float_given_at_run_time_is_a_number():
    graphs = []
    f = compiled(lambda x, scale: x * scale + 1, graphs)
    with torch.no_grad():
        for scale in (0.5, 1.5, 2.5):
            torch.testing.assert_close(f(X, scale), X * scale + 1)
    assert len(graphs) <= 2


@pytest.mark.parametrize("device", ["meta", "cuda:0"])
def test_what_is_made_on_another_device_is_made_there(device):
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(3)
    there = graph.call_function(torch.ops.aten.full_like.default, (x, 2.0), {"device": torch.device(device)})
    there.meta["val"] = torch_compat.make_wrapper(FakeTensor, (3,), (1,), 0, torch.float32, torch.device(device), 0)
    here = graph.call_function(torch.ops.aten.full_like.default, (x, 2.0))
    here.meta["val"] = torch.empty(3)
    graph.output((there, here))
    found = lower(torch.fx.GraphModule(torch.nn.Module(), graph))
    assert kinds(found) == ["call", "point"]
    assert [fallback.reason for fallback in found.fallbacks] == [f"device {device}"]
    assert found.operations[0].kwargs == {"device": torch.device(device)}


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_size_that_is_known_to_be_one_is_repeated(size):
    def halves(x):
        first, second = x.chunk(2, 1)
        return first - second * 2

    x = torch.randn(2, size, 4)
    torch.testing.assert_close(fs.compile(halves, backend="native", dynamic=True)(x), halves(x))


SHUFFLES = {
    "channels": lambda x: F.channel_shuffle(x, 2), "pixels": lambda x: F.pixel_shuffle(x, 2),
    "back": lambda x: F.pixel_unshuffle(x, 2), "hardshrink": F.hardshrink, "softshrink": F.softshrink,
}  # fmt: skip


@pytest.mark.parametrize("name", SHUFFLES)
def test_numbers_of_operators_may_be_symbols(name):
    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    found = []
    with fs.config.patch(raise_on_internal_error=True):
        for function in (SHUFFLES[name], fs.compile(SHUFFLES[name], backend="native", dynamic=True)):
            result = function(x)
            found.append((result, *torch.autograd.grad(result.square().sum(), x)))
    torch.testing.assert_close(found[1], found[0])
