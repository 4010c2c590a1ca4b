"""Locks that a forked child finds free: the thread that held one at the moment of a fork does not exist there.

>>> lock = new_lock()
>>> with lock:
...     lock.locked()
True
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

from .systems import at_fork

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def new_lock() -> threading.Lock:
    """A `threading.Lock` that is free in forked children."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """A `threading.RLock` that is free in forked children."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_locks):
        owned = getattr(lock, "_is_owned", None)
        if owned is None or not owned():  # by the thread that forks, which releases it itself
            lock._at_fork_reinit()


at_fork(after_in_child=_free_all)
