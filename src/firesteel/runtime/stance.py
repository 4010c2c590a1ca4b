"""The stance: whether calls may compile, process-wide."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import UserCodeError

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")


class _State:
    __slots__ = ("stance", "eager", "plain")

    def __init__(self) -> None:
        self.stance = "default"
        self.eager = False
        self.plain = 0
        """How many hold compiled code off."""


STATE = _State()


def current() -> str:
    return STATE.stance


def _set(stance: str) -> None:
    STATE.stance = stance
    STATE.eager = stance == "force_eager" or STATE.plain > 0


@contextmanager
def everything_plain() -> Iterator[None]:
    """Compiled functions run as plain Python, in all threads, so that whoever watches operators sees them."""
    STATE.plain += 1
    _set(STATE.stance)
    try:
        yield
    finally:
        STATE.plain -= 1
        _set(STATE.stance)


class set_stance:  # noqa: N801  (used like a function)
    """Choose what compiled functions may do; as a statement, a context manager or a decorator.

    "default" compiles, "force_eager" runs everything uncompiled, "eager_on_recompile" uses what is compiled and runs
    uncompiled otherwise, "fail_on_recompile" raises instead of compiling a second version.

    >>> with set_stance("force_eager"):
    ...     current()
    'force_eager'
    """

    def __init__(self, stance: str = "default") -> None:
        if stance not in STANCES:
            raise UserCodeError(f"unknown stance {stance!r}", f"choose one of {', '.join(STANCES)}")
        self.stance = stance
        self.previous = STATE.stance
        _set(stance)

    def __enter__(self) -> set_stance:
        _set(self.stance)
        return self

    def __exit__(self, *exc: object) -> None:
        _set(self.previous)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _set(self.previous)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            previous = STATE.stance
            _set(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _set(previous)

        return wrapped
