"""Huge pages for large memory: a page fault for every 4 KiB takes longer than filling it."""

from __future__ import annotations

LARGE = 1 << 22
"""Bytes from which on memory is asked to have huge pages."""
_PAGE, _ADVICE = 4096, 14
"""The size of a page and Linux's number for ``MADV_HUGEPAGE``."""
VALUES = {"LARGE": LARGE, "PAGE_REST": _PAGE - 1, "PAGE_MASK": -_PAGE, "HUGE_PAGES": _ADVICE}
"""For the ``.ll`` files that ask."""
