"""Warnings of torch's functions that are written in Python: they name sizes, and come in each call.

A captured graph would issue them once too often, for fake tensors, or never again. The call is left to Python.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

_FILES = frozenset({torch.nn.functional.__file__, torch.functional.__file__})


class Warns(BaseException):
    """A function of torch is about to warn. No ``except`` of torch's own is to catch it."""


def run_or_warn(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of torch; raises `Warns` in the place of a warning that it issues itself."""
    thread = threading.get_ident()
    issue: Any = warnings.warn

    def warn(message: Any, category: Any = None, stacklevel: int = 1, *more: Any, **named: Any) -> None:
        if threading.get_ident() == thread and sys._getframe(1).f_code.co_filename in _FILES:
            raise Warns(str(message))
        issue(message, category, stacklevel + 1, *more, **named)

    warnings.warn = warn  # type: ignore[assignment]
    try:
        return function(*args, **kwargs)
    finally:
        warnings.warn = issue
