"""Subscripts of fake tensors with an integer that is a symbol, or a tensor without dimensions, among their parts.

C++ would ask for the value. A subscript with an integer is ``select`` along its dimension, the rest of the subscript
applies to what that gives. Where data decides on the integer, the result stands at some place inside: which one matters
to nobody, and that it is inside the tensor is checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..shapes import lt
from ..shapes.symnode import expr_of, make_symbolic
from .dims import shape_of

if TYPE_CHECKING:
    from .mode import FakeMode


def has_positions(key: Any) -> bool:
    """Whether a subscript needs these functions."""
    return any(_is_position(part) for part in (key if isinstance(key, tuple) else (key,)))


def get_item(mode: FakeMode, x: torch.Tensor, key: Any) -> Any:
    """``x[key]``"""
    view, rest = selected(_selecting(mode), x, key)
    return view[rest] if rest else view


def set_item(mode: FakeMode, x: torch.Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``"""
    view, rest = selected(_selecting(mode), x, key)
    view[rest or ...] = value


Select = Callable[[torch.Tensor, int, Any], torch.Tensor]


def _selecting(mode: FakeMode) -> Select:
    return lambda x, dim, part: x.select(dim, any_place(mode, part, shape_of(x)[dim]))


def _is_position(part: Any) -> bool:
    if isinstance(part, torch.SymInt):
        return True
    return isinstance(part, torch.Tensor) and part.ndim == 0 and _is_integer(part.dtype)


def _is_integer(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex) and dtype not in (torch.bool, torch.uint8)


def _dims_taken(part: Any) -> int:
    """How many dimensions of the tensor a part of a subscript speaks of."""
    if part is None or isinstance(part, bool):
        return 0
    if isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8):
        return part.ndim
    if isinstance(part, (list, tuple)) and part and isinstance(part[0], (list, tuple)):
        return torch.tensor(part).ndim if isinstance(part[0][0], bool) else 1
    return 1


def selected(select: Select, x: torch.Tensor, key: Any) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """What integers in the subscript select, and the rest of the subscript."""
    parts = key if isinstance(key, tuple) else (key,)
    dim, rest = 0, []
    for position, part in enumerate(parts):
        if part is Ellipsis:
            dim = x.ndim - sum(_dims_taken(later) for later in parts[position + 1:])
            rest.append(part)
        elif _is_position(part):
            if dim >= x.ndim:
                raise IndexError("too many indices for tensor")
            x = select(x, dim, part)
        else:
            dim += _dims_taken(part)
            rest.append(part)
    return x, tuple(rest)


def any_place(mode: FakeMode, part: Any, size: Any) -> Any:
    """An index that data decides on, as some number that is inside."""
    env = mode.shape_env
    assert env is not None
    if isinstance(part, torch.SymInt) and env.hint(expr_of(part)) is not None:
        return part
    if mode.before_late_error is not None:
        mode.before_late_error((), ())
    if isinstance(size, int):
        if size == 0:
            raise IndexError("index out of range for a dimension of size 0")
        return make_symbolic(env, env.new_symbol(None, "an index", lower=0, upper=size - 1))
    symbol = env.new_symbol(None, "an index", lower=0)
    env.assume(lt(symbol, size.expr))
    return make_symbolic(env, symbol)
