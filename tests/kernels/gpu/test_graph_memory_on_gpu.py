"""What CUDA graphs share memory, where there is a GPU: forward and backward, and what cuBLAS works in."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import torch_compat
from firesteel.pipeline.cuda_graphs import GraphedFunction
from firesteel.pipeline.recording import Stack, record
from kernels.gpu.on_gpu import needs_gpu, rand, strict
from pipeline.test_recorded_training import LOOPS, gradients_between, reset

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


class Net(torch.nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(width, width) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = x + F.gelu(layer(x)).softmax(-1)
        return x


def compiled(program):
    return fs.compile(program, backend="native", mode="reduce-overhead", fullgraph=True)


def usual(run, model, x):
    reset(model)
    run(x).square().mean().backward()


def reserved():
    gc.collect()
    torch_compat.clear_cublas_workspaces()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def taken():
    """The memory that recordings have for themselves, and what tensors take besides. What the allocator has for others
    beside them depends on which of its blocks the GPU was still at work on, and so on what else it does."""
    reserved()
    return sum(segment["total_size"] if segment["segment_pool_id"] != (0, 0) else segment["allocated_size"]
               for segment in torch.cuda.memory_snapshot())


class Functions:
    """The functions that were made to be recorded."""

    def __init__(self):
        self.made, self.together = [], True

    def recordings(self):
        return sum(len(seen.recordings) for function in self.made for seen in function.sizes.values())

    def all_are_recorded(self):
        return all(any(seen.recordings for seen in function.sizes.values()) for function in self.made) and not any(
            seen.off for function in self.made for seen in function.sizes.values())

    def share(self):
        """Whether forward and backward do."""
        return len({id(function.stacks[0]) for function in self.made}) < len(self.made)


@pytest.fixture
def functions(monkeypatch):
    found = Functions()
    make, as_backward = GraphedFunction.__init__, GraphedFunction.as_backward

    def init(self, *args, **kwargs):
        make(self, *args, **kwargs)
        found.made.append(self)

    monkeypatch.setattr(GraphedFunction, "__init__", init)
    monkeypatch.setattr(GraphedFunction, "as_backward", lambda self, data, kept, shared: as_backward(
        self, data, kept, shared if found.together else None))
    yield found
    found.made.clear()
    fs.reset()


def train(step, functions, parts=1):
    """The memory that a loop takes in the end. Every step is compared with eager."""
    record(lambda t: [t @ t], [rand(8, 8)], torch.device("cuda", 0), Stack(), True)  # what all recordings share
    before = taken()
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Net() for _ in range(parts)]).cuda()
    eager = copy.deepcopy(model)
    if parts == 1:
        run = compiled(model)
    else:
        each = [compiled(part) for part in model]

        def run(x):
            for part in each:
                x = part(x)
            return x

    made = []
    for _ in range(14):
        x = rand(2048, 512)
        step(run, model, x)
        step(eager, eager, x)
        for p, q in zip(model.parameters(), eager.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5)
        made.append(functions.recordings())
    assert functions.made and functions.all_are_recorded() and made[-1] == made[-4]
    del x, p, q
    reset(model, eager)
    for net in (model, eager):
        net.found = net.pending = None
    return taken() - before


def both_ways(step, functions, **kwargs):
    """The memory of a loop, whether forward and backward share some, and the memory if they must not."""
    together = train(step, functions, **kwargs)
    shared = functions.share()
    functions.made.clear()
    fs.reset()
    functions.together = False
    apart = train(step, functions, **kwargs)
    assert not functions.share()
    print(step.__name__, together / 1e6, "MB", "shared" if shared else "not shared", "and else", apart / 1e6)
    return together, shared, apart


@pytest.mark.parametrize("step", [usual, *LOOPS], ids=lambda step: step.__name__)
def test_loops(step, functions):
    together, shared, apart = both_ways(step, functions)
    assert together <= apart + (4 << 20)
    assert LOOPS.get(step, True) in (None, shared)
    if step is usual:
        assert together < apart


@pytest.mark.parametrize("step", [usual, gradients_between], ids=lambda step: step.__name__)
def test_several_compiled_parts(step, functions):
    """Parts whose results are the next one's inputs do not have each other recorded again and again."""
    together, shared, apart = both_ways(step, functions, parts=5)
    assert together <= apart + (8 << 20) and shared == (step is usual)


def test_products_of_all_recordings_work_in_the_same_memory(functions):
    """Somebody may clear workspaces: what is allocated then must not be where products work."""
    def program(number):
        def run(x, w):
            for _ in range(4):
                y = torch.mm(x, w) + number  # a long sum, for which cuBLAS works in memory
                x = x + y.mean() * 1e-3
            return y

        return run

    x, w = rand(64, 65536), rand(65536, 64)
    programs = [program(number) for number in range(3)]
    runs, grown = [compiled(each) for each in programs], []
    wanted = [each(x, w) for each in programs]
    for run, want in zip(runs, wanted, strict=True):
        for _ in range(3):
            torch.testing.assert_close(run(x, w), want, rtol=1e-3, atol=1e-2)
        torch_compat.clear_cublas_workspaces()
        grown.append(reserved())
    print("grows by", grown[1] - grown[0], grown[2] - grown[1])
    assert functions.recordings() >= 3
    filled = [torch.full((size << 18,), 7.0, device="cuda") for size in (1, 2, 4, 8, 16, 32, 32, 64)]
    for _ in range(3):
        for run, want in zip(runs, wanted, strict=True):
            torch.testing.assert_close(run(x, w), want, rtol=1e-3, atol=1e-2)
    for each in filled:
        assert bool((each == 7).all())
    assert grown[2] - grown[1] < 60 << 20  # twice x, but no workspace


def test_a_recording_that_fails_keeps_no_memory():
    x, stack = rand(100), Stack()
    before = reserved()
    gpu = torch.device("cuda", 0)
    graph, [large] = record(lambda t: [torch.ones(1 << 24, device="cuda") * t.sum()], [x], gpu, stack)
    stack.recordings.append(graph)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            record(lambda t: [torch.ones(1 << 22, device="cuda"), t.sum().item()], [x], gpu, stack, True)
    graph.replay()
    torch.testing.assert_close(large[:3], x.sum().expand(3))
    assert reserved() >= before + (64 << 20)
    stack.recordings.clear()
    del graph, large
    assert reserved() <= before + (40 << 20)  # a workspace stays
