"""The whole way from a captured graph to something that runs, stage by stage, each timed.

    trace      torch functions          -> functional ATen graph   (functional)
    passes     functional ATen graph    -> a better one            (passes)
    lower      functional ATen graph    -> computations            (kernels.lowering)
    schedule   computations             -> kernels, a plan         (kernels.scheduling)
    generate   kernels                  -> machine code            (kernels.cpu, kernels.gpu)
    host       plan and machine code    -> a function              (kernels.host)

A graph that an earlier process compiled takes a short cut from its passes to the host (recall, see `plan_cache`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import config, logs
from ..devices import KINDS, has_accelerators, kind_of
from ..events import OBSERVERS, note, span
from ..interruptions import safe_point
from ..kernels.debug_folder import DebugFolder
from ..kernels.options import Options
from ..kernels.plan import kernels_of, launches_of
from ..records import dataclass
from .verifying import verify

if TYPE_CHECKING:
    from ..functional.graph import FunctionalGraph
    from ..kernels.device_target import DeviceTarget, Generated
    from ..kernels.host.printer import HostFunction
    from ..kernels.ir import Kernel
    from ..kernels.lowering import LoweredGraph
    from ..kernels.plan import KernelPlan
    from ..kernels.tuning import Tuner
    from .graph_passes import PassedGraph, PassRun


OPERATORS_OF_MODULES = 4


@dataclass
class Executable:
    """A compiled graph: the function, and what every stage made on the way to it."""

    run: Callable[..., Any]
    functional: FunctionalGraph
    lowered: LoweredGraph | None
    """None for a graph whose plan an earlier process had made."""
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
        safe_point()
        started = time.perf_counter()
        with span(name):
            yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], options: Options) -> Executable:
    """Compile a torch-level graph. Raises `functional.Unsupported` for one that only eager can run."""
    from ..functional import trace
    from ..torch_compat.graph_modules import code_of

    clock, folder = _Clock(), DebugFolder(type(gm).__name__)
    if folder:
        folder.write("captured.py", code_of(gm))
    expect_kernels(gm, example_inputs)
    with clock.stage("trace"):
        functional = trace(gm, example_inputs)
    return _compile(functional, options, frozen_inputs(gm, functional, options), clock, folder)


def expect_kernels(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Before a captured graph is traced: start what will compile it, if all of that has to be done."""
    _expect((example for example in example_inputs if isinstance(example, torch.Tensor)), lambda: len(gm.graph.nodes))


def expect_model(model: torch.nn.Module) -> None:
    """Before a model is captured: start what will compile it; most modules are several operators."""
    _expect(model.parameters(), lambda: OPERATORS_OF_MODULES * sum(1 for _ in model.modules()))


def _expect(tensors: Iterable[torch.Tensor], operators: Callable[[], int]) -> None:
    """Tell the target that is not the CPU, if some tensors are on one, how many operators will come."""
    device = next((tensor.device for tensor in tensors if not kind_of(tensor).is_host), None) \
        if has_accelerators() else None
    if device is not None and device.type in KINDS:
        from ..kernels.targets import target_for

        target_for(device).expect(operators())


def compile_functional(functional: FunctionalGraph, options: Options, name: str,
                       frozen: frozenset[torch.fx.Node] = frozenset(), takes_list: bool = False,
                       results_as_planned: bool = False) -> Executable:
    """Compile a functional graph; ``name`` is that of its debug folder, ``frozen`` the inputs that seldom change.

    With ``takes_list`` the function takes its inputs in one list, which it empties to free them early;
    ``results_as_planned``: kernels of other graphs read its results, which must lie as this graph says.
    """
    return _compile(functional, options, frozen, _Clock(), DebugFolder(name), takes_list, results_as_planned)


def compile_alternative(functional: FunctionalGraph) -> Callable[..., Any]:
    """One of several ways to compute something, as a program that can be measured."""
    return compile_functional(functional, Options(), "alternative").run


