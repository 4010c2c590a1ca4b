"""What eager PyTorch raises for an operation that failed on fake tensors: it is asked with zeros of the same layout.

Fake tensors refuse what eager refuses, in words of their own. A program may read the words.
"""

from __future__ import annotations

from typing import Any

import torch

from ..torch_compat.pytrees import tree_flatten, tree_unflatten

MOST_ELEMENTS = 1 << 16
# Refusals that follow from shapes, dtypes and plain arguments. Nothing else is taken for an answer.
ERRORS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def _zeros(fake: torch.Tensor) -> torch.Tensor | None:
    """A tensor without gradients that looks like a fake one; None where sizes are symbols, or gradients flow."""
    sizes, strides = tuple(fake.shape), fake.stride()
    plain = all(type(number) is int for number in (*sizes, *strides))
    if not plain or fake.layout is not torch.strided or fake.requires_grad \
            or fake.numel() > MOST_ELEMENTS:
        return None
    return torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device).zero_()


def eager_error(target: Any, args: list[Any], kwargs: dict[str, Any]) -> Exception | None:
    """What an operation raises in eager PyTorch; None where that is not known."""
    leaves, spec = tree_flatten((args, kwargs))
    reals = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            real = _zeros(leaf)
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
        if isinstance(target, str):
            getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
        else:
            target(*real_args, **real_kwargs)
    except ERRORS as error:
        plain = type(error).__module__ == "builtins" and all(type(arg) is str for arg in error.args)
        return error.with_traceback(None) if plain else None
    return None
