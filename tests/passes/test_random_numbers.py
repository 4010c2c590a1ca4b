"""Dropout and rand on a GPU as kernels: a graph of fake GPU tensors up to Triton source, which a stand-in runs."""

from __future__ import annotations

import operator
import sys

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import firesteel as fs
from firesteel.autodiff.partition import partition
from firesteel.fake.tensor import new_fake
from firesteel.functional.graph import FreshTensor, FunctionalGraph
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Allocate, Launch
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.scheduling.machines import GPU
from firesteel.passes.random_numbers import random_numbers
from firesteel.passes.settings import Settings
from firesteel.pipeline import joint_passes as joint_graphs
from firesteel.pipeline import training
from firesteel.torch_compat import cuda_random
from kernels.gpu.stand_in_triton import run

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
ATEN = torch.ops.aten
SEED, OFFSET = 98765432109876, 44


@pytest.fixture(autouse=True)
def small_gpu(monkeypatch):
    """Two processors with 512 threads each, so that threads draw several numbers soon."""
    monkeypatch.setattr(cuda_random, "_machine", lambda device: (2, 512))
    monkeypatch.setattr(cuda_random, "follows_rules", lambda device: True)


def graph_of(shape, dtype, strides=None, of_input=False):
    """y = 2 * x; out, mask = dropout(y, 0.3); noise = rand_like(y)"""
    strides = strides or torch.empty(shape).stride()

    def node(made, dtype=dtype):
        made.meta["val"] = new_fake(shape, strides, dtype, CUDA)
        return made

    graph = torch.fx.Graph()
    x = node(graph.placeholder("x"))
    y = x if of_input else node(graph.call_function(ATEN.mul.Tensor, (x, 2.0)))
    pair = graph.call_function(ATEN.native_dropout.default, (y, 0.3, True))
    pair.meta["val"] = (new_fake(shape, strides, dtype, CUDA), new_fake(shape, strides, torch.bool, CUDA))
    out, mask = (node(graph.call_function(operator.getitem, (pair, k)), (dtype, torch.bool)[k]) for k in (0, 1))
    noise = node(graph.call_function(ATEN.rand_like.default, (y,)))
    results = (out, mask, noise)
    graph.output(results)
    return FunctionalGraph(graph, [], [FreshTensor(result) for result in results], [], {})


def results_of(functional, x):
    """What the kernels compute, with the generator at a known place."""
    graph = lower(functional.module, device=CUDA)
    assert not graph.fallbacks
    memory, offset = {"x": x}, OFFSET
    for step in (plan := schedule(graph, GPU)).steps:
        if isinstance(step, Allocate):
            b = step.buffer
            memory[b.name] = torch.empty_strided([int(n) for n in b.shape], [int(s) for s in b.strides], dtype=b.dtype)
        elif isinstance(step, Launch):
            numbers = [(symbol, memory[plan.symbols[actual][0]])
                       for symbol, actual in zip(step.kernel.sizes, step.sizes, strict=True)]
            run(print_triton(step.kernel), [memory[name] for name in step.buffers], numbers)
        elif getattr(step, "target", None) is cuda_random.reserve:
            memory.update(zip(step.outputs, (SEED, offset), strict=True))
            offset += step.args[0]
        elif hasattr(step, "target"):
            memory[step.outputs[0]] = memory[step.args[0].buffer]
    return [memory[ref.buffer] for ref in plan.outputs]


CASES = [((7,), 1), ((10, 10), 4), ((3, 1000), 8), ((1001,), 1), ((30, 1001), 2), ((9, 1200), 8)]


