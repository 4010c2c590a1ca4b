"""Recordings: everything that is compiled inside of a ``with`` block, as data, a page for browsers, text or a trace.

    with fs.recording() as r:
        train(model)
    r.save("out.html")

Functions are compiled in their first call then, as they are while a log is switched on. Nothing of the program is kept
but text: recorded tensors, modules and classes go away as they do without a recording.
"""

from __future__ import annotations

import atexit
import os

from ..errors import UserCodeError
from ..events import OBSERVERS
from ..systems import why_unwritable
from .record import Record

_CURRENT: list[Recording] = []


class Recording:
    """What was compiled since it was started, until it is stopped; made by `recording`."""

    def __init__(self, measure: bool = False, passes: bool = False) -> None:
        from .recorder import Recorder

        self._recorder = Recorder(measure, passes)
        self._record: Record | None = None

    def start(self) -> Recording:
        """Record from now on."""
        self._recorder.start()
        OBSERVERS.append(self._recorder)
        _CURRENT.append(self)
        return self

    def stop(self) -> None:
        """Record no more. What threads still compile in the background is waited for."""
        if self._recorder in OBSERVERS:
            self._recorder.wait()
            OBSERVERS.remove(self._recorder)
            _CURRENT.remove(self)
            self._record = self._recorder.finish()

    def __enter__(self) -> Recording:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    @property
    def record(self) -> Record:
        """What has been recorded; while it runs, what has been so far."""
        return self._record if self._record is not None else self._recorder.finish()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the report: one page that any browser shows, with nothing to load beside it."""
        from .report import page

        with open(path, "w", encoding="utf-8") as file:
            file.write(page(self.record))

    def json(self) -> str:
        """The record as JSON."""
        return self.record.as_json()

    def summary(self) -> str:
        """The record in a few lines of text, for terminals."""
        from .summary import summary

        return summary(self.record)

    def chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the stages of all compilations for chrome://tracing or Perfetto."""
        import json

        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.record.chrome_trace(), file)

    def __str__(self) -> str:
        return self.summary()


def recording(*, measure: bool = False, passes: bool = False) -> Recording:
    """Record what is compiled inside of a ``with`` block.

    With `measure`, kernels are run on memory of their sizes when the block ends, which takes some milliseconds each,
    and the report says what each takes beside the time of a plain copy. With `passes`, graphs are kept as they were
    behind each pass that changed them.

    >>> import torch, firesteel as fs
    >>> def f(x):
    ...     return torch.relu(x) * 2
    >>> with fs.recording() as r:
    ...     _ = fs.compile(f)(torch.ones(3))
    >>> len(r.record.graphs), len(r.record.breaks)
    (1, 0)
    """
    return Recording(measure, passes)


def report(path: str | os.PathLike[str], *, measure: bool = False) -> Recording:
    """Write the report of the recording that runs. Where none does, one is started that is written when the program
    ends, or when its `stop` is called.

    >>> import os, tempfile, torch, firesteel as fs
    >>> path = os.path.join(tempfile.mkdtemp(), "out.html")
    >>> with fs.recording():
    ...     _ = fs.compile(lambda x: x.sin() + 1)(torch.ones(3))
    ...     r = fs.report(path)
    >>> os.path.exists(path)
    True
    """
    if _CURRENT:
        current = _CURRENT[-1]
        current.save(path)
        return current
    problem = why_unwritable(path)
    if problem is not None:  # rather than when all has been done
        raise UserCodeError(problem, "give a file in a folder that exists, which you may write")
    started = _WrittenAtTheEnd(os.path.abspath(path), measure)
    atexit.register(started.stop)
    started.start()
    return started


class _WrittenAtTheEnd(Recording):
    def __init__(self, path: str, measure: bool) -> None:
        super().__init__(measure)
        self._path = path
        self._pid = os.getpid()

    def stop(self) -> None:
        if self._record is None and os.getpid() == self._pid:  # a child process that was forked has nothing to add
            super().stop()
            self.save(self._path)


