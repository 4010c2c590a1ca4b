"""``map``: a function of every slice of tensors along their first dimension."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import pytrees as pytree
from . import operators
from .checks import check_callable, flatten, refuse, run_function
from .tracing import FlatFunction, handler_of_thread


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``stack([f(x, *args) for x in xs])``, for each tensor of the result.

    Args:
        f: a function of one slice of ``xs``; it returns a pytree of new tensors.
        xs: a pytree of tensors with first dimensions of one size, at least 1.

    >>> map(lambda x, y: x * y, torch.arange(3), torch.tensor([1, 2]))
    tensor([[0, 0],
            [1, 2],
            [2, 4]])
    """
    check_callable("map", f=f)
    leaves, spec = flatten("map", "xs", xs)
    count = length("map", leaves)
    if handler_of_thread() is not None:
        more = pytree.tree_leaves(args)
        flat = FlatFunction(lambda x, rest: f(x, *rest), pytree.tree_structure((xs, args)))
        return flat.unflatten(operators.map(flat, leaves, more))
    rows = []
    shape: Any = None
    for position in range(count):
        x = pytree.tree_unflatten([leaf.select(0, position) for leaf in leaves], spec)
        row, structure = flatten("map", "the result of f", run_function("map", "f", f, (x, *args)))
        if shape is not None and structure != shape:
            raise refuse("map: f returns containers of different structure")
        shape = structure
        rows.append(row)
    return pytree.tree_unflatten([torch.stack(parts) for parts in zip(*rows, strict=True)], shape)


def length(operator: str, leaves: list[torch.Tensor], dim: int = 0) -> int:
    """The common size of tensors along a dimension, at least 1."""
    if not leaves:
        raise refuse(f"{operator}: xs holds no tensor")
    if any(leaf.dim() <= dim for leaf in leaves):
        raise refuse(f"{operator}: a tensor of xs has no dimension {dim}")
    sizes = [leaf.shape[dim] for leaf in leaves]  # symbols, perhaps, while a program is traced
    if any(size != sizes[0] for size in sizes[1:]) or sizes[0] == 0:
        raise refuse(f"{operator}: the tensors of xs have the sizes {sizes} in dimension {dim}",
                     "they need the same size, at least 1")
    return sizes[0]
