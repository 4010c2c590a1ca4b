"""Writes that eager refuses because memory overlaps: to expanded tensors, and to memory that is read shifted.

    x[1:] = x[:-1]       x.add_(x.t())       x.expand(4).zero_()

Meta kernels know nothing of memory, so the operator is left to eager, which raises. Where sizes are symbols, guards say
what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import torch_compat
from ..shapes import UndecidableError
from .dims import layout_of, numel_of, offset_of
from .rules.strides import is_dense
from .tensor import FakeTensor, FakeUnsupported

# Operators that change the layout and not the elements.
_LAYOUTS = frozenset({"t_", "transpose_", "squeeze_", "unsqueeze_", "swapdims_", "swapaxes_", "as_strided_", "resize_",
                      "resize_as_", "detach_", "set_", "requires_grad_", "rename_"})
# Operators that write to expanded tensors too: all elements get one value.
_ALL_ALIKE = frozenset({"zero_", "fill_", "masked_fill_"})
# Operators that may not even read the elements that they write.
_APART = ("index", "scatter", "masked_scatter", "put", "take", "gather")


def refuse_overlap(name: str, writes: Sequence[tuple[int, str]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Leave a call to eager if it would raise; ``writes`` are the arguments that the operator writes to."""
    base = name.split(".")[1]
    if base in _LAYOUTS:
        return
    several = _share_memory((*args, *kwargs.values()))
    for position, written in writes:
        given = position < len(args)
        target = args[position] if given else kwargs.get(written)
        targets = target if isinstance(target, (list, tuple)) else (target,)
        for one in targets:
            if type(one) is FakeTensor:
                _refuse_expanded(base, one)
        if not several:
            continue
        others = [*(args[:position] + args[position + 1:] if given else args),
                  *(value for key, value in kwargs.items() if given or key != written)]
        if target is not targets:
            _refuse_shifted(base, target, [item for value in others
                                           for item in (value if isinstance(value, (list, tuple)) else (value,))])
            continue
        for place, one in enumerate(targets):
            _refuse_shifted(base, one, [value[place] if isinstance(value, (list, tuple)) else value for value in others
                                        if not isinstance(value, (list, tuple)) or len(value) == len(targets)])


def _share_memory(values: Sequence[Any]) -> bool:
    """Whether two of the tensors in arguments have one memory."""
    seen: set[int] = set()
    count = 0
    for value in values:
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if type(item) is FakeTensor:
                seen.add(torch_compat.storage_address(item))
                count += 1
    return len(seen) < count


def _refuse_expanded(base: str, target: FakeTensor) -> None:
    if base in _ALL_ALIKE or not torch_compat.has_symbolic_layout(target) and 0 not in target.stride():
        return
    if any(type(step) is int and step == 0 and size > 1 for size, step in zip(*layout_of(target), strict=True)):
        raise FakeUnsupported(base, "writes to elements that share memory")


def _refuse_shifted(base: str, target: Any, others: Sequence[Any]) -> None:
    if type(target) is not FakeTensor:
        return
    apart = base.startswith(_APART)
    for other in others:
        if type(other) is FakeTensor and (apart or other is not target) \
                and torch_compat.storage_address(other) == torch_compat.storage_address(target) \
                and _overlap(target, other, apart):
            raise FakeUnsupported(base, "reads and writes memory that overlaps")


def _overlap(target: FakeTensor, other: FakeTensor, same_too: bool) -> bool:
    """Whether two tensors of one memory have some elements in common and not all, as far as torch looks."""
    (shape, stride), (other_shape, other_stride) = layout_of(target), layout_of(other)
    if not is_dense(shape, stride) or not is_dense(other_shape, other_stride):
        return False
    size, other_size = target.dtype.itemsize, other.dtype.itemsize
    begin, other_begin = offset_of(target) * size, offset_of(other) * other_size
    end, other_end = begin + numel_of(target) * size, other_begin + numel_of(other) * other_size
    try:
        if begin >= other_end or other_begin >= end or begin == end or other_begin == other_end:
            return False
        same = begin == other_begin and end == other_end and len(stride) == len(other_stride) and all(
            a == b for a, b in zip(stride, other_stride, strict=True))
    except UndecidableError:
        return False  # the operator raises when the graph runs
    return not same or same_too
