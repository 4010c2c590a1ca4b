"""Work in a new process of Python, where children forked from this one would lack something.

Once autograd has differentiated on a machine with a GPU it has a thread for each device, and once anything has asked
for a GPU its driver is at work. A child that is forked afterwards has neither, and gets no others. A process that has
only imported firesteel is as good as this one then: what it is to do comes as text.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

import torch

from .. import config
from ..systems import kill_group, own_group
from ..torch_compat.global_state import lacks_devices
from .children import Limits, end_with_parent, in_child

Progress = Callable[[str], None]
PATIENCE = 10.0
"""Seconds that a process has to end in when it is told to."""
_PROBE = 20.0
_BEGIN = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing to say yet
paths, parent, number = json.loads(sys.argv[1])
sys.path[:] = paths
sys.argv[1:] = []
from firesteel.repair.apart import serve
serve(parent, number)
"""


def forks_lack_nothing() -> bool:
    """Whether a forked child can do what a new process can: differentiate, and use GPUs where there are any."""
    def work(_: Any) -> bool:
        torch.ones((), requires_grad=True).neg().backward()
        return not lacks_devices()

    return in_child(work, Limits(_PROBE)).value is True


def where_forks_work(function: Callable[..., Any], *args: Any, progress: Progress, **here: Any) -> Any:
    """Call ``function(*args, progress=progress, ...)``, which works in forked children: here with the arguments
    ``here``, or in a new process without them. `function` is one that a module has, and what it takes, returns and
    raises can be pickled."""
    if forks_lack_nothing() or not sys.executable:
        return function(*args, progress=progress, **here)
    return in_new_process(function, *args, progress=progress)


def in_new_process(function: Callable[..., Any], *args: Any, progress: Progress) -> Any:
    """Call ``function(*args, progress=progress)`` in a new process that has this one's settings and ``sys.path``. When
    this one is interrupted that one is too, and may say something about it."""
    ours, theirs = Pipe()
    given = json.dumps([[os.path.abspath(path) for path in sys.path], os.getpid(), theirs.fileno()])
    process = subprocess.Popen([sys.executable, "-P", "-c", _BEGIN, given], stdin=subprocess.DEVNULL,
                               pass_fds=[theirs.fileno()], **own_group())
    try:
        theirs.close()
        settings = dict(zip(config.names(), config.values(), strict=True))
        ours.send((settings, sys.argv, function, args))
        try:
            return _answer(ours, progress)
        except KeyboardInterrupt as error:
            if not error.args:  # it is this process that was interrupted
                process.send_signal(signal.SIGINT)
                if ours.poll(PATIENCE):
                    with contextlib.suppress(EOFError):
                        _answer(ours, lambda _: None)
            raise
    except EOFError:
        raise RuntimeError("the process that was to find out has ended without an answer") from None
    finally:
        ours.close()
        kill_group(process.pid)
        process.kill()
        process.wait()


def _answer(connection: Connection, progress: Progress) -> Any:
    """What a process returns; raises what it raises."""
    while True:
        kind, value = connection.recv()
        if kind == "returned":
            return value
        if kind == "raised":
            raise value
        progress(value)


def serve(parent: int, number: int) -> None:
    """What the new process does."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    connection = Connection(number)
    settings, sys.argv, function, args = connection.recv()
    with config.patch(settings):
        try:
            answer = "returned", function(*args, progress=lambda text: connection.send(("progress", text)))
        except BaseException as error:
            answer = "raised", error
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        message = pickle.dumps(answer)
        pickle.loads(message)
    except Exception:
        value = answer[1]
        text = "".join(traceback.format_exception(value)) if isinstance(value, BaseException) else repr(value)
        message = pickle.dumps(("raised", RuntimeError(text)))
    connection.send_bytes(message)
