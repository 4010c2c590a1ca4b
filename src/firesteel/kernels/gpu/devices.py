"""The current device: kernels are launched in the context of theirs, whichever the caller has chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def on_device(run: Callable[..., Any], device: torch.device) -> Callable[..., Any]:
    """A function that runs with ``device`` as the current one; the function itself where there is no other."""
    if torch.cuda.device_count() < 2:
        return run
    index = device.index or 0

    def guarded(*inputs: Any) -> Any:
        if torch.cuda.current_device() == index:
            return run(*inputs)
        with torch.cuda.device(index):
            return run(*inputs)

    return guarded
