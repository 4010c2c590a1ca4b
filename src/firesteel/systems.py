"""What not every operating system has: forks, groups of processes, one C library that all of the process shares, files
that can be written.

Nothing else in the package calls `os.register_at_fork` or opens the process itself as a library.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def at_fork(*, before: Callable[[], object] | None = None, after_in_parent: Callable[[], object] | None = None,
            after_in_child: Callable[[], object] | None = None) -> None:
    """Have functions called around every fork; where processes do not fork, nothing."""
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        given = {"before": before, "after_in_parent": after_in_parent, "after_in_child": after_in_child}
        register(**{when: function for when, function in given.items() if function is not None})


def own_group() -> dict[str, Any]:
    """Arguments of `subprocess.Popen` for a process whose group `kill_group` can end."""
    return {"process_group": 0} if hasattr(os, "killpg") else {}


def kill_group(pid: int) -> None:
    """End all processes of a group at once, if there are any; nothing on systems without groups."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it has no group yet, or nothing is left
            os.killpg(pid, signal.SIGKILL)


@functools.cache
def process_library(use_errno: bool = False) -> ctypes.CDLL | None:
    """All that is loaded into this process, as one library; None on systems that have no such thing (Windows)."""
    if sys.platform == "win32":
        return None
    try:
        return ctypes.CDLL(None, use_errno=use_errno)
    except (OSError, TypeError):
        return None


def why_unwritable(path: str | os.PathLike[str]) -> str | None:
    """Why a file cannot be written, in a line; None if it can. The file stays as it is."""
    exists = os.path.exists(path)
    try:
        with open(path, "ab"):
            pass
    except (OSError, ValueError) as error:
        return f"{os.fspath(path)} cannot be written: {getattr(error, 'strerror', None) or error}"
    if not exists:
        with contextlib.suppress(OSError):
            os.remove(path)
    return None
