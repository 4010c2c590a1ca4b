"""Settings, read as plain attributes: `from firesteel import config; config.recompile_limit`.

Every setting below can be assigned, changed for a while with `patch`, or given a starting value by an environment
variable FIRESTEEL_<NAME>, for example FIRESTEEL_RECOMPILE_LIMIT=16.

>>> from firesteel import config
>>> with config.patch(recompile_limit=2):
...     config.recompile_limit
2
>>> config.recompile_limit
8

Settings belong to the process, not to a thread: a compilation on any thread sees them.
"""

import difflib
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from contextlib import ContextDecorator
from typing import TYPE_CHECKING, Any, NamedTuple

from firesteel.systems import at_fork

recompile_limit: int = 8
"""How many compiled versions one function may have. Beyond it the function runs uncompiled, with one warning."""

accumulated_recompile_limit: int = 256
"""How many compiled versions one function and all continuations made from it may have together."""

raise_on_internal_error: bool = False
"""Raise when firesteel itself fails. By default the frame concerned runs uncompiled, with one warning."""

on_unsupported: str = "eager"
"""What compile does on a Python, torch or platform that is not supported: "eager" says so once and runs functions
uncompiled, or without machine code where only that is missing; "raise" raises; "try" says so and goes on as if it were
supported. Free-threaded builds of Python are never tried."""

inline_depth_limit: int = 120
"""How deep calls are followed into their callees, recursion included. A deeper call is a graph break."""

dynamic_numbers: bool = True
"""A Python number that differs between two captures of the same code becomes a graph input instead of a constant."""

trace_numpy: bool = True
"""NumPy becomes part of graphs. Without it, functions of NumPy's run as they are, between two graphs."""

dynamic_shapes: str = "auto"
"""Which sizes of tensors are symbols: "auto" those that change from one call to another, "1" all that can be, "0" none.
It goes before the `dynamic` argument of compile unless it is "auto"."""

disk_cache: bool = True
"""Keep what may help the next process on disk: which sizes of a function's arguments vary."""

cache_dir: str = ""
"""The directory of that cache. The default is a directory "firesteel" in the user's cache directory."""

cache_wait: float = 60.0
"""For how many seconds at most a process waits for an entry of the cache that another one is making, before it makes
its own; 0 never waits."""

cache_secret: str = ""
"""A secret that entries of the cache are signed with, on disk, in packed files and in the remote store. Those that are
not signed with it are refused then. Empty: anybody who can write to them can have code run here."""

remote_cache: str = ""
"""A store that machines share entries of the cache through: ``redis://host:port/0`` or any path of fsspec, such as
``s3://bucket/folder``. What is missing on disk is looked for there, what is made is sent there. Empty for none."""

remote_cache_timeout: float = 1.0
"""Seconds that one look into the remote cache may take; a store that is slower, or fails, is left alone for a while."""

keep_freed_memory: int = 256 << 20
"""Bytes of freed memory that the process keeps, once something was compiled to machine code, instead of returning them
to the system after every call; 0 leaves the C library alone. Linux with glibc only, and not where its environment
variables say otherwise. What is set when compile is first called counts."""

compile_processes: bool = True
"""Compile GPU kernels in processes of their own where there are four processors or more; otherwise in threads."""

cudagraphs: bool = True
"""Record CUDA graphs where the mode asks for them (``mode="reduce-overhead"``)."""

check_bounds: bool = False
"""Compile kernels for CPUs that look at every address before they use it: an access outside of its buffer raises a
RuntimeError that names kernel, buffer and element. Several times slower, for looking for errors in firesteel itself. It
counts for what is compiled while it is set; kernels for GPUs have no such checks, only `check_indices`."""

check_indices: bool = True
"""Kernels for GPUs look at indices that data decides on, and stop the program where one is out of range, as eager's do,
with a message that names the line of the program. Without it such an index reads or changes some other element. It
counts for what is compiled while it is set."""

verify: bool = False
"""Check after every stage of a compilation that what it made is well formed: functional graphs, loop IR, plans. For
looking for errors in firesteel itself, whose tests run with it."""

perf_map: bool = False
"""Write what machine code is called to /tmp/perf-PID.map, where ``perf report`` looks on Linux. It counts for what is
compiled or loaded while it is set."""

progress: bool = True
"""Show a line about compilations that take longer than two seconds, in terminals and notebooks only."""

debug_dir: str = ""
"""A directory that gets a folder for each compilation with what every stage made of it. Empty for none."""

repro: str = ""
"""A folder that gets a script for each failure of firesteel's own, which fails in the same way when plain python runs
it; "1" is the folder firesteel_repro. Empty for none. `fs.repro` sets it for a while, `firesteel minify` makes such
scripts small."""

explain_guard: str = ""
"""A guard on sizes, such as "s2 == s4": when it is born, the user's stack and firesteel's own are printed."""

