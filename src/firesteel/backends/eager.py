"""The backend that compiles nothing: a captured graph runs operator by operator, as eager PyTorch would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from firesteel.backends.as_captured import as_captured
from firesteel.backends.registry import register_backend

if TYPE_CHECKING:
    from torch.fx import GraphModule


@register_backend
def eager(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Run the graph as it is. Shows what capture does and costs, without a compiler behind it."""
    return as_captured(gm)
