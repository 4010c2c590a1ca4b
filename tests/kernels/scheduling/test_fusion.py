"""What becomes one kernel, and that it computes what eager does."""

import pytest
import torch
import torch.nn.functional as F

from firesteel.kernels import ir
from firesteel.kernels.scheduling import costs, fusion
from kernels.scheduling.programs import kernels, planned

x47 = torch.linspace(-2, 2, 28).reshape(4, 7)


def rand(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


def layer_norm(x, w, b):
    mean = x.mean(-1, keepdim=True)
    var = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(var + 1e-5) * w + b


def residual_norm(x, y, w, b):
    z = x + y
    return z, layer_norm(z, w, b)


def softmax(x, dim):
    e = (x - x.amax(dim, keepdim=True)).exp()
    return e / e.sum(dim, keepdim=True)


def rotary(x, cos, sin):
    y = torch.tanh(x)
    a, b = y.chunk(2, -1)
    return y * cos + torch.cat([-b, a], -1) * sin


ONE_KERNEL = {
    "pointwise": (lambda x, y: torch.sin(x) + torch.cos(y) * x, rand(4, 5), rand(4, 5)),
    "two results": (lambda x: (torch.exp(x), torch.exp(x) + 1), rand(4, 5)),
    "row sum": (lambda x: x.sum(-1), x47),
    "column sum": (lambda x: x.sum(0), x47),
    "middle sum": (lambda x: x.sum(1), rand(3, 4, 5)),
    "outer sum": (lambda x: x.sum((0, 2)), rand(3, 4, 5)),
    "softmax": (lambda x: softmax(x, -1), x47),
    "softmax of columns": (lambda x: softmax(x, 0), x47),
    "softmax in the middle": (lambda x: softmax(x, 1), rand(2, 3, 5)),
    "masked softmax": (lambda x, m: softmax(x * 0.3 + m, -1), rand(2, 2, 3, 4), rand(2, 1, 3, 4)),
    "layer norm": (layer_norm, rand(2, 3, 7), rand(7), rand(7)),
    "residual and norm": (residual_norm, rand(2, 3, 7), rand(2, 3, 7), rand(7), rand(7)),
    "rms norm": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, rand(3, 8), rand(8)),
    "batch norm": (lambda x: (x - x.mean((0, 2), keepdim=True)) / x.var((0, 2), keepdim=True), rand(2, 3, 4)),
    "through a view": (lambda x: (torch.tanh(x), softmax(torch.tanh(x).view(-1, x.shape[-1]), -1)), rand(2, 3, 8)),
    "through a flattened view": (lambda x: softmax(torch.tanh(x.view(-1)).view(-1, x.shape[1]), -1), rand(3, 8)),
    "sum and max of the same rows": (lambda x: (x.sum(-1), x.amax(-1)), x47),
    "bfloat16": (lambda x: softmax(x, -1), rand(2, 3, 8, dtype=torch.bfloat16)),
    "bfloat16 columns": (lambda x: x.sum(0), rand(5, 8, dtype=torch.bfloat16)),
    "integers": (lambda x: (x * 2).sum(0), torch.arange(12).reshape(3, 4)),
    "bool columns": (lambda x: (x > 0).any(0), x47),
    "rotary": (rotary, rand(2, 3, 8), rand(3, 8), rand(3, 8)),
    "transposed": (lambda x, y: x + y.t(), rand(4, 5), rand(5, 4)),
    "cat": (lambda x, y: torch.cat([x, y * 2], 1) + 1, rand(4, 5), rand(4, 3)),
    "parts of a row": (lambda x, y, z: torch.stack([x.exp(), y * 2, z], 1), *[rand(999, n) for n in (3, 3, 3)]),
    "tiny loss": (lambda x: (softmax(x, -1) * 2).mean(), x47),
    "argmax": (lambda x: x.argmax(-1), x47),
    "no elements": (lambda x: x * 2 + 1, torch.ones(0, 3)),
    "one element": (lambda x: (x * 2).sum(), torch.ones(1)),
    "size one": (lambda x: softmax(x, 1), rand(3, 1, 4)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
@pytest.mark.parametrize("dynamic", [False, True])
def test_one_kernel(name, dynamic):
    program, *args = ONE_KERNEL[name]
    plan = planned(program, *args, dynamic=dynamic)
    if not (dynamic and name in ("tiny loss", "rotary")):  # the loss may be long, the halves not of equal size
        assert len(kernels(plan)) == 1


def test_extern_calls_separate():
    plan = planned(lambda x, w: F.gelu(x @ w) + x, rand(4, 4), rand(4, 4))
    assert len(kernels(plan)) == 1


def test_no_cycle_through_a_call():
    def program(x, w):
        a = torch.tanh(x)
        return a + torch.sin(a @ w)

    plan = planned(program, rand(4, 4), rand(4, 4))
    assert len(kernels(plan)) == 2


def test_equal_layers_share_kernels():
    def program(x, w):
        for _ in range(4):
            x = softmax(x @ w, -1) + x
        return x

    plan = planned(program, rand(4, 4), rand(4, 4))
    assert len(kernels(plan)) == 4
    assert len({id(kernel) for kernel in kernels(plan)}) == 1


def test_too_few_rows_are_not_fused(monkeypatch):
    monkeypatch.setattr(costs, "SMALL", 16)
    monkeypatch.setattr(costs, "TINY", 16)
    plan = planned(lambda x: softmax(x, -1), rand(2, 64))
    assert len(kernels(plan)) > 1


def test_cheap_values_are_computed_again_and_others_kept():
    kept = kernels(planned(lambda x: softmax(x, -1), x47))[0]
    assert [scratch.name for scratch in kept.scratch] == ["row1"]
    again = kernels(planned(layer_norm, rand(3, 7), rand(7), rand(7)))[0]
    assert not again.scratch


def test_long_rows_are_kept_in_memory(monkeypatch):
    monkeypatch.setattr(costs, "ROW_BYTES", 8)
    kernel = kernels(planned(lambda x: softmax(x, -1), x47))[0]
    assert not kernel.scratch and len(kernel.writes) == 2


def test_columns_in_blocks(monkeypatch):
    monkeypatch.setattr(costs, "COLUMN_BLOCK", 4)
    monkeypatch.setattr(costs, "LEAST_BLOCK", 2)
    monkeypatch.setattr(costs, "ACCUMULATE", 3)
    for dynamic in (False, True):
        for program in (lambda x: x.sum(0), lambda x: softmax(x, 0), lambda x: x.var(0) + x.amax(0)):
            kernel = kernels(planned(program, rand(11, 10), dynamic=dynamic))[0]
            assert isinstance(kernel.body[0], ir.Loop) and kernel.body[0].parallel


def test_parallel_blocks_of_few_long_rows(monkeypatch):
    monkeypatch.setattr(costs, "SMALL", 16)
    monkeypatch.setattr(costs, "PARALLEL_BLOCK", 8)
    kernel = kernels(planned(lambda x, y: x + y[:, None], rand(2, 37), rand(2)))[0]
    loops = [kernel.body[0], kernel.body[0].body[0], kernel.body[0].body[0].body[0]]
    assert [loop.parallel for loop in loops] == [True, True, False] or loops[0].parallel


def test_scatter_keeps_order():
    def program(x, i, y):
        return x.index_add(0, i, y), x.scatter(1, i[:3, None].expand(3, 2) % 4, y[:3, :2])

    planned(program, rand(3, 4), torch.tensor([0, 2, 0, 1]), rand(4, 4))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_numbers_for_each_channel_are_computed_ahead(layout):
    """Then the large loops run in the order of memory, and in parallel."""
    x = rand(2, 16, 12, 12).contiguous(memory_format=layout)
    norm = torch.nn.BatchNorm2d(16).eval()
    small, large = kernels(planned(lambda x: norm(x).relu(), x))
    assert [int(loop.axis.size) for loop in small.body] == [16]
    outer = large.body[0]
    assert isinstance(outer, ir.Loop) and outer.parallel and int(outer.axis.size) != 16


def test_joining_two_nodes_looks_only_at_those_behind_them(monkeypatch):
    """So that time grows with the number of operations and not with its square."""
    walks = []

    class Nodes(dict):
        def values(self):
            walks.append(1)
            return super().values()

    original = fusion.Fusion
    monkeypatch.setattr(fusion, "Fusion", lambda *given: original(*given, nodes=Nodes()))
    plan = planned(lambda *tensors: [softmax(t, -1) for t in tensors], *[rand(3, n) for n in range(2, 12)])
    assert len(kernels(plan)) == 10 and not walks


def test_concatenations_that_share_their_longest_part_are_one_kernel():
    def program(x, y, z):
        return torch.cat([x, y], 1), torch.cat([x, z], 1)

    for length in range(20, 30):  # what came first among parts used to depend on where things lie in memory
        plan = planned(program, rand(4, length), rand(4, 3), rand(4, 5))
        assert len(kernels(plan)) == 1
        plan = planned(program, rand(4, 3), rand(4, length), rand(4, 2 * length))
        assert len(kernels(plan)) == 2
