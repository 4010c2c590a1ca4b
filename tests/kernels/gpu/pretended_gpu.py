"""Programs compiled for a GPU on a machine that has none, and run there: kernels as Triton source by a stand-in.

    gpu = PretendedGpu()
    with gpu.here():
        compiled = fs.compile(program, backend=gpu)
        compiled(x).sum().backward()
    print(gpu.failures, gpu.refused, gpu.calls)

A graph is traced on the CPU, because autograd takes no tensors of a device that is not there; then all that the graph
says about devices is changed, and everything behind it goes the way to a GPU: passes, lowering, scheduling, printing,
and the program around the kernels. That program runs on the CPU: kernels by ``launch``, calls of ATen by ATen, on
memory that is filled with NaN before anything is written to it. What differs on a real GPU are the operators that
autograd meets there and not here, such as those of cuDNN, and random numbers.
"""

from __future__ import annotations

import functools
import subprocess
import tempfile
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from tests.kernels.gpu import stand_in_triton
from tests.kernels.gpu.races import Races
from tests.passes.gpu_graphs import GPU, on_gpu
from torch.overrides import TorchFunctionMode

import firesteel as fs
from firesteel import functional as autodiff
from firesteel.autodiff import joint
from firesteel.functional.graph import Unsupported
from firesteel.kernels import plan_cache, targets
from firesteel.kernels.gpu import devices, engine, workers
from firesteel.kernels.gpu.device import CudaTarget
from firesteel.kernels.gpu.triton_compiler import Request, compile_all
from firesteel.kernels.gpu.triton_printer import TritonKernel
from firesteel.kernels.gpu.versions import print_versions
from firesteel.kernels.host import printer
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.options import make_options
from firesteel.pipeline import compile as stages
from firesteel.pipeline import compiled_backward, training
from firesteel.torch_compat import cuda_random

ARCHITECTURE = 90
CPU = torch.device("cpu")
MOST_WATCHED = 20000
"""Elements of memory up to which a kernel is watched for races."""
PROPERTIES = types.SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, max_threads_per_multi_processor=2048,
    total_memory=140 << 30)

STACK = 64
"""Bytes that sines of large numbers need."""

Launch = Callable[[TritonKernel, int, Sequence[torch.Tensor], Sequence[Any]], None]
"""Runs a printed kernel: how many programs, its buffers, then sizes and numbers."""


class OnCpu(TorchFunctionMode):
    """What is said to be on a GPU is on the CPU; memory that nobody has written to is NaN, or 77."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if "device" in kwargs and kwargs["device"] is not None:
            kwargs["device"] = CPU if torch.device(kwargs["device"]).type == "cuda" else kwargs["device"]
        args = tuple([CPU if isinstance(arg, torch.device) and arg.type == "cuda" or isinstance(arg, str) and
                      arg.startswith("cuda") else arg for arg in args])
        made = func(*args, **kwargs)
        if func is torch.empty_strided:
            made.fill_(float("nan") if made.is_floating_point() or made.is_complex() else
                       made.dtype is torch.bool or 77)
        return made


def by_stand_in(kernel: TritonKernel, programs: int, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> None:
    """Run a kernel by the tests' stand-in for Triton, the last program first; look for races where that is quick."""
    few = sum(tensor.numel() for tensor in tensors) <= MOST_WATCHED
    stand_in_triton.run_programs(kernel, range(programs - 1, -1, -1), tensors, numbers, Races() if few else None)


@dataclass(frozen=True)
class _Kernel:
    """A kernel in the place of one that a GPU has loaded; its address is a number of ours."""

    name: str
    address: int
    programs: Any
    extent: Any = None
    key: str = ""


