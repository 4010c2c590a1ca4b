"""Backward hooks of modules, as hooks on the gradients of the one tensor that goes in and the one that comes out.

torch lets these tensors pass through a function of its own and hooks that function's node. Captured code has no nodes;
a hook on the gradient of the tensor behind that function is called with the same gradient, at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...functional.applied_functions import pass_hooked
from .torch_functions import BY_NAME


class IdentityNode:
    """Stands for the node of a function that returns its argument."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def register_hook(self, hook: Callable[..., Any]) -> None:
        """Let ``hook(gradients of arguments, gradients of results)`` see, and change, the gradient of the tensor."""
        def on_gradient(gradient: torch.Tensor) -> torch.Tensor | None:
            changed = hook((gradient,), (gradient,))
            return None if changed is None else changed[0]

        self.tensor.register_hook(on_gradient)


def several_tensors() -> None:
    """Ends the graph: the gradients of several tensors come one after the other."""


def apply_on_tensors(hooks: Any, register: Callable[[Any], None], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The arguments with tensors that have hooks in the place of tensors, and where these are."""
    places = [place for place in range(len(args)) if isinstance(args[place], torch.Tensor)]
    if True not in [args[place].requires_grad for place in places] or not torch.is_grad_enabled():
        return args, None
    if len(places) != 1 or type(args) is not tuple:
        several_tensors()
    place = places[0]
    hooked = pass_hooked(args[place])
    register(IdentityNode(hooked))
    # hooks on the gradient of the tensor itself come before those of its function
    tensor = pass_hooked(hooked)
    return (*args[:place], tensor, *args[place + 1:]), places


BY_NAME["torch.utils.hooks", "BackwardHook._apply_on_tensors"] = apply_on_tensors
