"""Generators of random programs, one file a subject, each with a function `generate(seed) -> Program`.

A program's source defines `make()`, which returns `fn, calls, before, observe` (the function to compile, its calls as
pairs of positional and keyword arguments, what happens before each call, what else to look at afterwards) and, where
calling is not enough, a fifth: `use(fn, args, kwargs)`, which makes the call and whatever belongs to it (gradients of
gradients, hooks, modes around it) and returns what is to be compared.
Inside of `make` the global `compiled` compiles what it is given, or leaves it as it is in the plain run.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from ..program import Program

Generate = Callable[[int], Program]


def parts() -> dict[str, Generate]:
    """Every generator by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name: importlib.import_module(f"{__name__}.{name}").generate for name in names}