def _compile(functional: FunctionalGraph, options: Options, frozen: frozenset[torch.fx.Node], clock: _Clock,
             folder: DebugFolder, takes_list: bool = False, results_as_planned: bool = False) -> Executable:
    from ..kernels.plan_cache import plan_key, recalled_plan, store_plan
    from ..kernels.targets import target_of
    from ..passes.settings import Settings
    from .graph_passes import run_passes

    verify(functional, "tracing")
    target = target_of(functional.graph)
    target.check_available()
    tuner: Tuner | None = None
    if options.max_autotune and not _checked(target):  # what is measured is not what checked kernels take
        tuner = target.tuner(compile_alternative)
    folder.write("traced.txt", functional)
    if OBSERVERS:
        note("functional graph", functional=functional, name=folder.name)
    with clock.stage("passes"):
        passed = run_passes(functional, Settings(options.relaxed_libraries, frozen, tuner, target.device,
                                                 options.cuda_graphs))
        functional = passed.functional
    folder.write("functional.txt", functional)
    logs.detail("graphs", "%s\n%s", folder.name, functional)
    compile_bodies(functional, options)
    recorded = options.cuda_graphs and not takes_list and not target.kind.is_host
    with ExitStack() as claimed:
        key = stored = None
        if tuner is None and not folder:
            with clock.stage("recall"):
                key = plan_key(functional, target, recorded)
                # It may wait until another process has made the plan, or keep others waiting until the end of this.
                stored = claimed.enter_context(recalled_plan(key, functional, target))
        if stored is not None:
            plan, kernels, compiled = stored
            return _executable(passed, None, plan, kernels, compiled, options, clock, takes_list, results_as_planned,
                               folder.name, target)
        target.expect(len(functional.graph.nodes))
        lowered, plan, kernels, generated, refused = _kernels(functional, target, tuner, clock, folder, recorded)
        executable = _executable(passed, lowered, plan, kernels, generated.kernels, options, clock, takes_list,
                                 results_as_planned, folder.name, target)
        if key is not None and not refused:
            store_plan(key, plan, kernels, generated.kernels, functional)
    _tell(executable, kernels, generated, folder, target, clock)
    return executable


def _tell(executable: Executable, kernels: Sequence[Kernel], generated: Generated, folder: DebugFolder,
          target: DeviceTarget, clock: _Clock) -> None:
    """Show what was made to those who want to see it: observers, logs, the debug folder."""
    if OBSERVERS:
        note("executable", executable=executable, kernels=kernels, generated=generated, name=folder.name, target=target)
    if logs.enabled("kernels"):
        logs.log("kernels", "%s", executable)
    logs.log("code", "%s\n%s", folder.name, executable.host.source)
    if logs.detailed("code"):
        for name, text in generated.files().items():
            logs.detail("code", "%s: %s\n%s", folder.name, name, text)
    if folder:
        folder.write("host.py", executable.host.source)
        for name, text in generated.files().items():
            folder.write(name, text)
        folder.write("times.txt", "\n".join(f"{name}: {1000 * spent:.2f} ms" for name, spent in clock.seconds.items()))


def _kernels(functional: FunctionalGraph, target: DeviceTarget, tuner: Tuner | None, clock: _Clock,
             folder: DebugFolder, recorded: bool) -> tuple[LoweredGraph, KernelPlan, list[Kernel], Generated, bool]:
    """A graph as a plan and kernels. What a kernel cannot do is done by several, and what these cannot do by calls of
    ATen. At the end, whether it was the device that refused some, which next time may have room for them."""
    from ..functional import Unsupported
    from ..functional.size_nodes import hints_of
    from ..kernels.device_target import Refused
    from ..kernels.host.results import with_results
    from ..kernels.lowering import lower
    from ..kernels.scheduling import schedule

    # Operators of kernels that could not be made: fused with nothing, then not even computed in others, then called.
    unfused: set[Any] = set()
    apart: set[Any] = set()
    without: set[Any] = set()
    hints = hints_of(functional)
    refused_by_device = False
    while True:
        with clock.stage("lower"):
            lowered = lower(functional.module, device=target.device, without=without, apart=apart, recorded=recorded)
        verify(lowered, "lowering")
        if folder:
            folder.write("lowered.txt", lowered)
        with clock.stage("schedule"):
            plan = with_results(schedule(lowered, target.machine, unfused, hints), functional)
        verify(plan, "scheduling")
        kernels = kernels_of(plan)
        if folder:
            from ..kernels.drawing import draw_plan

            folder.write("plan.txt", plan)
            folder.write("groups.svg", draw_plan(plan).to_svg())
            folder.write("kernels.txt", "\n\n".join(map(str, kernels)))
        try:
            with clock.stage("generate"):
                return lowered, plan, kernels, target.generate(plan, kernels, hints, tuner), refused_by_device
        except Refused as refused:
            if refused.origins <= without:
                raise Unsupported(str(refused)) from None
            without |= refused.origins & apart
            apart |= refused.origins & unfused
            unfused |= refused.origins
            refused_by_device |= refused.by_device


