"""Functions of torch that would behave differently or not be captured at all, as plain Python over tensors.

Looked up by module and name: nothing of torch's implementation is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

BY_NAME: dict[tuple[str, str], Callable[..., Any]] = {}
"""(module, function name) -> equivalent."""


def _map(function: Callable[..., Any], first: Any, *rest: Any) -> Any:
    """Apply `function` to corresponding leaves of nested tuples, lists and dicts."""
    if isinstance(first, tuple):
        return tuple([_map(function, *parts) for parts in zip(first, *rest, strict=True)])
    if isinstance(first, list):
        return [_map(function, *parts) for parts in zip(first, *rest, strict=True)]
    if isinstance(first, dict):
        return {key: _map(function, first[key], *[other[key] for other in rest]) for key in first}
    return function(first, *rest)


def _length(tree: Any, dim: int) -> int:
    while not isinstance(tree, torch.Tensor):
        tree = next(iter(tree.values())) if isinstance(tree, dict) else tree[0]
    return tree.size(dim)


def associative_scan(combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False,
                     combine_mode: str = "pointwise") -> Any:
    """Inclusive scan of `xs` along `dim`."""
    positions = list(range(_length(xs, dim)))
    if reverse:
        positions.reverse()
    results: list[Any] = []
    carried: Any = None
    for position in positions:
        item = _map(lambda leaf, position=position: leaf.select(dim, position), xs)
        carried = item if not results else combine_fn(carried, item)
        results.append(carried)
    if reverse:
        results.reverse()
    return _map(lambda *leaves: torch.stack(leaves, dim), *results)


def optimizer_value(x: Any) -> Any:
    """The value of a step count or learning rate as torch.optim computes with it.

    Eager takes it out of the tensor and goes on in Python's double precision. Kept in the graph as a float64 tensor it
    gives the same numbers; torch's own answer while compiling, the float32 tensor itself, does not.
    """
    return x.double() if isinstance(x, torch.Tensor) else x


def tracing() -> bool:
    """Asked by attention layers: while tracing they leave out fused operators, which have no fake version."""
    return True


def _of_symmetric(symmetric: torch.Tensor, check: torch.Tensor) -> torch.Tensor:
    """A check of symmetric matrices, or where some are not, which of them are."""
    return torch.where(symmetric.all(), check, symmetric)


def is_symmetric(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    """Which matrices of a batch are symmetric: none, if they are not square."""
    if value.shape[-2] != value.shape[-1]:
        return torch.full(value.shape[:-2], False, dtype=torch.bool, device=value.device)
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def is_positive_definite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    """Which matrices of a batch are positive definite."""
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric(constraint, value)
    return _of_symmetric(is_symmetric(constraint, value), torch.linalg.cholesky_ex(value).info.eq(0))


def is_positive_semidefinite(constraint: Any, value: torch.Tensor) -> torch.Tensor:
    """Which matrices of a batch have no negative eigenvalue."""
    if value.shape[-2] != value.shape[-1]:
        return is_symmetric(constraint, value)
    return _of_symmetric(is_symmetric(constraint, value), torch.linalg.eigvalsh(value).ge(0).all(-1))


BY_NAME[("torch.distributions.constraints", "_Symmetric.check")] = is_symmetric
BY_NAME[("torch.distributions.constraints", "_PositiveDefinite.check")] = is_positive_definite
BY_NAME[("torch.distributions.constraints", "_PositiveSemidefinite.check")] = is_positive_semidefinite
BY_NAME[("torch.nn.modules.activation", "_is_make_fx_tracing")] = tracing
BY_NAME[("torch.optim.optimizer", "_get_value")] = optimizer_value
BY_NAME[("torch._higher_order_ops.associative_scan", "associative_scan")] = associative_scan
