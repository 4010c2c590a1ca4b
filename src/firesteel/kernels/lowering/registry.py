"""The table of lowerings: an operator's name to the function that says what its result is, element by element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry import Registry

Lower = Callable[..., Any]

LOWERINGS: Registry[str, Lower] = Registry(
    "lowering", __package__, first=("arithmetic", "casts", "math_functions", "reductions", "views"))
lowering = LOWERINGS.register
"""Registers the lowering of operators, by their full names such as ``aten.add.Tensor``.

The function gets the `Lowering` and then the operator's arguments, with `Tensor` in the place of tensors and shape
expressions in the place of numbers that are not constant. It gives a `Tensor` (a tuple of them for an operator with
several results), or ``ctx.unsupported(reason)``, and then the ATen operator is called."""
find_lowering = LOWERINGS.find


def is_lowered(name: str) -> bool:
    """Whether an operator has a lowering; for some arguments it may still need ATen.

    >>> is_lowered("aten.add.Tensor"), is_lowered("aten.linalg_svd.default")
    (True, False)
    """
    return find_lowering(name) is not None
