"""Operators that programs make in Python: the functions that they come from, and what a process forgets of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

import torch.library
from torch._library.custom_ops import OPDEFS


def custom_operator_function(name: str) -> Callable[..., Any] | None:
    """The function that ``torch.library.custom_op`` made an operator of, as ``space::name``."""
    definition = OPDEFS.get(name)
    function: Callable[..., Any] | None = getattr(definition, "_init_fn", None)
    return function


def forget_operators(names: Collection[str], module: ModuleType | None) -> None:
    """As if operators, as ``space::name``, and libraries of operators of a module had not been made."""
    libraries: list[Any] = [getattr(OPDEFS.pop(name), "_lib", None) for name in names if name in OPDEFS]
    values = list(vars(module).values()) if module is not None else []
    libraries += [value for value in values if isinstance(value, torch.library.Library)]
    spaces = {name.partition("::")[0] for name in names}
    libraries += [library for library in torch.library._keep_alive if library.ns in spaces]
    for library in libraries:
        if library is not None:
            library._destroy()
