"""From a functional graph to a plan for a shared object: results and changes of inputs are steps, nothing needs Python.

On a GPU, operators whose kernels cannot be made, or that would be a call of a Python function, are calls of ATen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch.fx

from .. import torch_compat
from ..functional.graph import FreshTensor, FunctionalGraph, Input, Output
from ..functional.subprograms import Subprogram
from ..kernels.ir import ExternCall, Kernel
from ..kernels.options import Options
from ..kernels.plan import KernelPlan, kernels_of
from ..kernels.shared_object import own_calls
from ..kernels.shared_object.planned import NotPackageable, Planned
from ..kernels.targets import DeviceTarget, target_of
from .compile import compile_alternative

if TYPE_CHECKING:
    from ..kernels.gpu.triton_compiler import Binary, Request
    from ..kernels.tuning import Tuner
    from ..passes.freezing import Kept
    from ..passes.settings import Settings


def plan_graph(functional: FunctionalGraph, options: Options, weights: int) -> Planned:
    """The plan of a functional graph whose first inputs are weights."""
    from .graph_passes import run_passes

    if functional.state_changes:
        raise NotPackageable("it changes global state of torch")
    target = target_of(functional.graph)
    tuner = _tuner(target) if options.max_autotune else None
    nodes = [entry.node for entry in functional.inputs[:weights]] if options.freeze else []
    passed = run_passes(functional, _settings(options, frozenset(nodes), tuner, target))
    planned = _plan(passed.functional, options, target, tuner)
    if passed.kept is not None:
        planned.kept = _plan(_kept_graph(passed.functional, passed.kept), options, target, tuner)
    return planned


def _settings(options: Options, frozen: frozenset[torch.fx.Node], tuner: Tuner | None,
              target: DeviceTarget) -> Settings:
    from ..passes.settings import Settings

    # As where launches are recorded, there is no Python beside them that reads the state of random generators.
    return Settings(options.relaxed_libraries, frozen, tuner, target.device, recorded=True)


def _tuner(target: DeviceTarget) -> Tuner:
    if target.machine.in_blocks:
        from ..kernels.gpu.measuring import GpuTuner

        return GpuTuner(device=target.device, compile=compile_alternative)
    from ..kernels.tuning import Tuner

    return Tuner(compile=compile_alternative)


def _plan(functional: FunctionalGraph, options: Options, target: DeviceTarget, tuner: Tuner | None) -> Planned:
    """A plan with results and changes of inputs as steps of their own."""
    from .graph_passes import run_passes

    planned = _plan_for_gpu(functional, target) if target.machine.in_blocks \
        else _plan_for_cpu(functional, target, tuner)
    for step in planned.plan.steps:
        if isinstance(step, ExternCall) and isinstance(step.target, Subprogram):
            for body in step.target.bodies:
                settings = _settings(options, frozenset(), tuner, target)
                planned.bodies[id(body)] = _plan(run_passes(body.graph, settings).functional, options, target, tuner)
    return planned


def _plan_for_cpu(functional: FunctionalGraph, target: DeviceTarget, tuner: Tuner | None) -> Planned:
    from ..kernels.host.results import with_results
    from ..kernels.lowering import lower
    from ..kernels.scheduling import schedule

    plan = with_results(schedule(lower(functional.module)), functional, in_place=False)
    planned = Planned(functional, plan, kernels_of(plan), target)
    if tuner is not None:
        from ..kernels.tuning import hints_of, tuned_targets

        planned.tuned = tuned_targets(plan, planned.kernels, hints_of(functional), tuner)
    return planned


def _plan_for_gpu(functional: FunctionalGraph, target: DeviceTarget) -> Planned:
    """The same, until all kernels can be made and all calls are those of operators."""
    from ..kernels.gpu.driver import architecture
    from ..kernels.host.results import with_results
    from ..kernels.lowering import lower
    from ..kernels.scheduling import schedule

    without: set[Any] = set()
    while True:
        lowered = lower(functional.module, device=target.device, without=without)
        plan = with_results(schedule(lowered, target.machine), functional, in_place=False)
        kernels = kernels_of(plan)
        refused = _python_calls(plan)
        found: list[tuple[tuple[Request, Binary], tuple[Request, Binary] | None]] = []
        if not refused - without:
            found, refused = _compile(kernels, architecture(target.device))
        if not refused:
            return Planned(functional, plan, kernels, target, binaries=[usual for usual, _ in found],
                           wide=[other for _, other in found])
        if refused <= without:
            raise NotPackageable("the kernels for the GPU cannot be made")
        without |= refused


def _python_calls(plan: KernelPlan) -> set[torch.fx.Node]:
    """What is done by functions that exist in Python only."""
    found: set[torch.fx.Node] = set()
    for step in plan.steps:
        if isinstance(step, ExternCall) and not isinstance(step.target, Subprogram | torch_compat.OpOverload) \
                and step.target not in own_calls.CALLS:
            found.update(step.origins)
    return found


def _compile(kernels: Sequence[Kernel], arch: int) \
        -> tuple[list[tuple[tuple[Request, Binary], tuple[Request, Binary] | None]], set[torch.fx.Node]]:
    """The machine code of kernels, with that for indices of 64 bits where sizes decide; or the nodes of the graph whose
    kernels there are none of."""
    from .. import logs
    from ..functional.graph import Unsupported
    from ..kernels.gpu.triton_compiler import Request, compile_all
    from ..kernels.gpu.versions import print_versions

    versions: list[list[Request]] = []
    refused: set[torch.fx.Node] = set()

    def refuse(kernel: Kernel, reason: Exception) -> None:
        logs.log("fallbacks", "kernel %s is not made for the GPU: %s", kernel.name, reason)
        refused.update(kernel.origins)

    for kernel in kernels:
        try:
            printed = print_versions(kernel)
        except Unsupported as error:
            refuse(kernel, error)
        else:
            usual = Request(replace(printed, wide=None), arch)
            versions.append([usual] if printed.wide is None else [usual, Request(printed.wide, arch)])
    if refused:
        return [], refused
    answers = iter(compile_all([request for requests in versions for request in requests]))
    made = []
    for kernel, requests in zip(kernels, versions, strict=True):
        pairs: list[tuple[Request, Binary]] = []
        for request, binary in zip(requests, answers, strict=False):
            if isinstance(binary, Exception):
                refuse(kernel, binary)
            else:
                pairs.append((request, binary))
        if len(pairs) == len(requests):
            made.append((pairs[0], pairs[1] if len(pairs) > 1 else None))
    return made, refused


def _kept_graph(functional: FunctionalGraph, kept: Kept) -> FunctionalGraph:
    """The graph that computes what is kept."""
    inputs = []
    for node, position in zip(kept.sources, kept.positions, strict=True):
        node.meta["val"] = functional.inputs[position].example
        inputs.append(Input(node.name, node, functional.inputs[position].example))
    graph = kept.sources[0].graph
    graph.output(tuple(kept.results))
    outputs: list[Output] = [FreshTensor(node, None, number) for number, node in enumerate(kept.results)]
    return FunctionalGraph(graph, inputs, outputs, constants=kept.constants)
