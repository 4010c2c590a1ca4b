"""torch's control flow functions while a program runs to be traced: they do what firesteel's do.

The program may have got hold of them in any way, so their code is exchanged, not the names they go by.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from ..locks import new_rlock

_lock = new_rlock()


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    from firesteel.control_flow import cond

    return cond(pred, true_fn, false_fn, operands)


def _map(f: Any, xs: Any, *args: Any) -> Any:
    from firesteel.control_flow import map

    return map(f, xs, *args)


def _while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    from firesteel.control_flow import while_loop

    return while_loop(cond_fn, body_fn, carried_inputs)


def _scan(combine_fn: Any, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> Any:
    from firesteel.control_flow import scan

    return scan(combine_fn, init, xs, dim=dim, reverse=reverse)


def _associative_scan(combine_fn: Any, xs: Any, dim: int, reverse: bool = False,
                      combine_mode: str = "pointwise") -> Any:
    from firesteel.control_flow import associative_scan

    return associative_scan(combine_fn, xs, dim, reverse=reverse, combine_mode=combine_mode)


_OURS = {"cond": _cond, "map": _map, "while_loop": _while_loop, "scan": _scan, "associative_scan": _associative_scan}


@contextlib.contextmanager
def recognising_control_flow() -> Iterator[None]:
    """While this is entered, torch's functions call firesteel's, for all who call them."""
    with _lock:
        changed: list[tuple[FunctionType, CodeType]] = []
        for name, ours in _OURS.items():
            module = sys.modules.get(f"torch._higher_order_ops.{name}")
            function = getattr(module, name, None)
            if isinstance(function, FunctionType) and function.__code__.co_freevars == ():
                changed.append((function, function.__code__))
                function.__code__ = ours.__code__  # type: ignore[attr-defined]
        try:
            yield
        finally:
            for function, code in changed:
                function.__code__ = code
