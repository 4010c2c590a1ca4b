"""The operator samples that the torch wheel carries for its own tests, and a choice among them."""

from __future__ import annotations

import os
import sys
import types
import unittest
from collections.abc import Sequence
from typing import Any

import torch

DEVICE = os.environ.get("FIRESTEEL_OP_DB_DEVICE", "cpu")


def load_op_db() -> list[Any]:
    """The operator samples that the torch wheel carries. They import one test package, of which they need one class."""
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db

    return op_db


def operators(only: str = "") -> list[Any]:
    """The operators whose names contain a text, by name."""
    return sorted((op for op in load_op_db() if only in op.formatted_name), key=lambda op: op.formatted_name)


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Some of the items, the first and the last among them.

    >>> spread(range(9), 3)
    [0, 4, 8]
    """
    if len(items) <= count:
        return list(items)
    return [items[round(k * (len(items) - 1) / max(count - 1, 1))] for k in range(count)]


def samples_of(op: Any, dtype: torch.dtype, count: int) -> list[tuple[int, Any]]:
    """Numbered samples of an operator, spread over all of them."""
    try:
        found = list(zip(range(200), op.sample_inputs(DEVICE, dtype, requires_grad=False), strict=False))
    except Exception:  # some sample functions need packages that are not here
        return []
    return spread(found, count)
