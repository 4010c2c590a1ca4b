"""Whether one of torch's profilers runs: said when that changes, so that no call has to ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import profiler as profilers

from . import patches

PROFILERS = "torch.autograd.profiler._set_is_profiler_enabled"


_LISTENERS: list[Callable[[bool], None]] = []


def follow_profilers(listener: Callable[[bool], None]) -> None:
    """Call ``listener(active)`` now, and whenever a profiler starts or stops: `torch.profiler.profile`, ``emit_nvtx``
    and all others that torch has."""
    module: Any = profilers
    if listener not in _LISTENERS:
        _LISTENERS.append(listener)
        listener(profiler_runs())
    said = getattr(module, "_set_is_profiler_enabled", None)
    if said is None or PROFILERS in patches.applied():
        return

    def set_is_profiler_enabled(enable: bool) -> None:
        said(enable)
        for each in _LISTENERS:
            each(bool(enable))

    patches.set_attribute(PROFILERS, module, "_set_is_profiler_enabled", set_is_profiler_enabled)
    for each in _LISTENERS:
        each(profiler_runs())


def profiler_range(name: str) -> Any:
    """A range of whichever profiler runs, as a context manager: the one that costs least where torch has it."""
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    return fast(name) if fast is not None else profilers.record_function(name)


def profiler_runs() -> bool:
    """Whether one of torch's profilers runs now."""
    return bool(getattr(profilers, "_is_profiler_enabled", False))
