"""Numbers on the CPU in functions whose launches are recorded: read from memory, and counted on beside the replays."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.kernels.host.launching import numbers_on_device, put_numbers
from firesteel.pipeline import parted_graph, trials
from firesteel.pipeline.cuda_graphs import GraphedFunction
from kernels.gpu.pretended_gpu import OnCpu, PretendedGpu
from pipeline.test_cuda_graphs import record_on_cpu


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that is not there, on which functions are recorded: a replay runs them again into the same memory."""
    fs.reset()
    monkeypatch.setattr(fs.config, "compile_after", 0)
    parts = record_on_cpu(monkeypatch)

    def record(run, given, device, stack, products):
        results = run(*[value.clone() for value in given])
        parts.append(run)

        class Graph:
            def replay(self):
                for result, new in zip(results, run(*given), strict=True):
                    if result.data_ptr() != new.data_ptr():
                        result.copy_(new)

        return Graph(), list(results)

    monkeypatch.setattr(parted_graph, "record", record)
    def memory(buffer, make=parted_graph._memory):
        with OnCpu():
            return make(buffer)

    monkeypatch.setattr(parted_graph, "_memory", memory)
    monkeypatch.setattr(parted_graph, "follow_stream", lambda device: None)
    monkeypatch.setattr(GraphedFunction, "_wait", lambda function: None)
    monkeypatch.setattr(trials.Trial, "is_over", lambda trial: True)
    monkeypatch.setattr(trials.Trial, "is_slower", lambda trial: False)
    gpu = PretendedGpu(options={"cuda_graphs": True})
    gpu.parts = parts
    return gpu


def decode(x, w, keys, length, scale):
    """A step of a model with a cache that it fills, whose length is counted on the CPU."""
    y = torch.tanh(x @ w) * scale
    at = torch.arange(1, device=x.device) + length
    length.add_(1)
    keys.index_copy_(0, at, y)
    seen = torch.arange(8, device=x.device) < length
    scores = torch.where(seen, (keys @ y.t())[:, 0], -torch.inf)
    return torch.softmax(scores, 0) @ keys @ w, length * 2


def test_counters_on_the_cpu_are_counted_beside_replays(gpu, capsys):
    gpu.on_host = ("length", "scale")
    w = torch.randn(4, 4)
    states = [(torch.zeros(8, 4), torch.tensor(0)) for _ in range(2)]
    fs.set_logs("fallbacks")
    try:
        with gpu.here(), torch.no_grad():
            compiled = fs.compile(decode, backend=gpu)
            for number in range(8):
                x, scale = torch.randn(1, 4), torch.tensor(1.0 + number, dtype=torch.float64)
                found = [run(x, w, *state, scale) for run, state in zip((compiled, decode), states, strict=True)]
                torch.testing.assert_close(found[0], found[1])
                torch.testing.assert_close(*states)
                del found
    finally:
        fs.set_logs("")
    assert len(gpu.parts) == 1, "recorded once, and all of the device's work in one part"
    said = capsys.readouterr().err
    assert "left out of its CUDA graphs: put_numbers is on the device cpu" in said or "numbers_on_device" in said
    assert states[0][1].item() == 8


def test_numbers_that_are_copied_to_the_gpu(gpu, capsys):
    """Nothing waits for the copy: kernels are given the number."""
    gpu.on_host = ("length", "flag")

    def program(x, length, flag):
        moved = torch.ops.aten._to_copy.default(length, device=x.device)
        chosen = torch.ops.aten._to_copy.default(flag, device=x.device, dtype=torch.float32)
        rows = torch.arange(6, device=x.device) < moved
        return torch.tanh(x @ x) @ x * chosen + rows, moved

    for options in ({"cuda_graphs": True}, {}):
        gpu.options, gpu.calls = options, []
        fs.reset()
        with gpu.here(), torch.no_grad():
            compiled = fs.compile(program, backend=gpu)
            for number in range(5):
                given = torch.randn(6, 6), torch.tensor(number), torch.tensor(number % 2 == 0)
                torch.testing.assert_close(compiled(*given), program(*given))
        assert not [call for call in gpu.calls if "_to_copy" in call]


def test_numbers_lie_side_by_side():
    numbers = [torch.tensor(3), torch.tensor(True), torch.tensor(5, dtype=torch.int16)]
    memory = numbers_on_device(torch.device("cpu"), torch.float64, *numbers)
    assert memory.tolist() == [3, 1, 5]
    numbers[0].fill_(9)
    put_numbers(memory, numbers)
    assert memory.tolist() == [9, 1, 5]


def test_numbers_of_short_floats_are_rounded_as_numbers_are(gpu):
    """A number on the CPU beside short floats on a GPU is not rounded to theirs before it is computed with."""
    gpu.on_host = ("scale", "limit")

    def program(x, scale, limit):
        return torch.clamp(x.half().float() @ x * scale, max=limit), torch.tanh(x) @ x, x.bfloat16() * scale

    with gpu.here(), torch.no_grad():
        compiled = fs.compile(program, backend=gpu)
        for number in range(4):
            x = torch.randn(6, 6)
            scale, limit = torch.tensor(1.001 + number, dtype=torch.float64), torch.tensor(2.0)
            # What eager computes on a GPU: the product in single precision, with the number as it is.
            want = (x.bfloat16().float() * scale.float()).bfloat16()
            got = compiled(x, scale, limit)
            torch.testing.assert_close(got[0], program(x, scale, limit)[0])
            assert torch.equal(got[2], want)
            del got
    assert any("*fp64" in kernel.types for kernel in gpu.printed)
