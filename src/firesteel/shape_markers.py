"""What users say about the sizes of a tensor: mark_dynamic, maybe_mark_dynamic, mark_static.

A mark is an attribute of the tensor object. It is there for as long as the object is, goes with it into a module as a
parameter or buffer, and does not pass to views, copies and results. Marks made with torch's own functions of these
names count as well: they are attributes too, so nothing of torch's compiler is imported to see them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch

from .errors import UserCodeError, with_article
from .records import dataclass

Range = tuple[int | None, int | None]
"""Least and greatest size, None where there is no bound."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marked dimensions of one tensor. No dimension is in two of the three."""

    dynamic: Mapping[int, Range]
    """Must be symbols: it is an error when the program allows one size only."""
    maybe: frozenset[int]
    """Are symbols from the first compilation on if the program allows it."""
    static: frozenset[int]
    """Are never symbols."""


UNMARKED = Marks({}, frozenset(), frozenset())

# Our own attribute: for each dimension what was said of it last. Plain data, so that a marked tensor can be saved and
# loaded again without firesteel.
_Mark = tuple[str] | tuple[str, int | None, int | None]
_OURS = "_firesteel_marks"
# Attributes that torch's markers set, each a set of dimensions, and what they say, the strongest last.
_TORCH_MARKS: tuple[tuple[str, _Mark], ...] = (
    ("_dynamo_static_indices", ("static",)),
    ("_dynamo_weak_dynamic_indices", ("maybe",)),
    ("_dynamo_unbacked_indices", ("maybe",)),
    ("_dynamo_strict_unbacked_indices", ("dynamic", None, None)),
    ("_dynamo_dynamic_indices", ("dynamic", None, None)),
)
_TORCH_RANGES = "_dynamo_dynamic_range"
_ATTRIBUTES = frozenset({_OURS, *(name for name, _ in _TORCH_MARKS)})
_STATIC_CLASS = "_firesteel_marked_static"
_TORCH_STATIC_CLASS = "_dynamo_marked_static"


def mark_dynamic(
    t: torch.Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """Say that a dimension varies: compiled code is made for all its sizes, or from `min` to `max`, at once.

    If the program allows one size only, compiling is an error that names the line which demands it. Use
    `maybe_mark_dynamic` where that is no mistake. `index` is a dimension or several; negative ones count from the end.

    >>> x = torch.randn(8, 3)
    >>> mark_dynamic(x, 0, max=64)
    >>> dims_marked(x).dynamic
    {0: (None, 64)}
    """
    dims = _dims(t, index, "mark_dynamic")
    for name, bound in (("min", min), ("max", max)):
        if bound is not None and (type(bound) is not int or bound < 0):
            raise UserCodeError(f"mark_dynamic got {name}={bound!r}", "a bound is an integer, 0 or greater")
    if min is not None and max is not None and min >= max:
        raise UserCodeError(f"mark_dynamic got min={min} and max={max}, which leaves no sizes to choose from",
                            "give a max greater than min, or use mark_static for a single size")
    for dim in dims:
        size = t.shape[dim]
        if (min is not None and size < min) or (max is not None and size > max):
            raise UserCodeError(f"dimension {dim} of the tensor has size {size}, outside of min={min}, max={max}",
                                "give bounds that this tensor keeps")
    _set(t, dims, ("dynamic", min, max))


def maybe_mark_dynamic(t: torch.Tensor, index: int | Sequence[int]) -> None:
    """Say that a dimension is likely to vary. Where the program allows one size only, that size is used.

    >>> x = torch.randn(8, 3)
    >>> maybe_mark_dynamic(x, [0, -1])
    >>> sorted(dims_marked(x).maybe)
    [0, 1]
    """
    dims = _dims(t, index, "maybe_mark_dynamic")
    _set(t, dims, ("maybe",))


T = TypeVar("T")


def mark_static(t: T, index: int | Sequence[int] | None = None) -> T | None:
    """Say that a dimension, or each, keeps its size: compiled code is made for that size alone, also with dynamic=True.

    Given a subclass of nn.Module it says so of the numbers that are attributes of its objects, and returns the class,
    so that it can be used as a decorator.

    >>> x = torch.randn(8, 3)
    >>> mark_static(x)
    >>> sorted(dims_marked(x).static)
    [0, 1]
    """
    if isinstance(t, type) and issubclass(t, torch.nn.Module):
        setattr(t, _STATIC_CLASS, True)
        return t
    dims = range(t.dim()) if index is None and isinstance(t, torch.Tensor) else _dims(t, index, "mark_static")
    _set(t, dims, ("static",))
    return None


def _dims(t: Any, index: Any, function: str) -> tuple[int, ...]:
    """The dimensions that an argument names, counted from the front."""
    if not isinstance(t, torch.Tensor):
        raise UserCodeError(f"{function} got {with_article(type(t).__name__)}, not a tensor",
                            "mark each tensor by itself")
    rank, dims = t.dim(), []
    for one in index if isinstance(index, (list, tuple)) else (index,):
        try:
            dim = operator.index(one)
        except TypeError:
            raise UserCodeError(f"{function} got {one!r} as a dimension",
                                "a dimension is an integer, several are a list or tuple of integers") from None
        if not -rank <= dim < rank:
            raise UserCodeError(f"{function} got dimension {dim} of a tensor with {rank} dimensions",
                                f"pass one from {-rank} to {rank - 1}" if rank else "a scalar has nothing to mark")
        dims.append(dim % rank)
    return tuple(dims)


def _set(t: Any, dims: Iterable[int], mark: _Mark) -> None:
    # A new dictionary each time: a copy of the tensor may share the old one.
    setattr(t, _OURS, {**t.__dict__.get(_OURS, {}), **dict.fromkeys(dims, mark)})


def dims_marked(t: torch.Tensor) -> Marks:
    """The marks of a tensor, from our markers and torch's; ours win. Cheap for tensors without any."""
    attributes = t.__dict__
    if not attributes or _ATTRIBUTES.isdisjoint(attributes):
        return UNMARKED
    marks = {**_torch_marks(attributes, t.dim()), **attributes.get(_OURS, {})}
    dynamic: dict[int, Range] = {}
    others: dict[str, set[int]] = {"maybe": set(), "static": set()}
    for dim, mark in marks.items():
        if dim >= t.dim():  # the tensor lost dimensions in place after it was marked
            continue
        if len(mark) == 3:
            dynamic[dim] = mark[1:]
        else:
            others[mark[0]].add(dim)
    return Marks(dynamic, frozenset(others["maybe"]), frozenset(others["static"]))


def _torch_marks(attributes: Mapping[str, Any], rank: int) -> dict[int, _Mark]:
    """What torch's markers said. They keep no order; torch lets dynamic win over the others, and so do we."""
    # An unbacked size is one that nothing may be decided on. For us it is a symbol like others: a decision becomes a
    # guard, where torch would fail or assume that the size is neither 0 nor 1.
    said: list[tuple[int, _Mark]] = []
    for name, mark in _TORCH_MARKS:
        said += [(dim, mark) for dim in attributes.get(name, ())]
    # Torch keeps a range for each call, those without bounds included.
    said += [(given.dim, ("dynamic", given.min, given.max)) for given in attributes.get(_TORCH_RANGES, ())
             if given.min is not None or given.max is not None]
    return {dim % rank: mark for dim, mark in said if -rank <= dim < rank}


def class_marked_static(cls: type) -> bool:
    """Whether `mark_static`, ours or torch's, was said of a module's class or a base of it."""
    return getattr(cls, _STATIC_CLASS, False) is True or getattr(cls, _TORCH_STATIC_CLASS, False) is True
