"""The whole road from a captured graph to something that runs on the CPU, stage by stage, each timed.

    trace      torch functions          -> functional ATen graph   (autodiff)
    passes     functional ATen graph    -> a better one            (passes)
    lower      functional ATen graph    -> computations            (kernels.lowering)
    schedule   computations             -> kernels, a plan         (kernels.scheduling)
    generate   kernels                  -> machine code            (kernels.cpu)
    host       plan and machine code    -> a function              (kernels.host)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch.fx

from .. import debug
from .debug_folder import DebugFolder
from .options import Options

if TYPE_CHECKING:
    from ..autodiff.graph import FunctionalGraph
    from ..passes import PassRun, Settings
    from .host.printer import HostFunction
    from .ir import Kernel
    from .lowering import LoweredGraph
    from .plan import KernelPlan


@dataclass
class Executable:
    """A compiled graph: the function, and what every stage made on the way to it."""

    run: Callable[..., Any]
    functional: FunctionalGraph
    lowered: LoweredGraph
    plan: KernelPlan
    host: HostFunction
    compiled: Sequence[Any]
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each stage took."""
    passes: Sequence[PassRun] = ()

    def __str__(self) -> str:
        times = ", ".join(f"{stage} {1000 * spent:.1f} ms" for stage, spent in self.seconds.items())
        passes = ", ".join(f"{run.name} {1000 * run.seconds:.1f} ms" for run in self.passes)
        return f"{times}\npasses: {passes}\n{self.host.source}"


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started


def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Executable:
    """Compile a torch-level graph. Raises `autodiff.Unsupported` for one that only eager can run."""
    from ..autodiff import trace
    from ..passes import run_passes
    from .cpu import compile_kernels
    from .cpu.engine import assembly, llvm_text
    from .host.printer import host_function
    from .host.results import with_results
    from .lowering import lower
    from .scheduling import schedule

    clock, folder = _Clock(), DebugFolder(type(gm).__name__)
    folder.write("captured.py", gm.code)
    with clock.stage("trace"):
        functional = trace(gm, example_inputs)
    folder.write("traced.txt", functional)
    with clock.stage("passes"):
        passed = run_passes(functional, _settings(gm, functional, options))
        functional = passed.functional
    folder.write("functional.txt", functional)
    with clock.stage("lower"):
        lowered = lower(functional.module)
    if folder:
        folder.write("lowered.txt", lowered)
    with clock.stage("schedule"):
        plan = with_results(schedule(lowered), functional)
    kernels = kernels_of(plan)
    if folder:
        folder.write("plan.txt", plan)
        folder.write("kernels.txt", "\n\n".join(map(str, kernels)))
    with clock.stage("generate"):
        compiled = compile_kernels(kernels)
    with clock.stage("host"):
        addresses = {id(kernel): made.address for kernel, made in zip(kernels, compiled, strict=True)}
        host = host_function(plan, addresses, options.native_host, (kernels, compiled))
    run = host.run if passed.kept is None else passed.kept.around(host.run)
    made = Executable(run, functional, lowered, plan, host, compiled, clock.seconds, passed.runs)
    if debug.enabled("kernels"):
        debug.log("kernels", "%s", made)
    if folder:
        folder.write("host.py", host.source)
        folder.write("kernels.ll", "\n\n".join(llvm_text(kernel, name=kernel.name) for kernel in kernels))
        folder.write("kernels.s", "\n\n".join(map(assembly, kernels)))
        folder.write("times.txt", "\n".join(f"{name}: {1000 * spent:.2f} ms" for name, spent in clock.seconds.items()))
    return made


def _settings(gm: torch.fx.GraphModule, functional: FunctionalGraph, options: Options) -> Settings:
    """What the passes may rely on."""
    from ..passes import Settings

    frozen: list[torch.fx.Node] = []
    if options.freeze:
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        frozen = [entry.node for node, entry in zip(placeholders, functional.inputs, strict=True)
                  if node.meta.get("module_state")]
    return Settings(options.relaxed_libraries, frozenset(frozen))


def load_stages() -> None:
    """Import all stages and make the host machine, so that the first compilation does not have to."""
    from ..autodiff import trace
    from ..runtime.native.objects import NativeUnavailable
    from .cpu import compile_kernels
    from .host import machine, printer, results
    from .lowering import is_lowered, lower
    from .scheduling import schedule

    is_lowered("")
    del trace, compile_kernels, printer, results, lower, schedule
    try:
        machine.machine()
    except NativeUnavailable:
        pass  # host programs are plain Python then


def kernels_of(plan: KernelPlan) -> list[Kernel]:
    """The kernels that a plan launches, each once, in the order of their first launch."""
    from .plan import Launch

    found: dict[int, Kernel] = {}
    for step in plan.steps:
        if isinstance(step, Launch):
            found.setdefault(id(step.kernel), step.kernel)
    return list(found.values())
