"""``associative_scan``: all prefixes of a sequence under an associative function.

Functions that work on each element by itself ("pointwise") are applied to whole halves of the sequence, in a number of
steps that grows with the logarithm of its length. Others ("generic") see one pair of slices after the other, and so do
those in exported programs whose sequences have no fixed length, for their number of steps is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import pytrees as pytree
from .checks import check_callable, flatten, refuse
from .mapping import length
from .scanning import from_dim, scan, to_dim
from .tracing import handler_of_thread


def associative_scan(combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """The results ``x0, f(x0, x1), f(f(x0, x1), x2), ...`` of an associative function along a dimension.

    Args:
        combine_fn: a function of two slices, or pytrees of slices, that returns one more of them.
        xs: a pytree of tensors with the same size, at least 1, in dimension ``dim``.
        reverse: begin with the last slice.
        combine_mode: "pointwise" for a function that treats each element by itself, otherwise "generic".

    >>> associative_scan(lambda a, b: a * b, torch.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  2,  6, 24])
    """
    check_callable("associative_scan", combine_fn=combine_fn)
    if combine_mode not in ("pointwise", "generic"):
        raise refuse(f"associative_scan: combine_mode is {combine_mode!r}", "choose 'pointwise' or 'generic'")
    leaves, spec = flatten("associative_scan", "xs", xs)
    if not leaves:
        raise refuse("associative_scan: xs holds no tensor")
    dim = dim % max(leaves[0].dim(), 1)
    length("associative_scan", leaves, dim)
    leaves = [from_dim(leaf, dim, reverse) for leaf in leaves]
    open_ended = handler_of_thread() is not None and isinstance(leaves[0].shape[0], torch.SymInt)
    run = by_halves if combine_mode == "pointwise" and not open_ended else one_by_one
    results = run(_flat(combine_fn, spec), leaves)
    return pytree.tree_unflatten([to_dim(leaf, dim, reverse) for leaf in results], spec)


def _flat(combine_fn: Callable[[Any, Any], Any], spec: Any) -> Callable[[list[Any], list[Any]], list[Any]]:
    def combine(left: list[Any], right: list[Any]) -> list[Any]:
        result = combine_fn(pytree.tree_unflatten(left, spec), pytree.tree_unflatten(right, spec))
        leaves_out, structure = pytree.tree_flatten(result)
        if structure != spec:
            raise refuse("associative_scan: combine_fn returns another structure than xs has")
        return leaves_out

    return combine


def by_halves(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    """All prefixes, with a function that takes any number of slices at once."""
    count = xs[0].shape[0]
    if count < 2:
        return [x.clone() for x in xs]
    pairs = combine([x[:-1:2] for x in xs], [x[1::2] for x in xs])
    odd = by_halves(combine, pairs)
    last = [x[:-1] for x in odd] if count % 2 == 0 else odd
    even = combine(last, [x[2::2] for x in xs]) if count > 2 else []
    even = [torch.cat([x[:1], part]) for x, part in zip(xs, even, strict=True)] if even else [x[:1] for x in xs]
    return [_interleave(a, b) for a, b in zip(even, odd, strict=True)]


def _interleave(even: torch.Tensor, odd: torch.Tensor) -> torch.Tensor:
    count = odd.shape[0]
    both = torch.stack([even[:count], odd], 1).flatten(0, 1)
    return torch.cat([both, even[count:]]) if even.shape[0] > count else both


def one_by_one(combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    """All prefixes, with a function of two slices."""
    if xs[0].shape[0] == 1:
        return [x.clone() for x in xs]

    def step(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        results = combine(carry, x)
        return results, [part.clone() for part in results]

    _, rest = scan(step, [x[0] for x in xs], [x[1:] for x in xs])
    return [torch.cat([x[:1], part]) for x, part in zip(xs, rest, strict=True)]
