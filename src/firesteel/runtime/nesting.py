"""How deep a thread is in compiled calls that call each other between graphs."""

from __future__ import annotations

import threading


class _Nesting(threading.local):
    depth = 0


NESTING = _Nesting()
MAX_NESTING = 50
"""A compiled call takes several Python frames. Deeper calls run uncompiled, so that programs which recurse deeply, but
within Python's limit, stay within it."""
