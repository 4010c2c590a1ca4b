"""The lock under which everything is compiled: captures change interpreter-wide settings and are done one at a time.

>>> with compiling():
...     pass
"""

from __future__ import annotations

import threading

from ..locks import new_rlock

_lock = new_rlock()


def compiling() -> threading.RLock:
    """The lock of this process; a context manager. The same thread may take it again."""
    return _lock

