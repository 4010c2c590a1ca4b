"""``cond``: one of two functions, chosen by a value that may only be known when the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import pytrees as pytree
from . import operators
from .checks import check_callable, refuse, run_function, truth_of
from .tracing import FlatFunction, handler_of_thread


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
         operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    """``true_fn(*operands)`` where ``pred`` is true, otherwise ``false_fn(*operands)``.

    Args:
        pred: a bool, a symbolic bool, or a bool tensor with one element.
        true_fn, false_fn: functions that return the same pytree of tensors, with equal shapes, dtypes, devices and
            strides. They may use tensors from the scope around them, but change nothing and return new tensors.
        operands: their arguments; any pytrees.

    >>> import torch
    >>> x = torch.tensor([1.0, -4.0])
    >>> cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.abs(), (x,))
    tensor([1., 4.])
    """
    check_callable("cond", true_fn=true_fn, false_fn=false_fn)
    if not isinstance(operands, (tuple, list)):
        raise refuse(f"cond: operands is a {type(operands).__name__}", "pass the arguments of the functions in a tuple")
    if handler_of_thread() is not None and isinstance(pred, (torch.Tensor, torch.SymBool)):
        return _traced(pred, true_fn, false_fn, tuple(operands))
    taken = truth_of("cond", pred)
    return run_function("cond", "true_fn" if taken else "false_fn", true_fn if taken else false_fn, operands)


def _traced(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
    leaves, spec = pytree.tree_flatten(operands)
    chosen, other = FlatFunction(true_fn, spec), FlatFunction(false_fn, spec)
    results = operators.cond(pred, chosen, other, leaves)
    if chosen.result != other.result:
        raise refuse("cond: true_fn and false_fn return different structures", "return the same containers from both")
    return chosen.unflatten(results)
