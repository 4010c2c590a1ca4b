"""What eager PyTorch raises for an operation that failed on fake tensors: it is asked with zeros of the same layout.

Fake tensors refuse what eager refuses, in words of their own. A program may read the words.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .. import torch_compat
from ..shapes import UndecidableError
from ..shapes.symnode import hint_of
from ..torch_compat.pytrees import tree_flatten, tree_unflatten

MOST_ELEMENTS = 1 << 16
# Refusals that follow from shapes, dtypes and plain arguments. Nothing else is taken for an answer.
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


class _NotKnown(Exception):
    """What a number is cannot be known while capturing."""


def _plain(number: Any, asserted: bool) -> Any:
    """A number of the graph as it is in this call; guarded where the program reads what is said of it."""
    if not isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return number
    known = hint_of(number)
    if known is None:
        raise _NotKnown
    if not asserted:
        return known
    try:
        return number.node.pytype(number)
    except UndecidableError:
        raise _NotKnown from None


def _zeros(fake: torch.Tensor, differentiated: bool) -> torch.Tensor | None:
    """A leaf that looks like a fake tensor; None where gradients flow that are not asked for."""
    if fake.layout is not torch.strided or fake.requires_grad and not differentiated:
        return None
    sizes, strides = ([_plain(number, not differentiated) for number in numbers]
                      for numbers in (fake.shape, fake.stride()))
    if math.prod(sizes) > MOST_ELEMENTS:
        return None
    with torch_compat.without_modes():  # real ones
        zeros = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device).zero_()
    return zeros.requires_grad_(fake.requires_grad)


def eager_error(target: Any, args: list[Any], kwargs: dict[str, Any], differentiated: bool = False) -> Exception | None:
    """What an operation raises in eager PyTorch; None where that is not known.

    ``differentiated`` tensors are taken for leaves: that it raises is known, not with which words. Otherwise what sizes
    and numbers are is guarded, because the words may name them.
    """
    try:
        return _eager_error(target, args, kwargs, differentiated)
    except _NotKnown:
        return None


def _eager_error(target: Any, args: list[Any], kwargs: dict[str, Any], differentiated: bool) -> Exception | None:
    leaves, spec = tree_flatten((args, kwargs))
    reals = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            real = _zeros(leaf, differentiated)
            if real is None:
                return None
            reals.append(real)
        elif callable(leaf):
            return None  # a function of the program's
        else:
            reals.append(_plain(leaf, not differentiated))
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    real_args, real_kwargs = tree_unflatten(reals, spec)
    try:
        with torch_compat.without_modes():  # below them torch takes operators apart, and refuses in other words
            if isinstance(target, str):
                getattr(type(real_args[0]), target)(*real_args, **real_kwargs)  # as Python calls x.sin(1)
            else:
                target(*real_args, **real_kwargs)
    except ERRORS as error:
        plain = type(error).__module__ == "builtins" and all(type(arg) is str for arg in error.args)
        return error.with_traceback(None) if plain else None
    return None
