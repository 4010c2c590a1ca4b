"""How results lie in memory: by rows, unless NumPy keeps the order that its operands have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy

from ...fake.dims import contiguous_strides, known_equal, layout_of
from ...shapes.symnode import hint_of
from ..signals import GraphBreak
from .traced import Tensor


def is_c_ordered(fake: Any) -> bool:
    """Whether a tensor lies in memory by rows, whatever its sizes are; one without elements does."""
    shape, stride = layout_of(fake)
    if any(known_equal(size, 0) for size in shape):
        return True
    if fake.dim() < 2:
        return fake.dim() == 0 or fake.stride(0) == 1 or fake.shape[0] == 1
    return _is_dense(shape, stride)


def _is_dense(shape: Sequence[Any], stride: Sequence[Any]) -> bool:
    """Whether strides are those of an array by rows, but for dimensions of one element."""
    return all(known_equal(size, 1) or known_equal(step, wanted)
               for size, step, wanted in zip(shape, stride, contiguous_strides(shape), strict=True))


def is_by_rows(array: Any) -> bool:
    """What the flag ``c_contiguous`` of an array says."""
    return is_c_ordered(array.tensor.fake) and not _goes_backwards(array)


def is_column_ordered(array: Any) -> bool:
    """What the flag ``f_contiguous`` of an array says: those of one dimension have it together with the other one."""
    shape, stride = layout_of(array.tensor.fake)
    if array.ndim < 2 or any(known_equal(size, 0) for size in shape):
        return is_by_rows(array)
    return _is_dense(shape[::-1], stride[::-1]) and not _goes_backwards(array)


def _goes_backwards(array: Any) -> bool:
    """Whether an array of several elements has a negative stride."""
    shape, _ = layout_of(array.tensor.fake)
    return any(not known_equal(shape[dim], 1) for dim in array.flipped)


def order_argument(order: Any, default: str) -> str:
    """The letter that an ``order`` argument means."""
    if order is None:
        return default
    if isinstance(order, str) and order.upper() in ("C", "F", "A", "K"):
        return order.upper()
    raise GraphBreak(f"order={order!r} of a function of NumPy's")


def asked_order(array: Any, order: str) -> list[int]:
    """The dimensions from the outermost to the innermost of a copy of an array that is asked for in an order."""
    rows = list(range(array.ndim))
    if order == "K":
        return copied_order(array.tensor.fake, array.flipped)
    return rows[::-1] if order == "F" or order == "A" and is_by_columns(array) else rows


def read_order(array: Any, order: str) -> list[int]:
    """The dimensions from the outermost to the innermost in which the elements of an array are asked for."""
    if order != "K" or is_by_rows(array):
        return asked_order(array, order if order != "K" else "C")
    dims = copied_order(array.tensor.fake, array.flipped)
    if array.flipped or not lies_in(array.tensor.fake, dims):
        raise GraphBreak("order='K' of a NumPy array with gaps or reversed dimensions")
    return dims


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
    """The dimensions of a copy from the outermost to the innermost: copies sort strides, unlike NumPy's iterator.

    Not handled: a dimension that ``x[None]`` makes has stride 0 in NumPy and another one here, so that a copy of an
    array with gaps may have another stride of that dimension of one element.
    """
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
    return array.ndim > 1 and is_column_ordered(array) and not is_by_rows(array)


def rows_or_columns(traced: Tensor, array: Any) -> Tensor:
    """A result by columns where an array lies so, by rows otherwise."""
    dims = list(range(traced.ndim))
    return laid_out(traced, dims[::-1] if is_by_columns(array) else dims)


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
