"""Backward hooks of modules, as hooks on the gradients of the one tensor that goes in and the one that comes out.

torch lets these tensors pass through a function of its own and hooks that function's node. Captured code has no nodes;
a hook on the gradient of the tensor behind that function is called with the same gradient, at the same time. Tensors
beside it that require no gradients, such as masks, go through the function, too: hooks see zeros or None for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...functional.applied_functions import pass_hooked
from .torch_functions import BY_NAME

Layout = tuple[torch.Size, torch.dtype, torch.device]


class IdentityNode:
    """Stands for the node of a function that returns its arguments, of which one requires gradients."""

    def __init__(self, tensor: torch.Tensor, before: list[Layout], behind: list[Layout]) -> None:
        self.tensor = tensor
        self.before = before
        self.behind = behind

    def register_hook(self, hook: Callable[..., Any]) -> None:
        """Let ``hook(gradients of arguments, gradients of results)`` see, and change, the gradient of the tensor."""
        before, behind = self.before, self.behind

        def on_gradient(gradient: torch.Tensor) -> torch.Tensor | None:
            changed = hook((*map(_zeros, before), gradient, *map(_zeros, behind)),
                           (*[None] * len(before), gradient, *[None] * len(behind)))
            return None if changed is None else changed[len(before)]

        self.tensor.register_hook(on_gradient)


def _zeros(layout: Layout) -> torch.Tensor:
    size, dtype, device = layout
    return torch.zeros(size, dtype=dtype, device=device)


def layouts_of(tensors: list[torch.Tensor]) -> list[Layout]:
    """What autograd makes zeros like, for tensors that have no gradient."""
    return [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]


def several_tensors() -> None:
    """Ends the graph: the gradients of several tensors come one after the other."""


def apply_on_tensors(hooks: Any, register: Callable[[Any], None], args: tuple[Any, ...]) -> tuple[Any, Any]:
    """The arguments with tensors that have hooks in the place of tensors, and where these are."""
    places = [place for place in range(len(args)) if isinstance(args[place], torch.Tensor)]
    if True not in [args[place].requires_grad for place in places] or not torch.is_grad_enabled():
        return args, None
    required = [place for place in places if args[place].requires_grad]
    if len(required) != 1 or type(args) is not tuple:
        several_tensors()
    (place,) = required
    others = [[args[other] for other in places if other < place], [args[other] for other in places if other > place]]
    hooked = pass_hooked(args[place])
    register(IdentityNode(hooked, layouts_of(others[0]), layouts_of(others[1])))
    # hooks on the gradient of the tensor itself come before those of its function
    tensor = pass_hooked(hooked)
    passed = list(args)
    for other in places:
        passed[other] = tensor if other == place else args[other].view_as(args[other])
    return tuple(passed), places


BY_NAME["torch.utils.hooks", "BackwardHook._apply_on_tensors"] = apply_on_tensors
