"""Names of machine code for ``perf``: a line for each function in /tmp/perf-PID.map, with `config.perf_map`.

    7f3a5c000000 1f0 firesteel: kernel sin, mul, _softmax (train.py:33)

``perf report`` looks there for code that is in no file, and other programs that make code write there as well.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from .. import config
from ..logs import log

FOLDER = "/tmp"
"""Where perf looks."""
_written: set[tuple[int, ...]] = set()


def note(functions: Sequence[tuple[int, int]], name: str) -> None:
    """Write down what the code at some addresses, with these sizes, is called; once in each process."""
    if not config.perf_map:
        return
    new = [function for function in functions if (os.getpid(), *function) not in _written]
    _written.update((os.getpid(), *function) for function in new)
    try:
        with open(os.path.join(FOLDER, f"perf-{os.getpid()}.map"), "a", encoding="utf-8") as file:
            file.writelines(f"{address:x} {size:x} firesteel: {name}\n" for address, size in new)
    except OSError as error:
        log("fallbacks", "no names for perf: %s", error)
