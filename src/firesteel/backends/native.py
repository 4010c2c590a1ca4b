"""The backend that compiles: a captured graph becomes fused kernels in machine code and a small program around them.

What it cannot take runs as it was captured, operator by operator, and FIRESTEEL_LOGS=fallbacks says why.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firesteel import config, support
from firesteel.backends.aot_eager import needs_gradients
from firesteel.backends.registry import register_backend
from firesteel.events import OBSERVERS, note, span
from firesteel.logs import log

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from firesteel.functional import FunctionalGraph
    from firesteel.kernels.options import Options
    from firesteel.pipeline.compile import Executable


@register_backend
def native(gm: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
           mode: str | None = None) -> Callable[..., Any]:
    """Compile a graph to machine code for the device it is on. See `firesteel.kernels.options` for the options."""
    from firesteel.kernels.options import make_options

    return compile_or_run_eagerly(gm, example_inputs, make_options(options, mode))


def compile_or_run_eagerly(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """What runs in place of a graph: compiled code, or the graph itself where it cannot be compiled."""
    if options.background:
        from firesteel.pipeline.background import can_be_compiled_later

        if can_be_compiled_later(example_inputs):
            return compile_meanwhile(gm, example_inputs, options)
    if needs_gradients(example_inputs):
        from firesteel.backends.stages import compile_in_stages

        stages = compile_in_stages(gm, example_inputs, functools.partial(_compile_part, options=options))
        if stages is not None:
            return stages
    return _compile_or_run_eagerly(gm, example_inputs, options)


def _compile_part(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """Compile one of the graphs that a captured one is taken apart into."""
    with span("part", "graph", gm):
        return _compile_or_run_eagerly(gm, example_inputs, options)


def _compile_or_run_eagerly(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """Compile a graph in one piece; one that cannot be compiled runs operator by operator."""
    from firesteel.backends.as_captured import as_captured, unless_packed
    from firesteel.backends.profiler_regions import with_regions
    from firesteel.functional import SpentResults, Unsupported, is_refusal
    from firesteel.pipeline.compile import compile_graph
    from firesteel.repro_scripts import graph_script

    try:
        reason = unsupported_reason(example_inputs)
        if reason is not None:
            raise Unsupported(reason)
        if needs_gradients(example_inputs):
            return with_regions(gm, compile_training(gm, example_inputs, options))
        return with_regions(gm, unless_packed(gm, runner(compile_graph(gm, example_inputs, options))))
    except Exception as error:
        if isinstance(error, SpentResults):
            from firesteel.backends.spent_results import compile_detached

            return compile_detached(
                gm, example_inputs, error, functools.partial(_compile_or_run_eagerly, options=options),
                lambda traced: with_regions(gm, _compile_forward(gm, traced, options)))
        if isinstance(error, Unsupported) or is_refusal(error):
            log("fallbacks", "%s runs operator by operator: %s", type(gm).__name__, error)
            note("operator by operator", graph=gm, reason=str(error))
            return as_captured(gm)
        script = graph_script(gm, example_inputs, error, options)
        if config.raise_on_internal_error:
            raise
        warn_of_failure(f"the graph {type(gm).__name__}", error, script)
        note("operator by operator", graph=gm, reason=f"firesteel failed: {type(error).__name__}: {error}")
        return as_captured(gm)


def warn_of_failure(what: str, error: Exception, script: str | None) -> None:
    """Say that something is not compiled because of a fault in firesteel; ``script`` fails in the same way."""
    from firesteel.errors import failure_report, how_to_report, warn

    warn(failure_report(f"firesteel failed to compile {what}; it runs operator by operator.", [], error,
                        how_to_report(script), config.verbose))


def compile_meanwhile(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """The graph itself, until another thread has compiled it."""
    from dataclasses import replace

    from firesteel.backends.as_captured import as_captured
    from firesteel.pipeline.background import CompiledLater

    def make() -> Callable[..., Any]:
        with span("in the background", "graph", gm):
            compiled = compile_or_run_eagerly(gm, example_inputs, replace(options, background=False))
            if hasattr(compiled, "prepare_backward"):
                compiled.prepare_backward()
        return compiled

    return CompiledLater(type(gm).__name__, as_captured(gm), make)


def compile_training(gm: GraphModule, example_inputs: Sequence[Any], options: Options) -> Callable[..., Any]:
    """Forward and backward of a graph, compiled. Only forward where no result needs gradients."""
    from firesteel.autodiff.joint import trace_training
    from firesteel.backends.aot_eager import interpreted_half
    from firesteel.backends.as_captured import as_captured
    from firesteel.functional import FunctionalGraph, Unsupported
    from firesteel.kernels.debug_folder import DebugFolder
    from firesteel.pipeline.compile import compile_functional, expect_kernels
    from firesteel.pipeline.joint_passes import run_joint_passes
    from firesteel.pipeline.training import TrainingUnit
    from firesteel.repro_scripts import graph_script
    from firesteel.torch_compat.graph_modules import code_of

    expect_kernels(gm, example_inputs)
    with span("differentiate"):
        traced = trace_training(gm, example_inputs)
    if isinstance(traced, FunctionalGraph):
        return _compile_forward(gm, traced, options)
    folder = DebugFolder(f"{type(gm).__name__}_joint")
    if folder:
        folder.write("captured.py", code_of(gm))
        folder.write("joint.txt", traced)
    if OBSERVERS:
        note("joint graph", joint=traced)

    def compile_half(half: FunctionalGraph, name: str, takes_list: bool) -> Callable[..., Any]:
        try:
            return compile_functional(half, options, name, takes_list=takes_list, results_as_planned=True).run
        except Exception as error:
            # When backward is compiled, forward has already run, and its graph is all there is to run instead.
            refused = isinstance(error, Unsupported)
            script = None if refused or not takes_list else graph_script(gm, example_inputs, error, options)
            if not takes_list or config.raise_on_internal_error:
                raise
            if refused:
                log("fallbacks", "%s runs operator by operator: %s", name, error)
            else:
                warn_of_failure(f"the graph {name}", error, script)
            return interpreted_half(half, takes_list)

    prepare = functools.partial(run_joint_passes, recorded=options.cuda_graphs)
    return TrainingUnit(gm, example_inputs, traced, compile_half, options.memory_budget, prepare, machine_code=True,
                        as_captured=as_captured)


def _compile_forward(gm: GraphModule, traced: FunctionalGraph, options: Options) -> Callable[..., Any]:
    """A graph compiled that has no backward, though its inputs may require grad."""
    from firesteel.backends.as_captured import unless_packed
    from firesteel.pipeline.compile import compile_functional, frozen_inputs

    executable = compile_functional(traced, options, type(gm).__name__, frozen_inputs(gm, traced, options))
    return unless_packed(gm, runner(executable))


def unsupported_reason(example_inputs: Sequence[Any]) -> str | None:
    """Why inputs of this kind are left to eager PyTorch; None if they are not."""
    import torch

    from firesteel.devices import KINDS

    if not support.verdict().machine_code:
        return "there is no machine code on this platform"
    for position, example in enumerate(example_inputs):
        if isinstance(example, torch.Tensor):
            if example.layout is not torch.strided:
                return f"input {position} has the layout {example.layout}"
            if example.device.type not in KINDS:
                return f"input {position} is on the device {example.device}"
            if example.is_neg() or example.is_conj():
                return f"input {position} is negated or conjugated lazily"
    return None


def runner(executable: Executable) -> Callable[..., Any]:
    """The function of a compiled graph, under the global state of torch that its calls of ATen need."""
    import torch

    from firesteel import torch_compat
    from firesteel.functional.running import views_to_correct, with_counts

    run, functional = executable.run, executable.functional
    tensors = [entry.example for entry in functional.inputs if isinstance(entry.example, torch.Tensor)]
    calls = not executable.host.native
    without_grad = calls and torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    # Casts that autocast makes are part of the graph, so its operators must not be cast again.
    without_autocast = calls and torch_compat.any_autocast_enabled()
    changes = functional.state_changes
    usual = torch_compat.usual_creation(torch.is_grad_enabled() and not without_grad)
    if (views := views_to_correct(functional, usual)) or functional.detached:
        run = _with_views(run, functional, views)
    run = with_counts(run, functional.mutated)
    if not functional.returns_tuple:
        run = _only(run)
    if not (without_grad or without_autocast or changes):
        return run

    def guarded(*inputs: Any) -> Any:
        grad = torch.is_grad_enabled() and not without_grad
        with torch.set_grad_enabled(grad), torch_compat.autocast_disabled():
            results = run(*inputs)
        for change in changes:
            change.function(*change.args)
        return results

    return guarded


def _with_views(run: Callable[..., Any], functional: FunctionalGraph,
                views: list[tuple[int, Any]]) -> Callable[..., Any]:
    """For a graph with results that autograd takes for views otherwise than in the usual way."""
    from firesteel.functional.running import corrected

    return lambda *inputs: corrected(run(*inputs), functional, views)


def _only(run: Callable[..., Any]) -> Callable[..., Any]:
    """For a graph whose result is not a tuple."""
    return lambda *inputs: run(*inputs)[0]


def torch_backend(gm: GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
                  mode: str | None = None) -> Callable[..., Any]:
    """The backend under torch's own front end: ``torch.compile(f, backend="firesteel")``."""
    if support.usable_backend("native") != "native":
        return gm.forward
    from firesteel.backends.under_torch import compile_for_torch
    from firesteel.kernels.options import make_options

    return compile_for_torch(gm, example_inputs, make_options(options, mode))
