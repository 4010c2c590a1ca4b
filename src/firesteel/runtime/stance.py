"""The stance: whether calls may compile, process-wide. There is ours and the one that torch's own function sets."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import UserCodeError

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile",
           "aot_eager_then_compile")
Chosen = tuple[str, Any]
"""A stance and the backend that it forces, None for none."""
DEFAULT: Chosen = ("default", None)


class _State:
    __slots__ = ("own", "torchs", "stance", "backend", "eager", "plain", "profiled", "special")

    def __init__(self) -> None:
        self.own = DEFAULT
        self.torchs = DEFAULT
        """What ``torch.compiler.set_stance`` said: it counts where ours is the default."""
        self.stance = "default"
        self.backend: Any = None
        self.eager = False
        self.plain = 0
        """How many hold compiled code off."""
        self.profiled = False
        """Whether a profiler of torch's runs, which wants to see what is called."""
        self.special = False
        """Whether calls do anything but run compiled code: what every call looks at."""

    def update(self) -> None:
        self.stance, self.backend = self.own if self.own != DEFAULT else self.torchs
        self.eager = "force_eager" in (self.own[0], self.torchs[0]) or self.plain > 0
        self.special = self.eager or self.profiled


STATE = _State()


class _Frozen(threading.local):
    active = False


FROZEN = _Frozen()
"""Whether this thread uses what is compiled and compiles nothing (`fs.run`)."""


def current() -> str:
    return STATE.stance


def _set(chosen: Chosen) -> None:
    STATE.own = chosen
    STATE.update()


def torch_stance_changed(stance: str, backend: Any) -> None:
    """Told by `torch_compat` whenever the stance of torch's own compiler changes."""
    STATE.torchs = stance, backend
    STATE.update()


def profiler_changed(active: bool) -> None:
    """Told by `torch_compat` whenever a profiler starts or stops."""
    STATE.profiled = active
    STATE.update()


@contextmanager
def everything_plain() -> Iterator[None]:
    """Compiled functions run as plain Python, in all threads, so that whoever watches operators sees them."""
    STATE.plain += 1
    STATE.update()
    try:
        yield
    finally:
        STATE.plain -= 1
        STATE.update()


class set_stance:  # noqa: N801  (used like a function)
    """Choose what compiled functions may do; as a statement, a context manager or a decorator.

    "default" compiles, "force_eager" runs everything uncompiled, "eager_on_recompile" uses what is compiled and runs
    uncompiled otherwise, "fail_on_recompile" raises instead of compiling. "eager_then_compile" runs the first call of a
    function uncompiled and compiles at the second, with symbols for what differs between the two;
    "aot_eager_then_compile" is the same here.

    ``force_backend`` names the backend of everything that is compiled meanwhile. ``torch.compiler.set_stance`` counts
    as well, where this one was not called. Guards are always evaluated, so ``skip_guard_eval_unsafe`` changes nothing.

    >>> with set_stance("force_eager"):
    ...     current()
    'force_eager'
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False,
                 force_backend: Any = None) -> None:
        if stance not in STANCES:
            raise UserCodeError(f"unknown stance {stance!r}", f"choose one of {', '.join(STANCES)}")
        if force_backend is not None and stance != "default":
            raise UserCodeError(f"force_backend with the stance {stance!r}", 'it needs the stance "default"')
        self.stance: Chosen = (stance, force_backend)
        self.previous = STATE.own
        _set(self.stance)

    def __enter__(self) -> set_stance:
        _set(self.stance)
        return self

    def __exit__(self, *exc: object) -> None:
        _set(self.previous)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _set(self.previous)

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            previous = STATE.own
            _set(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _set(previous)

        return wrapped
