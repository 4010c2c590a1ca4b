"""Compiling without Python's search for reference cycles: a compilation makes many objects that stay and few cycles."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ..importing import make_old


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
    gc.collect(0)
    make_old()
