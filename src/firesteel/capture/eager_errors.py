"""What eager PyTorch raises for an operation that failed on fake tensors: it is asked with zeros of the same layout.

Fake tensors refuse what eager refuses, in words of their own. A program may read the words.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import torch_compat
from ..torch_compat.pytrees import tree_flatten, tree_unflatten

MOST_ELEMENTS = 1 << 16
# Refusals that follow from shapes, dtypes and plain arguments. Nothing else is taken for an answer.
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def _zeros(fake: torch.Tensor, differentiated: bool) -> torch.Tensor | None:
    """A leaf that looks like a fake tensor; None where sizes are symbols, or gradients flow that are not asked for."""
    sizes, strides = tuple(fake.shape), fake.stride()
    plain = all(type(number) is int for number in (*sizes, *strides))
    if not plain or fake.layout is not torch.strided or fake.requires_grad and not differentiated \
            or fake.numel() > MOST_ELEMENTS:
        return None
    with torch_compat.without_modes():  # real ones
        zeros = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device).zero_()
    return zeros.requires_grad_(fake.requires_grad)


def eager_error(target: Any, args: list[Any], kwargs: dict[str, Any], differentiated: bool = False) -> Exception | None:
    """What an operation raises in eager PyTorch; None where that is not known.

    ``differentiated`` tensors are taken for leaves: that it raises is known, not with which words.
    """
    leaves, spec = tree_flatten((args, kwargs))
    reals = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            real = _zeros(leaf, differentiated)
            if real is None:
                return None
            reals.append(real)
        elif isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) or callable(leaf):
            return None  # not known, or a function of the program's
        else:
            reals.append(leaf)
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
