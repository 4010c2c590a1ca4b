"""Captured graphs run as they are, operator by operator, and put back what they have changed when they raise.

After an operator has raised, the program runs again as plain Python. What autograd counts is put back by the entry that
calls the graph. What it does not count (running statistics of batch norms, writes through ``.data``, by fused and
foreach optimizers) compiled graphs write when nothing can raise any more; here it has been written by then. What an
operator has done in part to a tensor that is too large to be kept stays, and the program does not run again, unless the
graph asserts something or the program may handle what is raised: then tensors of any size are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..autodiff.gradients import leaf_gradients
from ..logs import log
from ..pipeline.failing_graphs import MAX_KEPT_BYTES, PUT_BACK_ALWAYS, keep, mark_unrepeatable, put_back
from .checkpoint_regions import outline_regions

if TYPE_CHECKING:
    from torch.fx import GraphModule


def as_captured(gm: GraphModule) -> Callable[..., Any]:
    """The function that runs a captured graph."""
    # The bound method, not the module: calling the module would run through nn.Module's hook machinery every time.
    forward = outline_regions(gm).forward
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    always = [at for at, node in enumerate(placeholders) if node.meta.get(PUT_BACK_ALWAYS)]
    others = [at for at, node in enumerate(placeholders) if node.meta.get("put_back") and at not in always]
    half_done_for_good = any(node.meta.get("half_done_for_good") and not node.meta.get(PUT_BACK_ALWAYS)
                             for node in placeholders)
    if not always and not others and not half_done_for_good:
        return forward

    def run(*inputs: Any) -> Any:
        changing = [inputs[at] for at in (*always, *others)]
        too_large = sum(inputs[at].numel() * inputs[at].element_size() for at in others) > MAX_KEPT_BYTES
        with torch.no_grad():
            kept = None if too_large or half_done_for_good else keep(*changing)
        try:
            return forward(*inputs)
        except Exception as error:
            if torch_compat.stops_recomputation(error):
                raise  # what has been done by then is done twice, as in eager
            if kept is None:
                mark_unrepeatable(error)
            else:
                put_back(kept, *changing)
            raise

    return run


def unless_packed(gm: GraphModule, compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What runs in place of a graph that has no backward of its own: ``compiled``, or where the graph computes
    gradients inside and hooks may change what is saved for those, the graph as captured."""
    if not any(node.target is leaf_gradients or node.target is torch.autograd.grad for node in gm.graph.nodes):
        return compiled
    captured: Callable[..., Any] | None = None

    def run(*inputs: Any) -> Any:
        nonlocal captured
        packing = torch_compat.packing_hooks(False)
        if packing is None or not torch_compat.may_change_values(packing):
            return compiled(*inputs)
        log("fallbacks", "%s runs operator by operator: hooks may change what it saves for gradients inside",
            type(gm).__name__)
        if captured is None:  # to write the code of a large graph takes as long as a stage of compiling it
            captured = as_captured(gm)
        return captured(*inputs)

    return run
