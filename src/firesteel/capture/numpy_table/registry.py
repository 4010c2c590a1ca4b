"""The tables: functions by NumPy's own, methods and attributes of arrays by name, ufuncs by what they do to tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry import Registry
from ..signals import GraphBreak

PACKAGE = __package__ or ""
FUNCTIONS: Registry[Any, Callable[..., Any]] = Registry("NumPy function", package=PACKAGE)
"""NumPy's function -> function of a context and the same arguments."""
METHODS: Registry[str, Callable[..., Any]] = Registry("method of arrays", package=PACKAGE)
"""Name -> function of a context, the array and the method's arguments."""
UFUNCS: Registry[Any, Callable[..., Any]] = Registry("ufunc", package=PACKAGE)
"""NumPy's ufunc -> function of tensors, or plain numbers for all but the first, that have the dtypes of a loop."""
FOLLOWED: set[Any] = set()
"""Functions that NumPy writes in Python with others, whose own code is executed symbolically."""

def refuse(title: str, problems: dict[str, Any]) -> None:
    """Break at the first argument that is given and that the table does not take; its name leads to whether it is."""
    for what, is_given in problems.items():
        if is_given:
            raise GraphBreak(f"{title} with {what}")


function = FUNCTIONS.register
method = METHODS.register
ufunc = UFUNCS.register
