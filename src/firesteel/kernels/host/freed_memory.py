"""Freed memory stays in the process instead of going back to the system after every call.

A graph asks for large tensors in each call and lets go of them. glibc returns such memory to the system, or keeps it,
depending on where it happens to lie, and the next call waits for a page fault per 4 KiB: up to a third of the time of
a convolution network.
"""

from __future__ import annotations

import functools
import os
import sys

from ... import config
from ...systems import process_library

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_IN_HEAP = 32 << 20
"""The most that glibc allows: what is larger gets memory of its own, which goes back to the system."""
_DECIDED_BY_USER = (
    "MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES", "LD_PRELOAD",
)  # fmt: skip


@functools.cache
def keep_freed_memory() -> bool:
    """Tell the C library once; whether it was told."""
    limit = config.keep_freed_memory
    if limit <= 0 or sys.platform != "linux" or any(name in os.environ for name in _DECIDED_BY_USER):
        return False
    mallopt = getattr(process_library(), "mallopt", None)
    if mallopt is None:
        return False
    # Either alone would switch off glibc's own rule for the other.
    return bool(mallopt(_MMAP_THRESHOLD, min(limit, _LARGEST_IN_HEAP)) and mallopt(_TRIM_THRESHOLD, limit))
