"""``scan``: a function that carries a state along tensors and returns something for each slice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import pytrees as pytree
from .checks import check_callable, check_carry, flatten, in_layout_of, refuse, run_function
from .looping import begin
from .mapping import length
from .tracing import FlatFunction, handler_of_thread


def scan(combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0,
         reverse: bool = False) -> tuple[Any, Any]:
    """Carry a state along ``xs``: ``carry, y = combine_fn(carry, x)`` for every slice ``x``.

    Args:
        combine_fn: returns the next carry, of the same structure, shapes and dtypes, and a pytree of new tensors.
        init: the first carry, a pytree of tensors.
        xs: a pytree of tensors with the same size, at least 1, in dimension ``dim``.
        reverse: begin with the last slice.

    Returns:
        The last carry, and the ``y`` stacked along ``dim``.

    >>> scan(lambda total, x: (total + x, total * x), torch.tensor(0), torch.arange(5))
    (tensor(10), tensor([ 0,  0,  2,  9, 24]))
    """
    check_callable("scan", combine_fn=combine_fn)
    carried, carry_spec = flatten("scan", "init", init)
    leaves, spec = flatten("scan", "xs", xs)
    if not carried:
        raise refuse("scan: init holds no tensor")
    if not leaves:
        return init, []
    dim = dim % max(leaves[0].dim(), 1)
    length("scan", leaves, dim)
    leaves = [from_dim(leaf, dim, reverse) for leaf in leaves]
    if handler_of_thread() is not None:
        from . import operators

        flat = FlatFunction(combine_fn, pytree.tree_structure((init, xs)))
        results = list(operators.scan(flat, carried, leaves))
        last = results[:len(carried)]
        carry, y = flat.unflatten([*last, *[to_dim(part, dim, reverse) for part in results[len(carried):]]])
        return carry, y
    first = carried = [begin(leaf) for leaf in carried]
    rows = []
    y_spec: Any = None
    for position in range(leaves[0].shape[0]):
        x = pytree.tree_unflatten([leaf.select(0, position) for leaf in leaves], spec)
        result = run_function("scan", "combine_fn", combine_fn, (pytree.tree_unflatten(carried, carry_spec), x))
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise refuse("scan: combine_fn does not return a pair", "return the next carry and the result of this step")
        new, structure = flatten("scan", "the carry of combine_fn", result[0])
        if structure != carry_spec:
            raise refuse("scan: combine_fn returns a carry of another structure than init has")
        check_carry("scan", "combine_fn", first, new)
        row, y_spec = flatten("scan", "the result of combine_fn", result[1])
        rows.append(row)
        carried = [in_layout_of(old, value) for old, value in zip(first, new, strict=True)]
    ys = [to_dim(torch.stack(parts), dim, reverse) for parts in zip(*rows, strict=True)]
    return pytree.tree_unflatten(carried, carry_spec), pytree.tree_unflatten(ys, y_spec)


def from_dim(x: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    """A tensor whose slices along the first dimension are those that a scan sees, in order."""
    if dim:
        x = torch.movedim(x, dim, 0)
    return torch.flip(x, [0]) if reverse else x


def to_dim(y: torch.Tensor, dim: int, reverse: bool) -> torch.Tensor:
    """The opposite; results with too few dimensions stay stacked along the first."""
    if reverse:
        y = torch.flip(y, [0])
    return torch.movedim(y, 0, dim) if 0 < dim < y.dim() else y
