"""Products of tensors of three dimensions and more, by operators that take symbolic sizes.

In some releases of torch, C++ takes `matmul` apart and asks for plain sizes while doing so. There the same result,
with the same layout, comes from views and one product of matrices or of batches of matrices.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat import own_functions
from ..torch_compat.tensors import is_functorch_tensor
from .dims import product


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
    if bias is not None and adds_in_place(x, bias):
        return _product_of_layer(x, weight).add_(bias)
    try:
        return own_functions.linear(x, weight, bias)
    except Exception as error:
        if not _has_parts(x, weight, error):
            raise
    result = matmul_by_parts(x, weight.t())
    return result if bias is None else result + bias


def adds_in_place(x: torch.Tensor, bias: torch.Tensor) -> bool:
    """Whether eager's linear layer writes the bias into the product. C++ adds it into a new tensor where it sees that
    tensors are not plain ones: that has the larger of both dtypes and shapes, and where it is empty other strides.

    >>> x = torch.ones(2, 5, 3)
    >>> adds_in_place(x, torch.ones(4)), adds_in_place(x, torch.ones(1).expand(4)), adds_in_place(x.mT, torch.ones(4))
    (False, True, True)
    """
    if x.dim() == 2 or is_functorch_tensor(bias):
        return False
    return not (bias.dim() == 1 and bias.is_contiguous() and x.is_contiguous())


def _product_of_layer(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    try:
        return own_functions.linear(x, weight)
    except Exception as error:
        if not _has_parts(x, weight, error):
            raise
    return matmul_by_parts(x, weight.t())


def _has_parts(x: torch.Tensor, weight: torch.Tensor, error: Exception) -> bool:
    from .mode import wants_plain_sizes

    return wants_plain_sizes(error) and x.dim() >= 3 and weight.dim() == 2


def matmul_by_parts(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """The product of tensors of which one has at least three dimensions, in the parts that eager makes it of: the
    strides of results and of gradients are those of the parts.

    >>> matmul_by_parts(torch.ones(2, 1, 4, 3), torch.ones(5, 3, 6)).shape
    torch.Size([2, 5, 4, 6])
    """
    if _is_one_matrix(left, right):
        return _folded(left, right)
    if left.dim() == right.dim() == 3 and left.size(0) != right.size(0):
        if left.size(0) == 1 and left.requires_grad:
            return matmul_by_parts(left.squeeze(0), right)
        if right.size(0) == 1 and right.requires_grad:
            return matmul_by_parts(left, right.squeeze(0))
    batch = _broadcast(left.shape[:-2], right.shape[:-2])
    count = product(batch)
    rows = left.shape[-2:] if left.dim() > 1 else (1, *left.shape)
    first = left.expand((*batch, *rows)).reshape((count, *rows))
    columns = right.shape[-2:]  # of a vector its length
    second = right.expand((*batch, *columns)).reshape((count, *columns))
    products = torch.bmm(first, second if right.dim() > 1 else second.unsqueeze(2))
    ends = [*left.shape[-2:-1], *right.shape[-1:]] if right.dim() > 1 else [*left.shape[-2:-1]]
    return own_functions.unsafe_view(products, [*batch, *ends])


def _is_one_matrix(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether eager multiplies the rows of all matrices of a batch at once.

    It does so where the other operand, a matrix or vector, needs a gradient, which would otherwise have the size of
    the batch, and where that takes no copies."""
    large, small = (left, right) if left.dim() >= right.dim() else (right.mT, left)
    if large.dim() < 3 or small.dim() > 2:
        return False
    if small.requires_grad:
        return True
    if left.dim() == 2:
        return False
    shape, stride = large.shape, large.stride()
    return large.numel() == 0 or all(stride[i] == stride[i + 1] * shape[i + 1] for i in range(large.dim() - 2))


def _folded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    swapped = right.dim() > left.dim()
    large, small = (right.mT, left.t() if left.dim() == 2 else left) if swapped else (left, right)
    *outer, inner = large.shape
    rows = large.reshape((product(outer), inner))
    if small.dim() == 1:
        return own_functions.unsafe_view(torch.mv(rows, small), outer)
    result = own_functions.unsafe_view(torch.mm(rows, small), [*outer, small.size(1)])
    return result.mT.contiguous() if swapped else result


def _broadcast(first: Any, second: Any) -> list[Any]:
    long, short = (first, second) if len(first) >= len(second) else (second, first)
    batch = list(long[: len(long) - len(short)])
    for x, y in zip(long[len(batch) :], short, strict=True):
        if x == 1:
            batch.append(y)
        elif y == 1 or x == y:
            batch.append(x)
        else:
            raise RuntimeError(f"batches of {list(first)} and {list(second)} matrices have no product")
    return batch
