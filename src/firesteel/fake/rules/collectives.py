"""Results of collectives: new tensors that lie by rows, whatever their argument looks like.

Their operators are defined by all releases; torch's own meta kernels come with a module that programs may not have
imported, and keep the strides of arguments that the collective itself does not keep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dims import contiguous_strides
from ..tensor import new_fake
from .registry import rule

_SPACES = ("_c10d_functional", "_c10d_functional_autograd")


def _like(x: Any, shape: Sequence[Any]) -> Any:
    return new_fake(shape, contiguous_strides(shape), x.dtype, x.device)


@rule("_c10d_functional.all_reduce.default", "_c10d_functional.broadcast.default",)
def all_reduce(x: Any, reduction_or_source: Any, group: str) -> Any:
    """As large as the argument."""
    return _like(x, tuple(x.shape))


@rule(*[f"{space}.all_gather_into_tensor.default" for space in _SPACES])
def all_gather_into_tensor(x: Any, count: int, group: str) -> Any:
    """The arguments of all processes one behind the other."""
    shape = tuple(x.shape) or (1,)
    return _like(x, (shape[0] * count, *shape[1:]))


@rule(*[f"{space}.reduce_scatter_tensor.default" for space in _SPACES])
def reduce_scatter_tensor(x: Any, reduction: str, count: int, group: str) -> Any:
    """One part of the argument."""
    return _like(x, (x.shape[0] // count, *x.shape[1:]))


@rule(*[f"{space}.all_to_all_single.default" for space in _SPACES])
def all_to_all_single(x: Any, to_get: Sequence[Any], to_give: Sequence[Any], group: str) -> Any:
    """What all processes give to this one, one behind the other."""
    return _like(x, (sum(to_get), *x.shape[1:]))


@rule("_c10d_functional.wait_tensor.default")
def wait_tensor(x: Any) -> Any:
    """The argument, when it is there."""
    return new_fake(tuple(x.shape), tuple(x.stride()), x.dtype, x.device)


@rule("_c10d_functional.all_reduce_coalesced.default")
def all_reduce_coalesced(xs: Sequence[Any], reduction: str, group: str) -> Any:
    """As large as the arguments."""
    return [_like(x, tuple(x.shape)) for x in xs]


@rule("_c10d_functional.all_gather_into_tensor_coalesced.default")
def all_gather_into_tensor_coalesced(xs: Sequence[Any], count: int, group: str) -> Any:
    """As of each argument."""
    return [all_gather_into_tensor(x, count, group) for x in xs]


@rule("_c10d_functional.reduce_scatter_tensor_coalesced.default")
def reduce_scatter_tensor_coalesced(xs: Sequence[Any], reduction: str, count: int, group: str) -> Any:
    """As of each argument."""
    return [reduce_scatter_tensor(x, reduction, count, group) for x in xs]
