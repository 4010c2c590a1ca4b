"""Calls of compiled functions as ranges of torch's profilers, named by the function and its place.

    firesteel: GPT.forward (train.py:33)

A call that runs machine code only would show up nowhere otherwise. Nothing here is part of a call while no profiler
runs.
"""

from __future__ import annotations

import os
from typing import Any

from ..capture.tracebacks import leaving
from ..own_frames import passed_over
from ..torch_compat.profilers import profiler_range
from .units import Resume, Unit, drive


def range_name(unit: Unit, owner: str = "") -> str:
    """What a call is called; with a class in front where it is of a module."""
    frame = unit.user_frame
    name = f"{owner}.{unit.name}" if owner else unit.name
    unit.range_names[owner] = f"firesteel: {name} ({os.path.basename(frame.filename)}:{frame.lineno})"
    return unit.range_names[owner]


def call_range(unit: Unit, owner: str = "") -> Any:
    """The range of a call, as a context manager."""
    return profiler_range(unit.range_names.get(owner) or range_name(unit, owner))


@passed_over
def in_range(unit: Unit, arguments: tuple[Any, ...]) -> Any:
    """Run a unit, as a range of whichever profiler runs."""
    try:
        with call_range(unit):
            result = unit.call(arguments)
            del arguments  # the program may let go of what it was given
            return drive(result) if type(result) is Resume else result
    except BaseException as error:
        leaving(error)
        raise
