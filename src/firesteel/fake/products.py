"""Products of tensors of three dimensions and more, by operators that take symbolic sizes.

In some releases of torch, C++ takes `matmul` apart and asks for plain sizes while doing so. There the same result,
with the same layout, comes from views and one product of matrices or of batches of matrices.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat import own_functions


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The product as torch makes it, or where that needs plain sizes, from parts."""
    from .mode import wants_plain_sizes

    try:
        return own_functions.matmul(left, right)
    except Exception as error:
        if not wants_plain_sizes(error) or max(left.dim(), right.dim()) < 3 or not min(left.dim(), right.dim()):
            raise
    return matmul_by_parts(left, right)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """The layer as torch makes it, or where that needs plain sizes, from parts."""
    from .mode import wants_plain_sizes

    try:
        return own_functions.linear(x, weight, bias)
    except Exception as error:
        if not wants_plain_sizes(error) or x.dim() < 3 or weight.dim() != 2:
            raise
    product = matmul_by_parts(x, weight.t())
    return product if bias is None else product + bias


def matmul_by_parts(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The product of tensors of which one has at least three dimensions.

    >>> matmul_by_parts(torch.ones(2, 1, 4, 3), torch.ones(5, 3, 6)).shape
    torch.Size([2, 5, 4, 6])
    """
    if right.dim() <= 2:  # all rows of the left side in one matrix
        rows = left.reshape(_product(left.shape[:-1]), left.size(-1))
        product = torch.mv(rows, right) if right.dim() == 1 else torch.mm(rows, right)
        return product.view((*left.shape[:-1], *right.shape[1:]))
    vector = left.dim() == 1
    if vector:
        left = left.unsqueeze(0)
    batch = _broadcast(left.shape[:-2], right.shape[:-2])
    count = _product(batch)
    matrices = [t.expand((*batch, *t.shape[-2:])).reshape((count, *t.shape[-2:])) for t in (left, right)]
    product = torch.bmm(*matrices)
    return product.view((*batch, right.size(-1)) if vector else (*batch, left.size(-2), right.size(-1)))


def _product(sizes: Any) -> Any:
    total: Any = 1
    for size in sizes:
        total = total * size
    return total


def _broadcast(first: Any, second: Any) -> list[Any]:
    long, short = (first, second) if len(first) >= len(second) else (second, first)
    found = list(long[: len(long) - len(short)])
    for x, y in zip(long[len(found) :], short, strict=True):
        if x == 1:
            found.append(y)
        elif y == 1 or x == y:
            found.append(x)
        else:
            raise RuntimeError(f"batches of {list(first)} and {list(second)} matrices have no product")
    return found
