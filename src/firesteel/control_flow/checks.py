"""The rules that functions given to control flow operators keep, and the errors for those that do not.

A function may read tensors of its arguments and of the scope around it, and returns new tensors. It neither changes
what it gets nor returns it, nor a view of it: which branch ran, or how often a loop did, must not be visible in what
shares memory with what.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..errors import UserCodeError, UserFrame
from ..torch_compat import pytrees as pytree

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def user_frames() -> list[UserFrame]:
    """Where the program stands that called one of these operators."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return [UserFrame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)]


def refuse(reason: str, hint: str | None = None) -> UserCodeError:
    """The error of a program that breaks a rule, with its own line."""
    return UserCodeError(reason, hint, user_frames())


def check_callable(operator: str, **functions: Any) -> None:
    """Check that arguments are functions."""
    for name, function in functions.items():
        if not callable(function):
            raise refuse(f"{operator}: {name} is a {type(function).__name__}, not a function")


def truth_of(operator: str, condition: Any) -> bool:
    """The value of a predicate: a bool, a symbolic bool, or a tensor with one element."""
    if isinstance(condition, torch.Tensor):
        reason = predicate_reason(condition)
        if reason:
            raise refuse(f"{operator}: {reason}", "make it a bool tensor with one element, for example with .any()")
        return bool(condition)
    if isinstance(condition, (bool, int, float, torch.SymBool, torch.SymInt, torch.SymFloat)):
        return bool(condition)
    raise refuse(f"{operator}: the predicate is a {type(condition).__name__}",
                 "a predicate is a bool or a bool tensor with one element")


def predicate_reason(condition: torch.Tensor) -> str:
    """Why a tensor cannot be a predicate; empty if it can."""
    if condition.dtype is not torch.bool:
        return f"the predicate is a tensor of {condition.dtype}, not of bools"
    if any(not isinstance(size, int) or size != 1 for size in condition.shape):
        return f"the predicate has {tuple(condition.shape)} elements, not one"
    return ""


def run_function(operator: str, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Call a function of the program and check that it keeps the rules."""
    given = [leaf for leaf in pytree.tree_leaves(list(arguments)) if isinstance(leaf, torch.Tensor)]
    versions = [None if tensor.is_inference() else torch_compat.version_of(tensor) for tensor in given]
    result = function(*arguments)
    for tensor, version in zip(given, versions, strict=True):
        if version is not None and torch_compat.version_of(tensor) != version:
            raise refuse(f"{operator}: {name} changes one of its arguments in place", "return the new value instead")
    memory = {torch_compat.storage_address(tensor) for tensor in given if _has_storage(tensor)}
    for leaf in pytree.tree_leaves(result):
        if isinstance(leaf, torch.Tensor):
            if _has_storage(leaf) and leaf.numel() and torch_compat.storage_address(leaf) in memory:
                raise refuse(f"{operator}: {name} returns one of its arguments, or a view of one",
                             "return a copy: .clone()")
        elif leaf is not None and not isinstance(leaf, (bool, int, float, torch.SymInt, torch.SymBool, torch.SymFloat)):
            raise refuse(f"{operator}: {name} returns a {type(leaf).__name__}",
                         "return tensors, or containers of tensors")
    return result


def _has_storage(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided


def check_carry(operator: str, name: str, carried: Sequence[Any], new: Sequence[Any]) -> None:
    """Check that what a loop hands on is of the kind that it began with."""
    if len(carried) != len(new):
        raise refuse(f"{operator}: {name} returns {len(new)} values for {len(carried)} that are carried on")
    for number, (old, value) in enumerate(zip(carried, new, strict=True)):
        difference = carry_difference(old, value)
        if difference:
            raise refuse(f"{operator}: value {number} that {name} carries on {difference}",
                         "what is carried on keeps its shape, dtype and device")


def carry_difference(old: Any, new: Any) -> str:
    """How a carried value differs from the one before; empty if it does not."""
    if isinstance(old, torch.Tensor) != isinstance(new, torch.Tensor):
        return f"was a {type(old).__name__} and becomes a {type(new).__name__}"
    if not isinstance(old, torch.Tensor):
        return ""
    for what in ("shape", "dtype", "device"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            if what == "shape":
                before, after = tuple(before), tuple(after)
            return f"has the {what} {before} and becomes {after}"
    return ""


def in_layout_of(first: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """A carried tensor with the strides that the first one has: the same in every turn of a loop."""
    if tensor.stride() == first.stride():
        return tensor
    return torch.empty_like(first, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def flatten(operator: str, name: str, tree: Any, numbers: bool = False) -> tuple[list[Any], Any]:
    """The leaves of a pytree, which are tensors (or numbers)."""
    leaves, spec = pytree.tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor) and not (numbers and isinstance(leaf, (int, float, torch.SymInt))):
            raise refuse(f"{operator}: {name} holds a {type(leaf).__name__}", f"{name} consists of tensors")
    return leaves, spec
