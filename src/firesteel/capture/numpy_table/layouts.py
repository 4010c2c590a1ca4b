"""How results lie in memory: by rows, unless NumPy keeps the order that its operands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from ...fake.dims import contiguous_strides, known_equal, layout_of
from ...shapes.symnode import hint_of
from .traced import Tensor


def is_c_ordered(fake: Any) -> bool:
    """Whether a tensor lies in memory by rows, whatever its sizes are."""
    if fake.dim() < 2:
        return fake.dim() == 0 or fake.stride(0) == 1 or fake.shape[0] == 1
    shape, stride = layout_of(fake)
    return all(known_equal(size, 1) or known_equal(step, wanted)
               for size, step, wanted in zip(shape, stride, contiguous_strides(shape), strict=True))


def in_order(traced: Tensor, order: Iterable[int], always: bool = False) -> Tensor:
    """A tensor that lies in memory with the given dimensions from the outermost to the innermost."""
    outer_first = list(order)
    rows = outer_first == sorted(outer_first)
    permuted = traced if rows else traced.permute(outer_first)
    if always:
        permuted = permuted.clone(memory_format=_contiguous())
    else:
        permuted = permuted.contiguous()
    return permuted if rows else permuted.permute([outer_first.index(dim) for dim in range(len(outer_first))])


def _contiguous() -> Any:
    import torch

    return torch.contiguous_format


def kept_order(fakes: Sequence[Any], flips: Sequence[frozenset[int]], ndim: int) -> list[int]:
    """The dimensions of an elementwise result from the outermost to the innermost, as NumPy's iterator lays it out."""
    if all(is_c_ordered(fake) and not flipped for fake, flipped in zip(fakes, flips, strict=True)):
        return list(range(ndim))
    operands = [stand_in(fake, flipped) for fake, flipped in zip(fakes, flips, strict=True)]
    flags: Any = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    iterator = numpy.nditer([*operands, None], flags=["zerosize_ok"], op_flags=flags)
    return order_of(iterator.operands[-1].strides)


def as_numpy_lays_out(traced: Tensor, array: Any, function: Callable[[Any], Any]) -> Tensor:
    """A result in the order in memory that NumPy's function gives it, seen on a small array of the same order."""
    if traced.ndim < 2:
        return traced
    if is_c_ordered(array.tensor.fake) and not array.flipped:
        return traced.contiguous()
    try:
        small = function(stand_in(array.tensor.fake, array.flipped))
        # a dimension of one element lies within one that has the same stride
        order = sorted(range(small.ndim), key=lambda dim: (-abs(small.strides[dim]), small.shape[dim] == 1))
    except (IndexError, ValueError):
        order = list(range(traced.ndim))
    return in_order(traced, order if len(order) == traced.ndim else range(traced.ndim), always=1 in traced.shape)


def order_of(strides: Sequence[int]) -> list[int]:
    """Dimensions from the outermost to the innermost."""
    return sorted(range(len(strides)), key=lambda dim: -abs(strides[dim]))


def stand_in(fake: Any, flipped: frozenset[int]) -> Any:
    """A small array that lies in memory as a tensor does, with at most two elements in each dimension."""
    shape = [min(int(hint_of(size)), 2) for size in fake.shape]
    strides = [int(hint_of(stride)) * (-1 if dim in flipped else 1) for dim, stride in enumerate(fake.stride())]
    ranks = {step: rank for rank, step in enumerate(sorted({abs(step) for step in strides if step}))}
    steps = [8 * 2 ** ranks[abs(step)] * (1 if step > 0 else -1) if step else 0 for step in strides]
    memory = numpy.zeros((len(shape) + 1) * 2 ** len(ranks) + 2)
    begin = sum(-step // 8 * (size - 1) for step, size in zip(steps, shape, strict=True) if step < 0 and size)
    return numpy.lib.stride_tricks.as_strided(memory[begin:], shape, steps)
