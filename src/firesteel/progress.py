"""A line that says how far a compilation is that takes longer than two seconds, in terminals and notebooks.

    compiling GPT.forward (train.py:33): generate, 31 of 48 kernels, 6.2 s

A thread beside the compilation waits until it is worth showing, shows it, and takes the line away when the compilation
ends, however it does. Where standard error is neither a terminal nor a notebook's there is no thread and no line.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from . import config, stage_times
from .events import OBSERVERS, Observer
from .stage_times import Going

AFTER = 2.0
"""Seconds that nobody is told about."""
EVERY = 0.2
"""Seconds between two looks at the compilation."""
LONGEST_END = 2.0
"""Seconds that a compilation waits for its line to go."""
NAME = "firesteel shows progress"


def install() -> None:
    """Show compilations from now on."""
    if watch not in stage_times.WATCHERS:
        stage_times.WATCHERS.append(watch)


def watch(going: Going) -> Any:
    """Begin to watch a compilation, if there is somewhere to show it; returns what ends that."""
    if not config.progress or place() is None:
        return None
    return _Watch(going).stop


def place() -> str | None:
    """Whether people look at a "terminal" or a "notebook" now."""
    notebook: Any = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if notebook is not None and type(notebook()).__name__ == "ZMQInteractiveShell":
        return "notebook"
    try:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed, or something of the program's in its place
        return None
    return "terminal" if is_terminal and os.environ.get("TERM") != "dumb" else None


def other_threads() -> bool:
    """Whether there are threads beside this one and those that show progress."""
    count = threading.active_count()
    return count > 1 and count - sum(thread.name == NAME for thread in threading.enumerate()) > 1


class _Kernels(Observer):
    """Counts kernels that are made in one thread."""

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.done = self.total = 0

    def note(self, kind: str, /, **what: Any) -> None:
        if kind == "kernel made" and threading.get_ident() == self.thread:
            self.done, self.total = what["done"], what["total"]


class _Watch:
    def __init__(self, going: Going) -> None:
        self.going = going
        self.kernels = _Kernels(threading.get_ident())
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """The compilation is over, or has been left."""
        self.ended.set()
        self.thread.join(LONGEST_END)

    def _run(self) -> None:
        if self.ended.wait(AFTER):
            return
        OBSERVERS.append(self.kernels)
        try:
            shown = _in_notebook() if place() == "notebook" else _in_terminal()
            try:
                while not self.ended.is_set():
                    shown.show(line(self.going, self.kernels.done, self.kernels.total))
                    self.ended.wait(EVERY)
            finally:
                shown.clear()
        except Exception:
            pass  # what cannot be shown is no reason for a compilation to fail
        finally:
            OBSERVERS.remove(self.kernels)


def line(going: Going, done: int, total: int) -> str:
    """What is said of a compilation."""
    where = going.where.rpartition(" in ")[0]
    parts = []
    spans = tuple(going.open)
    stages = [span.name for span in spans if span.kind in ("stage", "pass")]
    graphs = [type(span.graph).__name__ for span in spans if span.kind == "graph" and span.graph is not None]
    if stages:
        parts.append(stages[-1])
    if graphs:
        parts.append(f"graph {graphs[-1]}")
    if total:
        parts.append(f"{done} of {total} kernels")
    parts.append(f"{time.perf_counter() - going.began:.1f} s")
    return f"compiling {going.name}{f' ({os.path.basename(where)})' if where else ''}: {', '.join(parts)}"


class _in_terminal:  # noqa: N801  (made like a function)
    """A line at the end of standard error."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        self.live = Live(console=console, transient=True, auto_refresh=False, redirect_stdout=False,
                         redirect_stderr=False)
        self.live.start()

    def show(self, text: str) -> None:
        from rich.text import Text

        self.live.update(Text(text, style="dim", overflow="ellipsis", no_wrap=True), refresh=True)

    def clear(self) -> None:
        self.live.stop()


class _in_notebook:  # noqa: N801
    """An output of the cell that is replaced again and again."""

    def __init__(self) -> None:
        self.handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import display  # type: ignore[import-not-found]
        from rich.text import Text

        shown = Text(text, style="dim")
        if self.handle is None:
            self.handle = display(shown, display_id=True)
        else:
            self.handle.update(shown)

    def clear(self) -> None:
        from rich.text import Text

        if self.handle is not None:
            self.handle.update(Text(""))
