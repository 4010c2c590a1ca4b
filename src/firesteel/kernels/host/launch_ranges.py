"""Launches of kernels as ranges of torch's profilers.

The host machine looks at one word before each launch. While a profiler runs the word is not zero, and the machine calls
the two functions here, with the number by which the launch is known. Functions of firesteel's own that host programs
call beside kernels (matrix products) are replaced by such as say what they do, for that time.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from ...torch_compat.profilers import follow_profilers, profiler_range, profiler_runs

_NAMES: list[str] = []
_NUMBERS: dict[str, int] = {}


class _Open(threading.local):
    def __init__(self) -> None:
        self.ranges: list[Any] = []


_OPEN = _Open()


def number_of(name: str) -> int:
    """The number by which launches with this name are known."""
    number = _NUMBERS.get(name)
    if number is None:
        number = _NUMBERS.setdefault(name, len(_NAMES))
        _NAMES.append(name)
    return number


def begin(number: int) -> None:
    """A kernel is about to run."""
    launch = profiler_range(_NAMES[number])
    _OPEN.ranges.append(launch)
    launch.__enter__()


def end() -> None:
    """It has run."""
    if _OPEN.ranges:
        _OPEN.ranges.pop().__exit__(None, None, None)


_BEGIN = ctypes.PYFUNCTYPE(None, ctypes.c_int)(begin)
_END = ctypes.PYFUNCTYPE(None)(end)
_WATCH = (ctypes.c_int64 * 3)(0, ctypes.cast(_BEGIN, ctypes.c_void_p).value or 0,
                              ctypes.cast(_END, ctypes.c_void_p).value or 0)
"""Whether somebody watches, and the functions to call then."""


class _Call:
    """A function that host programs call, as a range of its own."""

    __slots__ = ("function", "name")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with profiler_range(self.name):
            return self.function(*args, **kwargs)


_FOLLOWED: weakref.WeakKeyDictionary[types.FunctionType, dict[str, str]] = weakref.WeakKeyDictionary()
"""Host programs, the globals in them that are functions of firesteel's own, and what these are called."""


def follow_calls(program: types.FunctionType, names: dict[str, str]) -> None:
    """Have the functions that a host program knows under these names be ranges while a profiler runs."""
    if names:
        _FOLLOWED[program] = names
        if profiler_runs():
            _wrap(program, names)


def _wrap(program: types.FunctionType, names: dict[str, str]) -> None:
    for known, name in names.items():
        function = program.__globals__[known]
        if type(function) is not _Call:
            program.__globals__[known] = _Call(function, f"kernel {name}")


def _set(active: bool) -> None:
    _WATCH[0] = int(active)
    for program, names in list(_FOLLOWED.items()):
        if active:
            _wrap(program, names)
        else:
            for known in names:
                function = program.__globals__[known]
                program.__globals__[known] = function.function if type(function) is _Call else function


@functools.cache
def watch_address() -> int:
    """Where the machine looks; from now on profilers are followed."""
    follow_profilers(_set)
    return ctypes.addressof(_WATCH)
