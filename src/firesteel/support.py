"""The gate: which Python, torch and platforms firesteel works on, and what it says and does on all others.

`judge` decides from plain facts; `usable_backend` and `require` act on the facts of this process, when something is to
be compiled or exported. A call of a compiled function never comes here.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any

from . import config
from .errors import UnsupportedError, warn
from .records import dataclass
from .tested_versions import NATIVE_PLATFORMS, PYTHONS, TORCHES, architecture, is_free_threaded, torch_version

EXPERIMENTAL_PYTHONS = ((3, 14),)
"""Whose bytecode is read, which was tried without torch; nothing else was."""
EXPERIMENTAL_PLATFORMS = (("linux", "aarch64"),)
"""For which there is machine code that has run in an emulator only."""


def _range(versions: tuple[tuple[int, int], tuple[int, int]]) -> str:
    return " to ".join(".".join(map(str, version)) for version in versions)


SUPPORTED = f"CPython {_range(PYTHONS)} with torch {_range(TORCHES)}, machine code on x86-64 Linux"
"""What is supported, in words."""


@dataclass(frozen=True)
class Facts:
    """What the gate looks at."""

    python: tuple[int, int]
    torch: str
    implementation: str = "cpython"
    free_threaded: bool = False
    system: str = "linux"
    """As in ``sys.platform``."""
    machine: str = "x86_64"
    missing: tuple[str, ...] = ()
    """Private names without which nothing is captured, and that this torch has no more."""
    missing_for_machine_code: tuple[str, ...] = ()
    """The same for names that only machine code needs."""


@dataclass(frozen=True)
class Verdict:
    """What works under some facts."""

    reason: str = ""
    """What is not as tested; empty where everything is."""
    compiles: bool = True
    """Whether programs are captured at all."""
    machine_code: bool = True
    """Whether there is machine code: the native backend and native guards."""
    can_be_tried: bool = True
    """Whether ``config.on_unsupported = "try"`` goes on all the same."""

    @property
    def sentence(self) -> str:
        """What the user is told, once."""
        if not self.compiles:
            consequence = "so functions run uncompiled and cannot be exported"
        elif not self.machine_code:
            consequence = "so graphs are captured and run operator by operator"
        else:
            consequence = "but firesteel goes on"
        return f"{self.reason}, {consequence}. Supported: {SUPPORTED}."


@functools.cache
def judge(facts: Facts) -> Verdict:
    """What works under these facts.

    >>> judge(Facts((3, 12), "2.13.0"))
    Verdict(reason='', compiles=True, machine_code=True, can_be_tried=True)
    >>> print(judge(Facts((3, 12), "2.4.1")).reason)
    firesteel does not work with torch 2.4.1
    """
    python, torch = ".".join(map(str, facts.python)), torch_version(facts.torch)
    if facts.implementation != "cpython":
        return Verdict(f"firesteel works on CPython, not on {facts.implementation}", False, False, False)
    if facts.free_threaded:
        return Verdict(f"firesteel does not work on free-threaded builds such as this Python {python}t",
                       False, False, False)
    if not PYTHONS[0] <= facts.python <= PYTHONS[1] and facts.python not in EXPERIMENTAL_PYTHONS:
        return Verdict(f"firesteel does not work on Python {python}", False, False)
    if torch is not None and torch < TORCHES[0]:
        return Verdict(f"firesteel does not work with torch {facts.torch}", False, False)
    if facts.missing:
        return Verdict(_missing_text(facts.torch, facts.missing), False, False, False)
    if facts.python in EXPERIMENTAL_PYTHONS:
        return Verdict(f"firesteel on Python {python} is experimental and compiles only with "
                       'config.on_unsupported = "try"', False, False)
    platform = facts.system, architecture(facts.machine)
    if platform in EXPERIMENTAL_PLATFORMS:
        return Verdict(f"machine code of firesteel for {_platform_name(facts)} is experimental and made only with "
                       'config.on_unsupported = "try"', True, False)
    if platform not in NATIVE_PLATFORMS:
        return Verdict(f"firesteel has no machine code for {_platform_name(facts)}", True, False)
    if facts.missing_for_machine_code:
        return Verdict(_missing_text(facts.torch, facts.missing_for_machine_code), True, False, False)
    if torch is None or torch > TORCHES[1]:
        return Verdict(f"firesteel has not been tested with torch {facts.torch}")
    return Verdict()


def _missing_text(version: str, names: tuple[str, ...]) -> str:
    """
    >>> _missing_text("2.16.0", ("torch._C._dispatch_keys",))
    'torch 2.16.0 has no torch._C._dispatch_keys, which firesteel needs'
    """
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more names" if len(names) > 3 else "")
    return f"torch {version} has no {shown}, which firesteel needs"


def _platform_name(facts: Facts) -> str:
    system = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}.get(facts.system, facts.system)
    return f"{system} on {facts.machine}"


def visible_facts() -> Facts:
    """The facts of this process, without those that need all of torch to be looked at."""
    import platform

    import torch

    return Facts(sys.version_info[:2], str(torch.__version__), sys.implementation.name, is_free_threaded(),
                 sys.platform, platform.machine())


@functools.cache
def facts() -> Facts:
    """The facts of this process."""
    seen = visible_facts()
    if not judge(seen).compiles:
        return seen  # reason enough
    try:
        from .torch_compat import private_names
    except ImportError as error:
        names = getattr(error, "names", None)
        if names is None:
            raise
        return dataclasses.replace(seen, missing=names)
    lacking = [name for need in (private_names.Need.MACHINE_CODE, private_names.Need.GPU)
               for name in private_names.missing(need)]
    return dataclasses.replace(seen, missing_for_machine_code=tuple(lacking))


def verdict() -> Verdict:
    """What works in this process, with the setting `config.on_unsupported` taken into account."""
    judged = judge(facts())
    if judged.reason and judged.can_be_tried and config.on_unsupported == "try":
        return Verdict(judged.reason)
    return judged


_said: set[str] = set()


def _say(verdict: Verdict) -> None:
    """One warning a process, or an error where the setting asks for that."""
    if verdict.reason:
        if config.on_unsupported == "raise" and not (verdict.compiles and verdict.machine_code):
            raise UnsupportedError(verdict.sentence)
        if verdict.sentence not in _said:
            _said.add(verdict.sentence)
            warn(verdict.sentence)


def require(machine_code: bool = False) -> None:
    """For what has no uncompiled form, such as export: an error where it cannot be had."""
    judged = verdict()
    if not judged.compiles or (machine_code and not judged.machine_code):
        raise UnsupportedError(judged.sentence)
    if judged.machine_code:
        _say(judged)


def usable_backend(backend: Any) -> Any:
    """The backend to use in place of one that was asked for, by name or as a function."""
    judged = verdict()
    needs_machine_code = backend == "native"
    if needs_machine_code or judged.machine_code:
        _say(judged)
    return "eager" if needs_machine_code and not judged.machine_code else backend


def compile_nothing(model: Any = None, **_options: Any) -> Any:
    """`fs.compile` where nothing can be compiled: what it is given, as it is."""
    _say(verdict())
    return (lambda target: target) if model is None else model


class Unavailable:
    """A name of the package that has no meaning where programs cannot be captured: every use raises."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        require()
        raise UnsupportedError(f"firesteel.{self.__name__} cannot be used here")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()


def _same(fn: Any = None, **_options: Any) -> Any:
    return _same if fn is None else fn


def _nothing(*_args: Any, **_options: Any) -> None:
    return None


def _never(*_args: Any) -> bool:
    return False


STAND_INS: dict[str, Callable[..., Any]] = {
    "compile": compile_nothing,
    **{name: _same for name in ("allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "run")},
    **{name: _nothing for name in ("graph_break", "mark_dynamic", "mark_static", "maybe_mark_dynamic", "reset",
                                   "set_logs")},
    "is_compiling": _never,
    "restore_torch": lambda: [],
    **{name: Unavailable(name) for name in ("CompileProfiler", "capture_graph", "explain", "export")},
}
"""What names of the package stand for where programs cannot be captured: there the modules behind them may not even be
importable, and programs that use them are to run as plain Python."""
