"""The table from C functions to the Python functions that capture inlines in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

REGISTRY: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Original callable -> equivalent. Methods of C types are keyed by their descriptor (`collections.OrderedDict.popitem`)
and their equivalents take `self` first; class methods are keyed as bound (`dict.fromkeys`) and take no class."""

MISSING: Any = object()
"""Default of parameters whose absence the original can tell from every value."""


def equivalent_of(*originals: Callable[..., Any]) -> Callable[[Function], Function]:
    """Register the decorated function as the Python equivalent of each of `originals`, and return it unchanged.

    >>> import itertools
    >>> from firesteel.capture.equivalents import REGISTRY
    >>> list(REGISTRY[itertools.chain]("ab", "c"))
    ['a', 'b', 'c']
    """

    def register(function: Function) -> Function:
        for original in originals:
            if original in REGISTRY:
                raise ValueError(f"{original!r} already has an equivalent: {REGISTRY[original]!r}")
            REGISTRY[original] = function
        return function

    return register