@dataclass
class PretendedGpu:
    """A backend for `fs.compile`. Without ``launch`` graphs are compiled for the GPU, and run as they were captured."""

    launch: Launch | None = by_stand_in
    machine_code: bool = False
    """Whether kernels go through Triton's compiler too."""
    failures: list[str] = field(default_factory=list)
    """Exceptions on the way, with their places."""
    refused: list[str] = field(default_factory=list)
    """Kernels that cannot be printed, or that Triton does not take."""
    calls: list[str] = field(default_factory=list)
    """Operators of ATen that are called, with reasons."""
    uncompiled: list[str] = field(default_factory=list)
    """Why graphs run operator by operator."""
    spilling: list[str] = field(default_factory=list)
    """Kernels that do not get by with registers."""
    graphs: int = 0
    draws: bool = False
    """Whether kernels draw random numbers: these are a GPU's, not the CPU's."""
    on_host: tuple[str, ...] = ()
    """The names of inputs that stay on the CPU."""
    options: dict[str, Any] = field(default_factory=dict)
    printed: list[TritonKernel] = field(default_factory=list)

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        from firesteel.backends import native

        self.graphs += 1
        options = make_options({"native_host": False, **self.options})
        with self.here():
            try:
                reason = native.unsupported_reason(example_inputs)
                if reason is not None:
                    raise autodiff.Unsupported(reason)
                if native.needs_gradients(example_inputs):
                    made: Any = native.compile_training(gm, example_inputs, options)
                    if self.launch is None and isinstance(made, training.TrainingUnit):
                        made.prepare_backward()
                else:
                    made = native.runner(stages.compile_graph(gm, example_inputs, options))
            except autodiff.Unsupported as error:
                self.uncompiled.append(error.reason.splitlines()[0])
                return gm.forward
            except Exception as error:
                if self.launch is not None:
                    raise
                self.failures.append(error_text(error))
                return gm.forward
        return gm.forward if self.launch is None else made

    @contextmanager
    def here(self) -> Iterator[None]:
        """All graphs that are compiled meanwhile, backward graphs too, are for this GPU."""
        compile_functional, executable = stages.compile_functional, stages._executable
        call = compiled_backward.CompiledBackward.__call__

        def compile_half(functional: Any, *args: Any, **kwargs: Any) -> Any:
            return compile_functional(on_gpu(functional, self.on_host), *args, **kwargs)

        def recorded(passed: Any, lowered: Any, plan: Any, *args: Any) -> Any:
            reasons = {fallback.operator: fallback.reason for fallback in lowered.fallbacks}
            for step in plan.steps:
                if isinstance(step, ExternCall) and isinstance(step.target, torch._ops.OpOverload):
                    self.calls.append(f"{step.target}: {reasons.get(str(step.target), 'by choice')}")
            return executable(passed, lowered, plan, *args)

        def reserve(increment: int, *, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
            self.draws = True
            return torch.tensor(7), torch.tensor(0)

        reserve.returns_several = True  # type: ignore[attr-defined]
        reserve.tags = cuda_random.reserve.tags  # type: ignore[attr-defined]

        def backward(unit: Any, *args: Any) -> Any:
            with OnCpu():
                return call(unit, *args)

        trace_training = joint.trace_training
        changes: list[tuple[Any, Mapping[str, Any]]] = [
            (targets, {"target_of": lambda graph: CudaTarget(GPU)}),
            (autodiff, {"trace": _moved(autodiff.trace, self.on_host)}),
            (joint, {"trace_training": _moved(trace_training)}),
            (training, {"trace_training": _moved(trace_training)}),
            (compiled_backward.CompiledBackward, {"__call__": backward}),
            (stages, {"compile_functional": compile_half, "_executable": recorded}),
            (plan_cache, {"plan_key": lambda *args: None}),
            (engine, {"check_available": lambda: None, "compile_for_gpu": self._compile}),
            (workers, {"start": lambda: None}),
            (devices, {"on_device": lambda run, device: _on_cpu(run)}),
            (printer, {"blocks_launcher": self._launcher}),
            (cuda_random, {"follows_rules": lambda device: True, "reserve": reserve}),
            (torch.cuda, {"get_device_properties": lambda *args: PROPERTIES,
                          "get_device_capability": lambda *args: (9, 0)}),
        ]
        if getattr(stages.compile_functional, "pretended", False):
            yield  # we are inside already
            return
        compile_half.pretended = True  # type: ignore[attr-defined]
        with ExitStack() as stack:
            for owner, names in changes:
                for name, value in names.items():
                    stack.enter_context(mock.patch.object(owner, name, value))
            yield

    def _compile(self, kernels: Sequence[Any], device: torch.device, even: Mapping[int, Any] | None = None,
                 blocks: Mapping[int, Any] | None = None) -> list[_Kernel]:
        """In the place of `engine.compile_for_gpu`."""
        reasons: dict[str, str] = {}
        origins: set[Any] = set()
        made: list[_Kernel] = []

        def refuse(kernel: Any, error: Exception) -> None:
            lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            text = lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"  # between them is the source
            reasons[kernel.name] = text
            origins.update(kernel.origins)
            operators = sorted({str(origin.target) for origin in kernel.origins})
            self.refused.append(f"{text} [{', '.join(operators)}]")

        for kernel in kernels:
            try:
                printed = print_versions(kernel, (even or {}).get(id(kernel), ()), (blocks or {}).get(id(kernel)))
            except Unsupported as error:
                refuse(kernel, error)
                continue
            if self.machine_code:
                error = self._machine_code(printed)
                if error is not None:
                    refuse(kernel, error)
                    continue
            self.printed.append(printed)
            made.append(_Kernel(printed.name, len(self.printed) - 1, printed.programs, printed.extent))
        if reasons:
            raise engine.Refused(reasons, origins)
        return made

    def _machine_code(self, printed: TritonKernel) -> Exception | None:
        for version in (printed, printed.wide):
            if version is not None:
                [made] = compile_all([Request(version, ARCHITECTURE)])
                if isinstance(made, Exception):
                    return made
                used = resources(made.code)
                if used.get("STACK", 0) > STACK or used.get("LOCAL", 0):
                    self.spilling.append(f"{printed.name}: {used['REG']} registers, {used['STACK']} bytes of stack")
        return None

    def _launcher(self, descriptor: int, buffers: int, sizes: int, numbers: int, told: bool = False) -> Any:
        """In the place of `host.launching.blocks_launcher`."""
        kernel = self.printed[descriptor]

        def launch(programs: int, *arguments: Any) -> None:
            assert self.launch is not None
            end = buffers + sizes + numbers
            with torch._C.DisableTorchFunction():
                self.launch(kernel, programs, arguments[:buffers], arguments[buffers:end])

        return launch


def _moved(trace: Callable[..., Any], on_host: Collection[str] = ()) -> Callable[..., Any]:
    @functools.wraps(trace)
    def moved(*args: Any, **kwargs: Any) -> Any:
        return on_gpu(trace(*args, **kwargs), on_host)

    return moved


def _on_cpu(run: Callable[..., Any]) -> Callable[..., Any]:
    def on_cpu(*inputs: Any) -> Any:
        with OnCpu(), torch.no_grad():
            return run(*inputs)

    return on_cpu


def error_text(error: BaseException) -> str:
    """An exception in one line: what it comes from, and where in our own files that was raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    places = traceback.extract_tb(error.__traceback__)
    ours = [f"{Path(at.filename).name}:{at.lineno}" for at in places if "firesteel" in at.filename
            or "stand_in" in at.filename or at.filename.startswith("<kernel")]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({' '.join(ours[-4:])})"


def resources(code: bytes) -> dict[str, int]:
    """Registers, stack, shared and local memory of machine code, as CUDA's tools tell; empty where there are none."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.exists():
        return {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=False).stdout
    words = [word.split(":") for line in text.splitlines() if "REG:" in line for word in line.split()]
    return {name: int(number) for name, number in words if number.isdigit()}


__all__ = ["OnCpu", "PretendedGpu", "by_stand_in", "error_text", "fs"]
