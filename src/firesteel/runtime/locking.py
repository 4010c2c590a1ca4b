"""The lock under which everything is compiled: captures change interpreter-wide settings and are done one at a time.

>>> with compiling():
...     pass
"""

from __future__ import annotations

import os
import threading

_lock = threading.RLock()


def compiling() -> threading.RLock:
    """The lock of this process; a context manager. The same thread may take it again."""
    return _lock


def _renew() -> None:
    """In a forked child the thread that held the lock does not exist."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
