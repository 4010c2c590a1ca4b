"""Compiling without Python's search for reference cycles: a compilation makes many objects that stay and few cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_FROZEN_AT_START = 1000
"""More than Python itself freezes (nothing in 3.11, 375 objects in 3.12), far fewer than a process with torch has."""
_TIMES_UNCOUNTED = 200
"""How often it is taken for granted that objects which the user has frozen still are: Python counts them one by one,
which takes longer than a small compilation."""
_uncounted = 0


@contextmanager
def collection_paused() -> Iterator[None]:
    """No automatic garbage collection inside, if there was any outside.

    >>> with collection_paused():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        _settle()
        gc.enable()


def _settle() -> None:
    """Free the cycles that were made, and make all other objects old.

    What a compilation keeps stays as long as the program. Left among the young objects, it would soon make Python look
    through everything that the process holds, which takes longer than the compilation where large libraries are loaded.
    """
    global _uncounted
    gc.collect(0)
    if _uncounted:
        _uncounted -= 1
    elif gc.get_freeze_count() < _FROZEN_AT_START:  # `unfreeze` would also undo what the user has frozen
        gc.freeze()
        gc.unfreeze()
    else:
        _uncounted = _TIMES_UNCOUNTED
