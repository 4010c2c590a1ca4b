"""Imports while someone waits for a first call: without Python's search for reference cycles, which finds none."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FROZEN_AT_START = 1000
"""More than Python itself freezes (nothing in 3.11, 375 objects in 3.12), far fewer than a process with torch has."""
_TIMES_UNCOUNTED = 200
"""How often it is taken for granted that objects which the user has frozen still are: Python counts them one by one,
which takes longer than a small compilation."""
_uncounted = 0


@contextmanager
def imports_uncollected() -> Iterator[None]:
    """No automatic garbage collection inside; if anything is imported meanwhile, all objects are old afterwards.

    A collection in the middle of imports looks through all that the process holds, 0.2 s beside large libraries.
    """
    if not gc.isenabled():
        yield
        return
    before = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) != before:
            make_old()
        gc.enable()


def make_old() -> None:
    """Let no automatic collection but a full one look at the objects that there are now."""
    global _uncounted
    if _uncounted:
        _uncounted -= 1
    elif gc.get_freeze_count() < _FROZEN_AT_START:  # `unfreeze` would also undo what the user has frozen
        gc.freeze()
        gc.unfreeze()
    else:
        _uncounted = _TIMES_UNCOUNTED
