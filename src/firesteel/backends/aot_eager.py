"""The backend between `eager` and `native`: graphs are made functional, differentiated and parted, then run by ATen.

When a program is right with ``backend="eager"`` and wrong with this one, the fault is in these stages; when it is right
with both and wrong with ``"native"``, it is in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from firesteel.backends.registry import register_backend
from firesteel.logs import log

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from firesteel.functional import FunctionalGraph


@register_backend
def aot_eager(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Run forward and backward of a graph as functional ATen graphs, operator by operator."""
    if needs_gradients(example_inputs):
        from firesteel.backends.stages import compile_in_stages

        stages = compile_in_stages(gm, example_inputs, _compile)
        if stages is not None:
            return stages
    return _compile(gm, example_inputs)


def _compile(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    from firesteel.autodiff.joint import trace_training
    from firesteel.backends.as_captured import as_captured, unless_packed
    from firesteel.functional import FunctionalGraph, SpentResults, Unsupported, is_refusal, trace
    from firesteel.pipeline.training import TrainingUnit

    try:
        traced = trace_training(gm, example_inputs) if needs_gradients(example_inputs) else trace(gm, example_inputs)
        if isinstance(traced, FunctionalGraph):
            return unless_packed(gm, _interpreter(traced))
        return TrainingUnit(gm, example_inputs, traced, lambda half, _, takes_list: interpreted_half(half, takes_list),
                            as_captured=as_captured)
    except Exception as error:
        if isinstance(error, SpentResults):
            from firesteel.backends.spent_results import compile_detached

            return compile_detached(gm, example_inputs, error, _compile,
                                    lambda traced: unless_packed(gm, _interpreter(traced)))
        if not isinstance(error, Unsupported) and not is_refusal(error):
            raise
        log("fallbacks", "%s runs as it was captured: %s", type(gm).__name__, error)
        return as_captured(gm)


def needs_gradients(example_inputs: Sequence[Any]) -> bool:
    """Whether autograd could have something to do with a graph."""
    import torch

    return torch.is_grad_enabled() and any(
        isinstance(example, torch.Tensor) and example.requires_grad for example in example_inputs)


def interpreted_half(half: FunctionalGraph, takes_list: bool) -> Callable[..., Any]:
    """Forward or backward, operator by operator."""
    run = _interpreter(half)
    return (lambda inputs: run(*inputs)) if takes_list else run


def _interpreter(functional: FunctionalGraph) -> Callable[..., Any]:
    from firesteel.functional.early_assertions import assert_early
    from firesteel.functional.running import change_state, compute
    from firesteel.pipeline.training import without_autocast

    assert_early(functional)

    def run(*inputs: Any) -> Any:
        results = without_autocast(lambda *given: compute(functional, given), inputs)
        change_state(functional)
        return results

    return run
