"""Logs by subject, switched on with FIRESTEEL_LOGS="guards,recompiles" or `set_logs`.

Each subject has a standard logger, `firesteel.<subject>`. It is silent until the subject is switched on, and then
writes to standard error, every line marked with the subject so that `grep` can take logs apart again:

    [recompiles] f (model.py:12): x.shape[0] == 4 failed, got 8

FIRESTEEL_LOGS=help prints the subjects, "all" is all of them. "+guards" says more about a subject (the level DEBUG of
its logger) and "all,-kernels" leaves one out.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys
from collections.abc import Iterable, Mapping

ARTIFACTS: dict[str, str] = {
    "graph_breaks": "why a graph was broken, with the user's stack",
    "recompiles": "why a function was compiled again: the guard that failed",
    "guards": "the guards of each compiled entry",
    "graphs": "each captured graph as Python code",
    "kernels": "kernels as loops, what is fused into them, and the program around them",
    "code": "generated code: the entry with its guards around each graph, and the host program around kernels",
    "times": "how long each compilation took, and its stages",
    "fallbacks": "operators that are called in ATen between kernels, and why",
    "autotune": "alternatives that were measured for max_autotune, with their times",
    "shapes": "symbols made for sizes, guards on them with the user's line, symbols that became constants",
    "cache": "what the cache on disk recalled, and why it refused or could not keep an entry",
}
"""The subjects there are, each with what its log shows."""

MORE: dict[str, str] = {
    "graph_breaks": "all lines of the program that led there",
    "recompiles": "the lines that made each guard",
    "guards": "the lines of the program that made each",
    "graphs": "each as functional ATen graph behind its passes, forward and backward apart",
    "code": "what is compiled to machine code, as LLVM or Triton source",
    "times": "every stage and pass when it ends",
}
"""What "+subject" shows besides."""

_enabled: set[str] = set()
_detailed: set[str] = set()


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


def detailed(artifact: str) -> bool:
    """Whether a subject is switched on with a "+"."""
    return artifact in _detailed


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


def detail(artifact: str, message: str, *args: object) -> None:
    """The same for what only "+subject" shows."""
    if artifact in _detailed:
        logging.getLogger(f"firesteel.{artifact}").debug(message, *args)


def set_logs(names: str | Iterable[str] = (), /, **flags: bool | int) -> None:
    """Switch on the subjects that are named and all others off. Without arguments, everything off.

    "+name" (or ``name=logging.DEBUG``) says more, "all" is every subject, and "-name" takes one away.

    >>> set_logs(guards=True, recompiles=True)
    >>> set_logs("+guards,recompiles")
    >>> enabled("guards"), detailed("guards"), detailed("recompiles"), enabled("kernels")
    (True, True, False, False)
    >>> set_logs()
    """
    listed = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    levels = _levels([name for name in listed if name], flags)
    for name in ARTIFACTS:
        target = logging.getLogger(f"firesteel.{name}")
        if name in levels:
            target.addHandler(_handler)  # adding a second time does nothing
            target.setLevel(levels[name])
        elif name in _enabled:
            target.removeHandler(_handler)
            target.setLevel(logging.NOTSET)
        # While our handler writes, a handler on the root logger would show each line a second time.
        target.propagate = name not in levels
    _enabled.clear()
    _enabled.update(levels)
    _detailed.clear()
    _detailed.update(name for name, level in levels.items() if level <= logging.DEBUG)


def _levels(listed: Iterable[str], flags: Mapping[str, bool | int]) -> dict[str, int]:
    """The subjects that are asked for, with the levels of their loggers."""
    levels: dict[str, int] = {}
    for written in listed:
        sign, name = (written[0], written[1:].strip()) if written[0] in "+-" else ("", written)
        for one in ARTIFACTS if name == "all" else [name]:
            _check([one])
            if sign == "-":
                levels.pop(one, None)
            else:
                levels[one] = logging.DEBUG if sign == "+" else logging.INFO
    _check(flags)
    for name, wanted in flags.items():
        if wanted is False or not isinstance(wanted, bool) and wanted > logging.CRITICAL:
            levels.pop(name, None)
        else:
            levels[name] = logging.DEBUG if not isinstance(wanted, bool) and wanted <= logging.DEBUG else logging.INFO
    return levels


def help_text() -> str:
    """What FIRESTEEL_LOGS accepts."""
    width = max(map(len, ARTIFACTS)) + 1
    lines = [f"  {name:<{width}}  {about}" for name, about in ARTIFACTS.items()]
    more = [f"  {'+' + name:<{width}}  {about}" for name, about in MORE.items()]
    return "\n".join(['FIRESTEEL_LOGS is a list such as "graph_breaks,recompiles"; "all" is everything, "all,-kernels" '
                      "everything else. Subjects:", *lines, "With more:", *more])


def _check(names: Iterable[str]) -> None:
    for name in names:
        if name not in ARTIFACTS:
            close = difflib.get_close_matches(name, ARTIFACTS, n=1)
            guess = f"did you mean {close[0]!r}? " if close else ""
            raise ValueError(f"there is no log named {name!r}; {guess}the logs are {', '.join(ARTIFACTS)}, all")


def _read_environment(text: str) -> None:
    if text.strip() == "help":
        print(help_text(), file=sys.stderr)
        return
    known, unknown = [], []
    for name in filter(None, map(str.strip, text.split(","))):
        try:
            _levels([name], {})
            known.append(name)
        except ValueError as error:
            unknown.append(str(error))
    set_logs(known)
    if unknown:  # one line: an error here would be a traceback through the imports of the program
        from firesteel.errors import warn

        warn(f"environment variable FIRESTEEL_LOGS={text!r}: {'; '.join(unknown)}")


if _setting := os.environ.get("FIRESTEEL_LOGS"):
    _read_environment(_setting)
