"""Ranges that programs state of numbers from data: ``torch.sym_constrain_range`` and its relative for sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..torch_compat import own_functions
from .call_handlers import handles
from .values.base import Value

if TYPE_CHECKING:
    from .tracer import Tracer


def _bounds(tx: Tracer, args: list[Value], kwargs: dict[str, Value], least: Value) -> Value:
    """Check a number against its bounds, as ``torch._check`` does; without a lower one, against the least."""
    given = dict(zip(("size", "min", "max"), args, strict=False)) | kwargs
    none = tx.constant(None)
    lower, upper = given.get("min", none).realize(), given.get("max", none).realize()
    for symbol, bound in ((">=", least if lower.is_constant() and lower.as_constant() is None else lower),
                          ("<=", upper)):
        if not (bound.is_constant() and bound.as_constant() is None):
            tx.call(tx.python_object(own_functions.check), [tx.compare(symbol, given["size"], bound)], {})
    return none


@handles(torch.sym_constrain_range_for_size)
def constrain_size(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.sym_constrain_range_for_size(size, min=, max=)``."""
    return _bounds(tx, args, kwargs, tx.constant(0))


@handles(torch.sym_constrain_range)
def constrain_number(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.sym_constrain_range(size, min=, max=)``."""
    return _bounds(tx, args, kwargs, tx.constant(None))
