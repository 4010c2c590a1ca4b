"""Calls of compiled functions as ranges of torch's profilers, named by the function and its place.

    firesteel: GPT.forward (train.py:33)

A call that runs machine code only would show up nowhere otherwise. Nothing here is part of a call while no profiler
runs.
"""

from __future__ import annotations

import os
import types
from typing import Any

from ..capture.tracebacks import leaving
from ..own_frames import passed_over
from ..torch_compat.profilers import profiler_range
from .units import Resume, Unit, drive


def innermost(function: types.FunctionType) -> types.CodeType:
    """The code of a function without its decorators."""
    inner: Any = function
    while isinstance(inner, types.FunctionType) and "__wrapped__" in vars(inner):
        inner = vars(inner)["__wrapped__"]
    return inner.__code__ if isinstance(inner, types.FunctionType) else function.__code__


def call_range(unit: Unit, function: types.FunctionType, owner: str = "") -> Any:
    """The range of a call, as a context manager: with a class in front where it is of a module."""
    code = innermost(function)
    name = unit.range_names.get((owner, code))
    if name is None:
        called = unit.name.replace(function.__code__.co_name, code.co_name)
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        name = f"firesteel: {owner}.{called} ({where})" if owner else f"firesteel: {called} ({where})"
        unit.range_names[owner, code] = name
    return profiler_range(name)


@passed_over
def in_range(unit: Unit, function: types.FunctionType, arguments: tuple[Any, ...]) -> Any:
    """Run a unit, as a range of whichever profiler runs."""
    try:
        with call_range(unit, function):
            result = unit.call(arguments)
            del arguments  # the program may let go of what it was given
            return drive(result) if type(result) is Resume else result
    except BaseException as error:
        leaving(error)
        raise