def _checked(target: DeviceTarget) -> bool:
    """Whether every access of kernels is checked."""
    return config.check_bounds and target.kind.is_host


def _executable(passed: PassedGraph, lowered: LoweredGraph | None, plan: KernelPlan, kernels: Sequence[Kernel],
                compiled: Sequence[Any], options: Options, clock: _Clock, takes_list: bool,
                results_as_planned: bool, name: str, target: DeviceTarget) -> Executable:
    from ..kernels.host.printer import host_function

    if config.perf_map:
        _name_for_perf(plan, kernels, compiled)
    with clock.stage("host"):
        addresses = {id(kernel): code if hasattr(code, "programs") else code.address
                     for kernel, code in zip(kernels, compiled, strict=True)}
        host = host_function(plan, addresses, options.native_host, (kernels, compiled), takes_list, _checked(target),
                             results_as_planned)
    run = target.around(host.run)
    if options.cuda_graphs and not target.kind.is_host:
        from .cuda_graphs import graphed

        def part_of(part: KernelPlan) -> Callable[..., tuple[Any, ...]]:
            host = host_function(part, addresses, options.native_host, (kernels, compiled), results_as_planned=True)
            return target.around(host.run)

        run = graphed(run, passed.functional, target.device, name, takes_list, plan, part_of)
    if passed.kept is not None:
        run = passed.kept.around(run)
    return Executable(run, passed.functional, lowered, plan, host, compiled, clock.seconds, passed.runs)


def _name_for_perf(plan: KernelPlan, kernels: Sequence[Kernel], compiled: Sequence[Any]) -> None:
    from ..kernels.titles import title
    from ..native import perf_map

    launches = launches_of(plan)
    for kernel, code in zip(kernels, compiled, strict=True):
        if hasattr(code, "functions"):
            perf_map.note(code.functions, title(launches[id(kernel)].origins))


def compile_bodies(functional: FunctionalGraph, options: Options) -> None:
    """Compile the graphs that control flow operators own; each is a program of its own, called by the operator."""
    for node in functional.graph.nodes:
        if node.op == "call_function" and hasattr(node.target, "with_bodies"):
            node.target = node.target.with_bodies(
                lambda body, name: compile_functional(body, options, name).run)


def frozen_inputs(gm: torch.fx.GraphModule, functional: FunctionalGraph,
                  options: Options) -> frozenset[torch.fx.Node]:
    """The inputs of a captured graph that are parameters and buffers, where the options say that they seldom change."""
    if not options.freeze:
        return frozenset()
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return frozenset(entry.node for node, entry in zip(placeholders, functional.inputs, strict=True)
                     if node.meta.get("module_state"))


def load_stages() -> None:
    """Import the stages and make the host machine, so that the first compilation does not have to."""
    from ..functional import trace
    from ..kernels.cpu.engine import compile_kernels
    from ..kernels.host import machine, printer, results
    from ..kernels.host.freed_memory import keep_freed_memory
    from ..kernels.lowering import lower
    from ..kernels.lowering.registry import LOWERINGS
    from ..kernels.scheduling import schedule
    from ..native.objects import NativeUnavailable

    keep_freed_memory()
    LOWERINGS.load_first()
    del trace, compile_kernels, printer, results, lower, schedule
    try:
        machine.machine()
    except NativeUnavailable:
        pass  # host programs are plain Python then
