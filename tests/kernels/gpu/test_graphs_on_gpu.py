"""CUDA graphs and streams against eager, where there is a GPU."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.pipeline import recording
from kernels.gpu.on_gpu import needs_gpu, rand, strict

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


class Net(torch.nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(256, 256) for _ in range(5)])
        self.norm, self.dropout = torch.nn.BatchNorm1d(256), dropout

    def forward(self, x):
        for layer in self.layers:
            x = F.dropout(F.gelu(layer(x)), self.dropout, self.training)
        return self.norm(x)


def pair(**kwargs):
    """A compiled model, and the same for eager."""
    model = Net(**kwargs).cuda()
    return model, fs.compile(model, backend="native", mode="reduce-overhead", fullgraph=True), copy.deepcopy(model)


def recordings():
    gc.collect()
    return len(set(recording._memory.values()))


def same_gradients(model, eager):
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)


def same_state(model, eager):
    for p, q in zip(model.state_dict().values(), eager.state_dict().values(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_training_loops(to_none, accumulate):
    model, compiled, eager = pair()
    optimizers = [torch.optim.SGD(m.parameters(), 0.01) for m in (model, eager)]
    losses = []
    used = []
    for number in range(12):
        x, y = rand(64, 256), rand(64, 256)
        pairs = [F.mse_loss(compiled(x), y), F.mse_loss(eager(x), y)]
        for loss in pairs:
            (loss / accumulate).backward()
        losses.append([loss.detach().clone() for loss in pairs])  # a loss of eager has a large memory
        del loss, pairs
        same_gradients(model, eager)
        if number % accumulate == accumulate - 1:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=to_none)
        if number in (8, 11):
            used.append(torch.cuda.memory_allocated())
    for ours, theirs in losses:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    same_state(model, eager)
    assert 2 <= recordings() <= 3
    assert abs(used[1] - used[0]) < 1 << 16


def test_outputs_that_are_kept_and_evaluation_between_steps():
    model, compiled, eager = pair()
    kept = []
    for number in range(8):
        x = rand(64, 256)
        ours, theirs = compiled(x), eager(x)
        kept.append((ours.detach(), theirs.detach()))
        ours.square().mean().backward()
        theirs.square().mean().backward()
        same_gradients(model, eager)
        model.zero_grad()
        eager.zero_grad()
        if number % 2:
            model.eval(), eager.eval()
            with torch.no_grad():
                kept.append((compiled(x), eager(x)))
            model.train(), eager.train()
    for ours, theirs in kept:
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert recordings() >= 3


def test_two_calls_before_backward_and_two_models():
    model, compiled, eager = pair()
    other, other_compiled, other_eager = pair()
    for _ in range(7):
        x, y = rand(64, 256), rand(64, 256)
        for run, second in ((compiled, other_compiled), (eager, other_eager)):
            (run(x) * run(y) + second(y)).square().mean().backward()
        same_gradients(model, eager)
        same_gradients(other, other_eager)
        for each in (model, eager, other, other_eager):
            each.zero_grad()
    assert 6 <= recordings() <= 7  # two of each half for the first model, one of each for the second


def test_backward_that_fails_never_runs_or_runs_twice():
    model, compiled, eager = pair()
    for number in range(12):
        x = rand(64, 256)
        for run in (compiled, eager):
            loss = run(x).square().mean()
            if number % 4 == 1:
                continue
            if number % 4 == 2:
                with pytest.raises(ZeroDivisionError):
                    loss.register_hook(lambda gradient: 1 / 0)
                    loss.backward()
                continue
            loss.backward(retain_graph=number % 4 == 3)
            if number % 4 == 3:
                loss.backward()
        same_gradients(model, eager)
        model.zero_grad()
        eager.zero_grad()
    assert recordings() <= 5


def test_random_numbers_are_eagers():
    model, compiled, eager = pair(dropout=0.3)
    x = rand(64, 256)
    found = []
    for run, module in ((compiled, model), (eager, eager)):
        torch.manual_seed(3)
        results = []
        for number in range(8):
            if number == 5:
                torch.manual_seed(4)
            out = run(x)
            out.square().mean().backward()
            results.append((out.detach().clone(), module.layers[0].weight.grad.clone()))
            module.zero_grad()
        found.append((results, rand(3)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-4)
    assert recordings() >= 2


def test_inputs_that_move_and_sizes_that_change():
    net = Net().cuda().eval()
    compiled = fs.compile(net, backend="native", mode="reduce-overhead", dynamic=True)
    with torch.no_grad():
        for size in [3, 5, 3, 5, 7, 3, 5, 3, 7, 7, 7]:
            x = rand(size, 256)
            torch.testing.assert_close(compiled(x), net(x))
    assert recordings() == 3


def test_a_cache_that_is_changed_and_returned():
    net = Net().cuda().eval()

    def program(x, cache, at):
        new = net(x)
        cache.index_copy_(0, at, new)
        return cache, cache[:2], new

    compiled = fs.compile(program, backend="native", mode="reduce-overhead", fullgraph=True)
    caches = [torch.zeros(8, 256, device="cuda") for _ in range(2)]
    with torch.no_grad():
        for number in range(6):
            x, at = rand(1, 256), torch.tensor([number], device="cuda")
            found = compiled(x, caches[0], at)
            assert found[0] is caches[0] and found[1].data_ptr() == caches[0].data_ptr()
            torch.testing.assert_close(found, program(x, caches[1], at))
            del found
    assert recordings() == 1


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_streams(mode):
    """Kernels run on the current stream, and recordings that share memory never run at the same time."""
    net = Net().cuda().eval()
    compiled = fs.compile(net, backend="native", mode=mode)
    streams = [torch.cuda.Stream() for _ in range(3)]
    slow = rand(4096, 4096)
    inputs = [rand(64, 256) for _ in range(24)]
    torch.cuda.synchronize()
    found = []
    with torch.no_grad():
        want = [net(x * 2) for x in inputs]
        for number, x in enumerate(inputs):
            stream = streams[number % 3]
            with torch.cuda.stream(stream):
                for _ in range(3):
                    slow @ slow  # the input is ready late
                y = x * 2
                found.append(compiled(y).clone())
                y.zero_()  # after the kernels have read it
    torch.cuda.synchronize()
    torch.testing.assert_close(found, want)


def test_training_on_another_stream():
    model, compiled, eager = pair()
    stream = torch.cuda.Stream()
    slow = rand(4096, 4096)
    for number in range(8):
        x = rand(64, 256)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream if number % 3 else torch.cuda.current_stream()):
            slow @ slow
            compiled(x * 2).square().mean().backward()
        torch.cuda.current_stream().wait_stream(stream)
        eager(x * 2).square().mean().backward()
        same_gradients(model, eager)
        model.zero_grad()
        eager.zero_grad()
    same_state(model, eager)


def test_frozen_parameters_that_change():
    net = Net().cuda().eval()
    compiled = fs.compile(net, backend="native", options={"freeze": True, "cuda_graphs": True})
    with torch.no_grad():
        for number in range(9):
            x = rand(8, 256)
            torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-4)
            if number % 3 == 2:
                net.layers[1].weight.mul_(1.5)
                net.norm.running_mean.add_(1)


def test_a_failure_while_recording_leaves_no_trace():
    """What waits for the GPU cannot be recorded. Neither streams nor random numbers may notice that it was tried."""
    from firesteel.pipeline.recording import Stack, record

    x = rand(100)
    torch.manual_seed(1)
    want = rand(5)
    torch.manual_seed(1)
    stream = torch.cuda.current_stream()
    for fail in (lambda t: [t * 2, F.dropout(t, 0.5), t.sum().item()], lambda t: [1 / 0]):
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            record(fail, [x], torch.device("cuda", 0), Stack())
    assert torch.cuda.current_stream() == stream
    assert torch.equal(rand(5), want)
    graph, [double] = record(lambda t: [t * 2], [x], torch.device("cuda", 0), Stack())
    graph.replay()
    torch.testing.assert_close(double, x * 2)
    del graph


def test_memory_goes_back():
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    model, compiled, eager = pair()
    for _ in range(4):
        compiled(rand(512, 256)).square().mean().backward()
        model.zero_grad()
    assert recordings() >= 2
    del model, compiled, eager
    fs.reset()
    gc.collect()
    assert recordings() == 0
    assert torch.cuda.memory_allocated() - before < 40 << 20  # workspaces of libraries stay
