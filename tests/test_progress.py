"""The line about long compilations: shown in terminals and notebooks, taken away again, nothing elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types

import torch

import firesteel as fs
from firesteel import progress, stage_times
from firesteel.stage_times import Going, Span

PROGRAM = """
    import time, torch, firesteel as fs
    from firesteel import progress
    progress.AFTER, progress.EVERY = 0.05, 0.02

    def slow(gm, inputs):
        time.sleep(seconds)
        return gm.forward

    def f(x):
        return x + 1

    seconds = 0.3
    print(fs.compile(f, backend=slow, fullgraph=True)(torch.ones(2)).tolist(), flush=True)
    seconds = 60
    fs.compile(f, backend=slow, fullgraph=True)(torch.ones(2))
    """
HIDE, SHOW, ERASE = "\x1b[?25l", "\x1b[?25h", "\x1b[2K"


def read_until(terminal, text, patience=60.0):
    """What a terminal shows until a text is in it, or there is no more."""
    seen, end = "", time.monotonic() + patience
    while text not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                seen += os.read(terminal, 1 << 12).decode()
            except OSError:  # nobody writes to it any more
                break
    return seen


def without_codes(text):
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


def test_a_terminal_shows_a_line_and_is_clean_again_also_after_an_interruption():
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM)], stdout=subprocess.PIPE, stderr=slave,
                               env=environment, text=True,  # the tests themselves may run where interrupts are ignored
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(slave)
    try:
        first = read_until(master, SHOW)
        second = read_until(master, "graph f")
        process.send_signal(signal.SIGINT)
        second += read_until(master, "no such text")
        assert process.communicate()[0] == "[2.0, 2.0]\n" and process.returncode == -signal.SIGINT
    finally:
        process.kill()
        os.close(master)
    assert re.search(r"compiling f \(<string>:\d+\): graph f, 0\.\d s", without_codes(first))
    assert first.index(HIDE) < first.rindex("compiling f") < first.rindex(ERASE)
    assert second.index(SHOW) < second.index("Traceback") and "KeyboardInterrupt" in second
    assert "compiling f" not in without_codes(second.partition(SHOW)[2]).partition("Traceback")[0]


class Terminal(io.StringIO):
    def isatty(self):
        super().isatty()  # raises when it is closed
        return True


def test_nothing_elsewhere(monkeypatch):
    going = Going("f", "", True, 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress.place() == "terminal"
    with fs.config.patch(progress=False):
        assert progress.watch(going) is None
    monkeypatch.setenv("TERM", "dumb")
    assert progress.watch(going) is None
    monkeypatch.setenv("TERM", "xterm")
    closed = Terminal()
    closed.close()
    for elsewhere in (io.StringIO(), closed, None, object()):
        monkeypatch.setattr(sys, "stderr", elsewhere)
        assert progress.place() is None and progress.watch(going) is None


class Slow:
    """Takes as long as the line needs to come, and keeps what it says."""

    def __init__(self):
        self.shown, self.cleared = [], 0

    def show(self, text):
        self.shown.append(text)

    def clear(self):
        self.cleared += 1


def test_stages_and_kernels_are_named(monkeypatch):
    line = Slow()
    monkeypatch.setattr(progress, "place", lambda: "terminal")
    monkeypatch.setattr(progress, "_in_terminal", lambda: line)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setattr(progress, "EVERY", 0.001)
    with fs.config.patch(disk_cache=False):
        x = torch.randn(3, 7, requires_grad=True)
        fs.compile(lambda x: torch.softmax(x.sin() * 1.75, -1).sum(), backend="native")(x).backward()
    assert line.cleared == 2 and all(text.startswith("compiling lambda") for text in line.shown)  # forward and backward
    assert any("(backward)" in text for text in line.shown)
    assert not any(thread.name == progress.NAME for thread in threading.enumerate())
    assert not any(isinstance(observer, progress._Kernels) for observer in fs.events.OBSERVERS)


def test_what_a_line_says():
    going = Going("GPT.forward", "/home/me/train.py:33 in forward", True, time.perf_counter() - 6.24)
    graph = types.SimpleNamespace()
    going.open = [Span("f", "compile", None, None), Span("native", "graph", graph, None),
                  Span("passes", "stage", None, None), Span("fuse", "pass", None, None)]
    assert progress.line(going, 31, 48) == \
        "compiling GPT.forward (train.py:33): fuse, graph SimpleNamespace, 31 of 48 kernels, 6.2 s"
    going.open = []
    assert progress.line(going, 0, 0) == "compiling GPT.forward (train.py:33): 6.2 s"


def test_notebooks(monkeypatch):
    updates = []

    class ZMQInteractiveShell:
        pass

    class Handle:
        def update(self, shown):
            updates.append(str(shown))

    def display(shown, display_id):
        updates.append(str(shown))
        return Handle()

    module, inner = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    module.get_ipython, inner.display = ZMQInteractiveShell, display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", inner)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    assert progress.place() == "notebook"
    going = Going("f", "", True, time.perf_counter())
    stop = progress.watch(going)
    while not updates:
        time.sleep(0.001)
    stop()
    assert updates[0].startswith("compiling f: ") and updates[-1] == ""
    monkeypatch.delitem(sys.modules, "IPython")
    assert progress.place() is None


def test_short_compilations_show_nothing(monkeypatch):
    monkeypatch.setattr(progress, "place", lambda: "terminal")
    monkeypatch.setattr(progress, "_in_terminal", None)
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    fs.compile(lambda x: x * 3, backend="eager")(torch.ones(1))
    assert written.getvalue() == "" and progress.watch in stage_times.WATCHERS
