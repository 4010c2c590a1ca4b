"""From a functional graph to a plan for a shared object: results and changes of inputs are steps, nothing needs Python.

On a GPU, operators whose kernels cannot be made, or that would be a call of a Python function, are calls of ATen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.fx

from ..functional.graph import FreshTensor, FunctionalGraph, Input, Output
from ..functional.subprograms import Subprogram
from ..kernels.device_target import DeviceTarget
from ..kernels.ir import ExternCall
from ..kernels.options import Options
from ..kernels.plan import kernels_of
from ..kernels.shared_object.planned import NotPackageable, Planned
from ..kernels.targets import target_of
from .compile import compile_alternative

if TYPE_CHECKING:
    from ..kernels.tuning import Tuner
    from ..passes.freezing import Kept
    from ..passes.settings import Settings


def plan_graph(functional: FunctionalGraph, options: Options, weights: int) -> Planned:
    """The plan of a functional graph whose first inputs are weights."""
    from .graph_passes import run_passes

    if functional.state_changes:
        raise NotPackageable("it changes global state of torch")
    target = target_of(functional.graph)
    tuner = target.tuner(compile_alternative) if options.max_autotune else None
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


def _plan(functional: FunctionalGraph, options: Options, target: DeviceTarget, tuner: Tuner | None) -> Planned:
    """A plan with results and changes of inputs as steps of their own."""
    from .graph_passes import run_passes

    planned = _plan_kernels(functional, target, tuner)
    for step in planned.plan.steps:
        if isinstance(step, ExternCall) and isinstance(step.target, Subprogram):
            for body in step.target.bodies:
                settings = _settings(options, frozenset(), tuner, target)
                planned.bodies[id(body)] = _plan(run_passes(body.graph, settings).functional, options, target, tuner)
    return planned


def _plan_kernels(functional: FunctionalGraph, target: DeviceTarget, tuner: Tuner | None) -> Planned:
    """A plan with machine code: what the target has no kernels for, or would do in Python, is called by ATen."""
    from ..kernels.host.results import with_results
    from ..kernels.lowering import lower
    from ..kernels.scheduling import schedule

    without: set[Any] = set()
    while True:
        lowered = lower(functional.module, device=target.device, without=without)
        plan = with_results(schedule(lowered, target.machine), functional, in_place=False)
        planned = Planned(functional, plan, kernels_of(plan), target)
        refused = target.complete(planned, tuner, without)
        if not refused:
            return planned
        if refused <= without:
            raise NotPackageable("the kernels for the GPU cannot be made")
        without |= refused


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