@pytest.mark.parametrize("shape, width", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers(shape, width, dtype):
    functional = random_numbers(graph_of(shape, dtype), Settings(device=CUDA))
    names = [str(node.target) for node in functional.graph.nodes if node.op == "call_function"]
    if width == 2 and torch.Size(shape).numel() > 2048:
        assert "aten.native_dropout.default" in names  # eager's threads draw too many numbers there
        return
    x = torch.randn(shape).to(dtype)
    out, mask, noise = results_of(functional, x)
    width = min(width, 4) if dtype is torch.float32 else width
    count = x.numel()
    threads, moved = cuda_random.threads_for(count, CUDA), cuda_random.increment_for(count, CUDA)
    keep = cuda_random.uniform_numbers(SEED, OFFSET, count, threads, width, CPU).reshape(shape) < 0.7
    assert torch.equal(mask, keep)
    scale = torch.tensor(1.0) / torch.tensor(0.7)
    assert torch.equal(out, ((x * 2).float() * keep * scale).to(dtype))
    drawn = cuda_random.uniform_numbers(SEED, OFFSET + moved, count, threads, 1, CPU).reshape(shape).to(dtype)
    assert torch.equal(noise, torch.where(drawn == 1, 0, drawn))


@pytest.mark.parametrize("shape, strides", [((64, 101), (1, 64)), ((4, 6, 10, 10), (600, 1, 60, 6))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_follow_memory(shape, strides, dtype):
    functional = random_numbers(graph_of(shape, dtype, strides), Settings(device=CUDA))
    x = torch.empty_strided(shape, strides, dtype=dtype).copy_(torch.randn(shape))
    out, mask, noise = results_of(functional, x)
    assert out.stride() == mask.stride() == noise.stride() == strides and noise.dtype is dtype
    count = x.numel()
    threads, moved = cuda_random.threads_for(count, CUDA), cuda_random.increment_for(count, CUDA)
    drawn = [cuda_random.uniform_numbers(SEED, OFFSET + shift, count, threads, width, CPU)
             for shift, width in ((0, 4 if dtype is torch.float32 else 8), (moved, 1))]
    assert torch.equal(mask, torch.as_strided(drawn[0], shape, strides) < 0.7)
    drawn = drawn[1].to(dtype)
    assert torch.equal(noise, torch.as_strided(torch.where(drawn == 1, 0, drawn), shape, strides))


def test_integers_share_what_is_reserved():
    graph = torch.fx.Graph()
    graph.placeholder("x").meta["val"] = new_fake((1,), (1,), torch.float32, CUDA)
    made = []
    for dtype, args in ((torch.int64, (-5, 1000, [3, 700])), (torch.int32, (0, 7, [40]))):
        made.append(graph.call_function(ATEN.randint.low, args, {"device": CUDA, "dtype": dtype}))
        made[-1].meta["val"] = new_fake(args[2], None, dtype, CUDA)
    graph.output(tuple(made))
    functional = FunctionalGraph(graph, [], [FreshTensor(node) for node in made], [], {})
    functional = random_numbers(functional, Settings(device=CUDA))
    assert [str(node.target) for node in functional.graph.nodes].count("firesteel.reserve_random.default") == 1
    first, second = results_of(functional, torch.zeros(1))
    moved = cuda_random.increment_for(2100, CUDA)
    words = [cuda_random.words(SEED, OFFSET + shift, count, cuda_random.threads_for(count, CUDA), 1, CPU)
             for shift, count in ((0, 2100), (moved, 40))]
    assert torch.equal(first, (words[0] % 1005 - 5).reshape(3, 700))
    assert torch.equal(second, (words[1] % 7).int())


def test_philox_is_the_published_function():
    zeros, ones = [torch.zeros(1, dtype=torch.int64)] * 4, [torch.full((1,), 0xFFFFFFFF)] * 4
    found = [[int(word) for word in cuda_random._philox(seed, counter)] for seed, counter in ((0, zeros), (-1, ones))]
    assert found == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]]


def test_what_is_left_to_torch():
    def drawn(functional, **settings):
        made = random_numbers(functional, Settings(**{"device": CUDA, **settings}))
        return [str(node.target) for node in made.graph.nodes if "native_dropout" in str(node.target)]

    assert drawn(graph_of((64,), torch.float32)) == []
    assert drawn(graph_of((64,), torch.float32), recorded=True)  # a recording would repeat the numbers
    assert drawn(graph_of((64,), torch.float32), device=CPU)
    assert drawn(graph_of((64,), torch.float64))
    assert drawn(graph_of((8, 8), torch.float32, (16, 1)))  # gaps
    assert drawn(graph_of((64,), torch.float32, of_input=True))  # where an input begins is not known
    assert drawn(graph_of((8, 8), torch.float32, (1, 8))) == []


@pytest.mark.parametrize("checkpointed", [False, True])
def test_backward_computes_the_numbers_again(checkpointed, monkeypatch):
    """Forward and backward of a program whose bernoulli numbers come from a generator as that of a GPU, on the CPU."""
    calls = []

    def reserve(increment, *, device):
        calls.append(increment)
        return torch.tensor(SEED), torch.tensor(4 * len(calls))

    def dropped(x):
        return torch.nn.functional.dropout(torch.sin(x), 0.3)

    def program(x):
        return checkpoint(dropped, x, use_reentrant=False) * 2 if checkpointed else dropped(x) * 2

    reserve.returns_several = True
    monkeypatch.setattr(cuda_random, "reserve", reserve)
    monkeypatch.setattr(joint_graphs, "_device_of", lambda joint: CUDA)
    monkeypatch.setattr(sys.modules[random_numbers.__module__], "_is_plain", lambda value, dtypes=(): True)
    kept = []
    monkeypatch.setattr(training, "partition", lambda *args: kept.append(partition(*args)) or kept[-1])
    x = torch.randn(6, 50, requires_grad=True)
    fs.reset()
    with fs.config.patch(raise_on_internal_error=True):
        compiled = fs.compile(program, backend="native")
        for call in (1, 2):
            result = compiled(x)
            result.sum().backward()
            uniform = cuda_random.uniform_numbers(SEED, 4 * call, 300, 512, 1, CPU).reshape(6, 50)
            mask = 2 * (uniform < 0.7) / 0.7
            torch.testing.assert_close(result, torch.sin(x) * mask)
            torch.testing.assert_close(x.grad, torch.cos(x) * mask)
            x.grad = None
    fs.reset()
    assert calls == [4, 4]
    assert [tuple(item.node.meta["val"].shape) for made in kept for item in made.kept] == [(6, 50), (), ()]
