"""A call moved to the GPU, for programs that are right on the CPU."""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat import pytrees


def on_gpu(function: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    """A function with its modules, and arguments, on the GPU."""
    def moved(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return leaf.cuda()
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().cuda().requires_grad_(leaf.requires_grad)
        return leaf

    return pytrees.tree_map(moved, function), pytrees.tree_map(moved, args), pytrees.tree_map(moved, kwargs)
