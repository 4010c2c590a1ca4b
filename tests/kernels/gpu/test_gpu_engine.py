"""Compiling for a GPU on a machine without one: what becomes kernels when some are refused, and plans on disk."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import firesteel as fs
from firesteel import config, disk_cache, shapes
from firesteel.functional import Unsupported, trace
from firesteel.kernels import lowering, plan_cache, targets
from firesteel.kernels.gpu import engine, workers
from firesteel.kernels.gpu.device import CudaTarget
from firesteel.kernels.gpu.driver import GpuKernel
from firesteel.kernels.gpu.triton_compiler import Request
from firesteel.kernels.gpu.triton_printer import TritonKernel, called
from firesteel.kernels.gpu.versions import print_versions
from firesteel.kernels.ir import ExternCall, Kernel
from firesteel.kernels.options import Options
from firesteel.kernels.plan import Launch
from firesteel.kernels.titles import function_name
from firesteel.pipeline import compile as stages
from passes.gpu_graphs import GPU, on_gpu


def program(x):
    y = torch.softmax(x * 2, -1)
    return torch.sin(y) + 1, y.sum(0)


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The kernels of each attempt to compile; ``refuse`` says why one is not made."""
    attempts = []

    def compiled(kernels, device, even=None, blocks=None):
        attempts.append(list(kernels))
        refused = [kernel for kernel in kernels if compiled.refuse(kernel)]
        if refused:
            origins = {origin for kernel in refused for origin in kernel.origins}
            raise engine.Refused({kernel.name: "as asked" for kernel in refused}, origins, compiled.by_device)
        printed = [print_versions(kernel) for kernel in kernels]
        return [GpuKernel(one.name, 64, one.programs, f"{number:040x}") for number, one in enumerate(printed)]

    compiled.refuse, compiled.by_device, compiled.attempts = lambda kernel: False, False, attempts
    monkeypatch.setattr(targets, "target_of", lambda graph: CudaTarget(GPU))
    monkeypatch.setattr(engine, "check_available", lambda: None)
    monkeypatch.setattr(engine, "compile_for_gpu", compiled)
    monkeypatch.setattr(engine, "machine_text", lambda device: "a GPU")
    monkeypatch.setattr(engine, "load_for_gpu", lambda keys, programs, device: [
        GpuKernel("again", 64, count, key, extent) for key, (count, extent) in zip(keys, programs, strict=True)])
    monkeypatch.setattr(workers, "start", lambda: None)
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        yield compiled


def compile_program(native_host=True):
    functional = on_gpu(trace(torch.fx.symbolic_trace(program), [torch.randn(64, 96)]))
    return stages.compile_functional(functional, Options(native_host=native_host), "program")


def calls(executable):
    return [str(step.target) for step in executable.plan.steps if isinstance(step, ExternCall)]


def test_a_second_process_finds_the_plan(made, monkeypatch):
    first = compile_program()
    assert first.lowered is not None and not calls(first) and disk_cache.info().kinds[plan_cache.KIND][0] == 1
    monkeypatch.setattr(lowering, "lower", None)
    again = compile_program()
    assert again.lowered is None and len(made.attempts) == 1
    assert [kernel.programs for kernel in again.compiled] == [kernel.programs for kernel in first.compiled]
    assert [type(step) for step in again.plan.steps] == [type(step) for step in first.plan.steps]


def test_a_kernel_that_cannot_be_made_is_made_as_several(made):
    made.refuse = lambda kernel: len({str(origin.target) for origin in kernel.origins}) > 1
    found = compile_program()
    assert len(made.attempts) == 3 and len(made.attempts[2]) > len(made.attempts[1]) > len(made.attempts[0])
    assert not calls(found)


def test_what_that_does_not_help_is_called(made):
    made.refuse = lambda kernel: any("softmax" in str(origin.target) for origin in kernel.origins)
    found = compile_program()
    assert any("softmax" in call for call in calls(found))
    assert any(isinstance(step, Launch) for step in found.plan.steps)
    assert not any("sin" in call for call in calls(found))


def test_what_a_device_refused_is_tried_again_next_time(made):
    made.refuse = lambda kernel: any("softmax" in str(origin.target) for origin in kernel.origins)
    made.by_device = True
    compile_program()
    assert plan_cache.KIND not in disk_cache.info().kinds
    made.refuse = lambda kernel: False
    assert not calls(compile_program())


def test_nothing_can_be_made(made):
    made.refuse = lambda kernel: True
    try:
        found = compile_program()
    except Unsupported:
        return
    assert not any(isinstance(step, Launch) for step in found.plan.steps)


def test_models_tell_early_what_they_will_need(monkeypatch):
    expected = []
    monkeypatch.setattr(workers, "expect", expected.append)
    small, large = torch.nn.Linear(2, 2), torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(40)])
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    fs.compile(large)
    assert not expected  # it is on the CPU
    monkeypatch.setattr(torch.nn.Parameter, "device", torch.device("cuda"), raising=False)
    fs.compile(small), fs.compile(large), fs.compile(large, backend="eager")
    assert [count >= workers.LEAST_NODES for count in expected] == [False, True]


def test_kernels_are_called_after_their_operators():
    kernel = Kernel("k3", [], [], [], origins=("aten.sin.default", "aten._softmax.default", "prims.foo-bar.default"))
    assert function_name(kernel) == "k3_sin_softmax_foo_bar"
    wide = TritonKernel("k3", "@triton.jit\ndef k3(in0):\n    k3 = 1\n", shapes.const(1), ("*fp32",), 4)
    plain = replace(wide, wide=wide)
    other = called(plain, "k3_sin")
    assert "def k3_sin(in0):\n    k3 = 1" in other.source and other.wide.source == other.source
    assert Request(other, 90).key == Request(plain, 90).key  # names make no other code