print_replay: bool = True
"""Printing and logging of plain values does not break the graph: the output is replayed after it, in order."""

capture_branches: bool = False
"""A Python ``if`` on the value of a tensor becomes a ``cond`` of the graph where neither branch has side effects. The
option of the same name of compile goes before it."""

assume_branches: bool = True
"""A Python ``if`` on a flag of a tensor (``mask.any()``, ``x.sum() == 0``) goes the way in the graph that it goes in
the call that is captured. A call in which it goes the other way runs uncompiled; after the second of these it is a
break."""

compile_after: float = 2.0
"""For how many seconds the calls of a function must be likely to go on before it is compiled: short programs end before
compiling could pay. That is the time until the loops around end, where they say so, and otherwise as long as its calls
have taken so far, plain. Once something has been compiled, half of it counts; functions whose calls take longer than
0.1 s are compiled in the third of them where no loop ends soon. With 0 the first call is compiled. So it is, whatever
stands here, with ``tier="wait"``, `fullgraph=True`, a backend, a mode or options of `fs.compile`, and while a log is
switched on."""

agree_across_ranks: bool = False
"""Where `torch.distributed` is initialised, ranks decide together: sizes that differ between them vary for all of them
from the first compilation on, what `max_autotune` measures on one counts for those of the same kind, and a function
that one of them compiles no more is compiled no more on the others when they would compile it again. Nothing is
compiled later than in its first call then, or measured against plain Python. Set it alike on all ranks."""

agree_wait: float = 20.0
"""For how many seconds at most a rank waits before it compiles a function for the first time, until all others have
come to that, too, with `agree_across_ranks`."""

retire_slow: bool = True
"""A function that ran uncompiled before, or whose graphs break, is timed against plain Python over a few of its calls
(with the backend "native", on CPUs), and runs uncompiled from then on if that is faster. FIRESTEEL_LOGS=fallbacks says
so."""

native_guards: str = "auto"
"""Whether guards become native code: "auto" once an entry has been used a few times, "always" on its first use, "never"
leaves them as generated Python. What native code cannot check stays Python in any case."""

verbose: bool = False
"""Show the full traceback, with firesteel's own frames, in warnings about failures of firesteel and of backends."""

default_backend: str = "native"
"""The backend that compile uses when none is named: "native" compiles graphs to machine code, "eager" runs them
operator by operator."""

# Names that torch users know. They have no value of their own and read and write the setting behind them.

cache_size_limit: int
"""Another name of recompile_limit."""

suppress_errors: bool
"""The opposite of raise_on_internal_error: true means that an internal failure falls back to uncompiled code."""


class _Alias(NamedTuple):
    target: str
    convert: Callable[[Any], Any]  # its own inverse, so that it serves reading and writing


def _same(value: Any) -> Any:
    return value


def _opposite(value: Any) -> Any:
    # What is not a truth value is passed on for the type check to refuse.
    return not value if isinstance(value, bool) else value


_ALIASES = {
    "cache_size_limit": _Alias("recompile_limit", _same),
    "suppress_errors": _Alias("raise_on_internal_error", _opposite),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "native_guards": ("auto", "always", "never"),
    "dynamic_shapes": ("auto", "0", "1"),
    "on_unsupported": ("eager", "raise", "try"),
}
_TYPES: dict[str, type] = {
    name: type(value)
    for name, value in list(globals().items())
    if name.islower() and not name.startswith("_") and type(value) in (bool, int, float, str)
}
_DEFAULTS = {name: globals()[name] for name in _TYPES}


def is_default(name: str) -> bool:
    """Whether a setting has the value that it has when nobody says anything.

    >>> from firesteel import config
    >>> config.is_default("recompile_limit")
    True
    """
    return bool(globals()[name] == _DEFAULTS[name])


class _Layer:
    """What one active patch did to one setting: the value to return to when it ends."""

    __slots__ = ("saved",)

    def __init__(self, saved: object) -> None:
        self.saved = saved


# Active patches of each setting, oldest first. Threads may end theirs in any order.
_layers: dict[str, list[_Layer]] = {name: [] for name in _TYPES}
_lock = threading.RLock()
at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]  # its holder is not there


def _unknown(name: str) -> AttributeError:
    known = sorted([*_TYPES, *_ALIASES])
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "the settings are " + ", ".join(known)
    return AttributeError(f"firesteel.config has no setting {name!r}; {hint}")


def _resolve(name: str, value: object) -> tuple[str, object]:
    """The setting behind a name and the value to store there, checked."""
    given = name, value
    if alias := _ALIASES.get(name):
        name, value = alias.target, alias.convert(value)
    expected = _TYPES.get(name)
    if expected is None:
        raise _unknown(name)
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        raise TypeError(f"firesteel.config.{given[0]} is of type {expected.__name__}, got {given[1]!r}")
    choices = _CHOICES.get(name)
    if choices is not None and value not in choices:
        raise ValueError(f"firesteel.config.{given[0]} is one of {', '.join(map(repr, choices))}, got {given[1]!r}")
    return name, value


