"""Logs by subject, switched on with FIRESTEEL_LOGS="guards,recompiles" or `set_logs`.

Each subject has a standard logger, `firesteel.<subject>`. It is silent until the subject is switched on, and then
writes to standard error, every line marked with the subject so that `grep` can take logs apart again:

    [recompiles] f (model.py:12): x.shape[0] == 4 failed, got 8

FIRESTEEL_LOGS=help prints the subjects.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Iterable

ARTIFACTS: dict[str, str] = {
    "graph_breaks": "why a graph was broken, with the user's stack",
    "recompiles": "why a function was compiled again: the guard that failed",
    "guards": "the guards of each compiled entry",
    "graphs": "each captured graph as Python code",
    "kernels": "the source of generated kernels",
    "fallbacks": "operators that are called in ATen between kernels, and why",
    "autotune": "alternatives that were measured for max_autotune, with their times",
    "shapes": "symbols made for sizes, guards on them with the user's line, symbols that became constants",
    "cache": "what the cache on disk recalled, and why it refused or could not keep an entry",
}
"""The subjects there are, each with what its log shows."""

_enabled: set[str] = set()


class _Handler(logging.Handler):
    """Writes to whatever sys.stderr is at that moment, so that redirection and test capture work."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            mark = f"[{record.name.rpartition('.')[2]}]"
            text = self.format(record)
            sys.stderr.write("".join(f"{mark} {line}".rstrip() + "\n" for line in text.split("\n")))
        except Exception:  # a log line must not stop the program; logging decides whether to show the problem
            self.handleError(record)


_handler = _Handler()


def enabled(artifact: str) -> bool:
    """Whether a subject is switched on. Cheap: ask before formatting anything.

    >>> enabled("guards")
    False
    """
    return artifact in _enabled


def any_enabled() -> bool:
    """Whether any subject is switched on."""
    return bool(_enabled)


def logger(artifact: str) -> logging.Logger:
    """The standard logger of a subject."""
    _check([artifact])
    return logging.getLogger(f"firesteel.{artifact}")


def log(artifact: str, message: str, *args: object) -> None:
    """Log a message, formatted as `message % args`, if the subject is switched on."""
    if artifact in _enabled:
        logging.getLogger(f"firesteel.{artifact}").info(message, *args)


def set_logs(names: str | Iterable[str] = (), /, **flags: bool) -> None:
    """Switch on the subjects that are named and all others off. Without arguments, everything off.

    >>> set_logs(guards=True, recompiles=True)
    >>> set_logs("guards,recompiles")
    >>> enabled("guards"), enabled("kernels")
    (True, False)
    >>> set_logs()
    """
    listed = names.split(",") if isinstance(names, str) else names
    asked = {name.strip(): True for name in listed if name.strip()} | flags
    _check(asked)
    wanted = {name for name, on in asked.items() if on}
    for name in ARTIFACTS:
        target = logging.getLogger(f"firesteel.{name}")
        if name in wanted:
            target.addHandler(_handler)  # adding a second time does nothing
            target.setLevel(logging.DEBUG)
        elif name in _enabled:
            target.removeHandler(_handler)
            target.setLevel(logging.NOTSET)
        # While our handler writes, a handler on the root logger would show each line a second time.
        target.propagate = name not in wanted
    _enabled.clear()
    _enabled.update(wanted)


def help_text() -> str:
    """What FIRESTEEL_LOGS accepts."""
    width = max(map(len, ARTIFACTS))
    lines = [f"  {name:<{width}}  {about}" for name, about in ARTIFACTS.items()]
    return "\n".join(['FIRESTEEL_LOGS is a list such as "graph_breaks,recompiles". Subjects:', *lines])


def _check(names: Iterable[str]) -> None:
    for name in names:
        if name not in ARTIFACTS:
            close = difflib.get_close_matches(name, ARTIFACTS, n=1)
            guess = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"there is no log named {name!r}; {guess}the logs are {', '.join(ARTIFACTS)}")


def _read_environment(text: str) -> None:
    if text.strip() == "help":
        print(help_text(), file=sys.stderr)
        return
    try:
        set_logs(text)
    except ValueError as error:
        raise ValueError(f"environment variable FIRESTEEL_LOGS={text!r}: {error}") from None


if _setting := os.environ.get("FIRESTEEL_LOGS"):
    _read_environment(_setting)
