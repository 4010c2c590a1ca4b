"""How results lie in memory: by rows, unless NumPy keeps the order that its operands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from ...fake.dims import contiguous_strides, known_equal, layout_of
from ...shapes.symnode import hint_of
from .traced import Tensor


def is_c_ordered(fake: Any) -> bool:
    """Whether a tensor lies in memory by rows, whatever its sizes are; one without elements does."""
    shape, stride = layout_of(fake)
    if any(known_equal(size, 0) for size in shape):
        return True
    if fake.dim() < 2:
        return fake.dim() == 0 or fake.stride(0) == 1 or fake.shape[0] == 1
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


def kept_order(fakes: Sequence[Any], flips: Sequence[frozenset[int]], ndim: int,
               ufunc_operands: int = 0) -> list[int]:
    """The dimensions of an elementwise result from the outermost to the innermost.

    NumPy's iterator lays the result out, or a ufunc of as many operands and a single result.
    """
    if all(is_c_ordered(fake) and not flipped for fake, flipped in zip(fakes, flips, strict=True)):
        return list(range(ndim))
    operands = [stand_in(fake, flipped) for fake, flipped in zip(fakes, flips, strict=True)]
    if ufunc_operands:
        ufunc: Any = (numpy.positive, numpy.add, numpy.clip)[ufunc_operands - 1]
        return small_order(ufunc(*operands, *[1.0] * (ufunc_operands - len(operands))))
    flags: Any = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    iterator = numpy.nditer([*operands, None], flags=["zerosize_ok"], op_flags=flags)
    return small_order(iterator.operands[-1])


def copied_order(fake: Any, flipped: frozenset[int]) -> list[int]:
    """The dimensions of a copy from the outermost to the innermost: copies sort strides, unlike NumPy's iterator."""
    if is_c_ordered(fake) and not flipped:
        return list(range(fake.dim()))
    return small_order(numpy.empty_like(stand_in(fake, flipped)))


def has_one(fake: Any) -> bool:
    """Whether a tensor of several dimensions has one with a single element, whose stride `contiguous` leaves alone."""
    return fake.dim() > 1 and any(known_equal(size, 1) for size in layout_of(fake)[0])


def small_order(small: Any) -> list[int]:
    """The dimensions of a small array from the outermost to the innermost."""
    # a dimension of one element lies within one that has the same stride
    return sorted(range(small.ndim), key=lambda dim: (-abs(small.strides[dim]), small.shape[dim] == 1))


def as_numpy_lays_out(traced: Tensor, arrays: Any, function: Callable[..., Any], by_rows: bool = True) -> Tensor:
    """A result in the order in memory that NumPy's function gives it, seen on small arrays of the same order.

    With `by_rows`, what is computed of arrays that lie in memory by rows does so too.
    """
    if traced.ndim < 2:
        return traced
    operands = arrays if isinstance(arrays, list) else [arrays]
    rows = list(range(traced.ndim))
    if by_rows and all(lies_in(one.tensor.fake, range(one.ndim)) and not one.flipped for one in operands):
        return laid_out(traced, rows)
    try:
        small = function(*(stand_in(one.tensor.fake, one.flipped) for one in operands))
        order = small_order(small)
    except (IndexError, ValueError):
        order = rows
    return laid_out(traced, order if len(order) == traced.ndim else rows)


def lies_in(fake: Any, order: Iterable[int]) -> bool:
    """Whether a tensor is known to lie in memory with the given dimensions from the outermost to the innermost."""
    shape, stride = layout_of(fake)
    outer_first = list(order)
    wanted = contiguous_strides([shape[dim] for dim in outer_first])
    return all(known_equal(stride[dim], step) for dim, step in zip(outer_first, wanted, strict=True))


def laid_out(traced: Tensor, order: Iterable[int]) -> Tensor:
    """A tensor that lies in memory in the given order, dimensions of one element too; itself where it does already."""
    outer_first = list(order)
    if lies_in(traced.fake, outer_first):
        return traced
    return in_order(traced, outer_first, always=has_one(traced.fake))


def is_by_columns(array: Any) -> bool:
    """Whether an array lies in memory by columns and not by rows, as the flag ``fnc`` says."""
    fake = array.tensor.fake
    if array.ndim < 2 or array.flipped or is_c_ordered(fake):
        return False
    shape, stride = layout_of(fake)
    wanted = contiguous_strides(list(reversed(shape)))[::-1]
    return all(known_equal(size, 1) or known_equal(step, one)
               for size, step, one in zip(shape, stride, wanted, strict=True))


def rows_or_columns(traced: Tensor, array: Any) -> Tensor:
    """A result by columns where an array lies so, by rows otherwise."""
    dims = list(range(traced.ndim))
    return laid_out(traced, dims[::-1] if is_by_columns(array) else dims)


def order_of(strides: Sequence[int]) -> list[int]:
    """Dimensions from the outermost to the innermost."""
    return sorted(range(len(strides)), key=lambda dim: -abs(strides[dim]))


def stand_in(fake: Any, flipped: frozenset[int]) -> Any:
    """A small array that lies in memory as a tensor does, with at most two elements in each dimension.

    It is contiguous where the tensor is, by rows or by columns.
    """
    sizes = [int(hint_of(size)) for size in fake.shape]
    shape = [min(size, 2) for size in sizes]
    strides = [int(hint_of(stride)) * (-1 if dim in flipped else 1) for dim, stride in enumerate(fake.stride())]
    ranks = {step: rank for rank, step in enumerate(sorted({abs(step) for step in strides if step}))}
    flags = numpy.lib.stride_tricks.as_strided(numpy.zeros(1), sizes, [8 * step for step in strides]).flags
    first = 8 if flags.c_contiguous or flags.f_contiguous else 16
    steps = [first * 2 ** ranks[abs(step)] * (1 if step > 0 else -1) if step else 0 for step in strides]
    memory = numpy.zeros((len(shape) + 1) * 2 ** (len(ranks) + 1) + 2)
    begin = sum(-step // 8 * (size - 1) for step, size in zip(steps, shape, strict=True) if step < 0 and size)
    return numpy.lib.stride_tricks.as_strided(memory[begin:], shape, steps)
