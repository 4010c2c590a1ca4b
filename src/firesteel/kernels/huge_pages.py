"""Huge pages for large memory: a page fault for every 4 KiB takes longer than filling it."""

from __future__ import annotations

from ..shapes import Expr

LARGE = 1 << 22
"""Bytes from which on memory is asked to have huge pages."""
_PAGE, _ADVICE = 4096, 14
"""The size of a page and Linux's number for ``MADV_HUGEPAGE``."""
VALUES = {"LARGE": LARGE, "PAGE_REST": _PAGE - 1, "PAGE_MASK": -_PAGE, "HUGE_PAGES": _ADVICE}
"""For the ``.ll`` files that ask."""


def may_be_large(size: Expr) -> bool:
    """Whether memory of so many bytes is large, or its size is not known."""
    return not (size.is_constant and int(size) < LARGE)  # type: ignore[call-overload]
