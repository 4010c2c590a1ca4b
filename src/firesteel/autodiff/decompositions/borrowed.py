"""Operators for which torch's own decomposition gives eager's results."""

from __future__ import annotations

BORROWED: frozenset[str] = frozenset()