class Patch(ContextDecorator):
    """Settings that hold inside a with block or during each call of a decorated function. Made by `patch`."""

    def __init__(self, changes: Mapping[str, object]) -> None:
        self._changes = dict(_resolve(name, value) for name, value in changes.items())
        self._entered: list[dict[str, _Layer]] = []  # a stack: the same object may be entered again inside itself

    def _recreate_cm(self) -> "Patch":
        # Each call of a decorated function gets a patch of its own, so that recursion and threads do not mix.
        return Patch(self._changes)

    def __enter__(self) -> None:
        values = globals()
        layers: dict[str, _Layer] = {}
        with _lock:
            for name, value in self._changes.items():
                layers[name] = _Layer(values[name])
                _layers[name].append(layers[name])
                values[name] = value
            self._entered.append(layers)

    def __exit__(self, *_exception: object) -> None:
        values = globals()
        with _lock:
            for name, layer in self._entered.pop().items():
                stack = _layers[name]
                at = stack.index(layer)
                del stack[at]
                if at == len(stack):
                    values[name] = layer.saved
                else:
                    # A patch begun later, on another thread, still holds. It now returns to what we would have.
                    stack[at].saved = layer.saved


def names() -> tuple[str, ...]:
    """The names of all settings."""
    return tuple(_TYPES)


def values() -> tuple[object, ...]:
    """The values of all settings, to be compared with those of another time.

    >>> before = values()
    >>> with patch(recompile_limit=3):
    ...     values() == before
    False
    """
    table = globals()
    return tuple([table[name] for name in _TYPES])


def patch(changes: Mapping[str, object] | None = None, /, **named_changes: object) -> Patch:
    """Change settings for a while, as a context manager or as a decorator of plain functions.

    Afterwards each setting has the value it had before, also after an exception and also if it was assigned meanwhile.

    >>> from firesteel import config
    >>> @config.patch({"verbose": True})
    ... def report():
    ...     return config.verbose
    >>> report(), config.verbose
    (True, False)
    """
    return Patch({**(changes or {}), **named_changes})


class _ConfigModule(types.ModuleType):
    """The class of this module: assignment refuses unknown names and wrong types."""

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            super().__setattr__(*_resolve(name, value))

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *_ALIASES])


if not TYPE_CHECKING:  # a type checker that saw this function would accept any name

    # Of the module, not of its class: there it would make every read of a setting three times as slow.
    def __getattr__(name):
        if alias := _ALIASES.get(name):
            return alias.convert(globals()[alias.target])
        raise _unknown(name)


_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _parse(text: str, expected: type) -> object:
    if expected is bool:
        return _WORDS[text.strip().lower()]
    return expected(text)


def _read_environment(environment: Mapping[str, str]) -> None:
    values = globals()
    for name in [*_TYPES, *_ALIASES]:
        variable = f"FIRESTEEL_{name.upper()}"
        if (text := environment.get(variable)) is None:
            continue
        expected = _TYPES[_ALIASES[name].target if name in _ALIASES else name]
        try:
            target, value = _resolve(name, _parse(text, expected))
        except (KeyError, ValueError):
            words = _WORDS if expected is bool else _CHOICES.get(name)
            kind = "one of " + ", ".join(words) if words is not None else f"of type {expected.__name__}"
            # one line: an error here would be a traceback through the imports of the program
            from firesteel.errors import warn

            warn(f"environment variable {variable}={text!r} must be {kind}; it is ignored")
            continue
        values[target] = value
    _warn_of_unknown(environment)


_OTHER_VARIABLES = ("LOGS", "BREAK_AT_EVERY", "MATRIX", "OP_DB_DEVICE", "SPECIAL_EAGER", "UPDATE_GOLDEN")
"""Read elsewhere: by the logs, and by firesteel's own tests and scripts."""


def _warn_of_unknown(environment: Mapping[str, str]) -> None:
    """One warning for all variables that look as if they were ours and are not."""
    known = {name.upper() for name in (*_TYPES, *_ALIASES, *_OTHER_VARIABLES)}
    described = []
    for variable in sorted(environment):
        name = variable.removeprefix("FIRESTEEL_")
        if name != variable and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1)
            described.append(variable + (f" (did you mean FIRESTEEL_{close[0]}?)" if close else ""))
    if described:
        from firesteel.errors import warn

        several = len(described) > 1
        warn(f"firesteel knows no environment variable{'s' * several} {', '.join(described)}; "
             f"{'they are' if several else 'it is'} ignored")


_read_environment(os.environ)
sys.modules[__name__].__class__ = _ConfigModule
