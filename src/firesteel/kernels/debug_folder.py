"""A folder per compilation with what every stage made of a graph, for `config.debug_dir`."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

from .. import config

_numbers = itertools.count()


class DebugFolder:
    """Where the texts of one compilation go; without a directory it takes and forgets them.

        debug/0003_forward/captured.py  functional.txt  lowered.txt  plan.txt  groups.svg  kernels.txt  ...
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.path: Path | None = None
        if config.debug_dir:
            label = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
            self.path = Path(config.debug_dir) / f"{os.getpid()}_{next(_numbers):04d}_{label}"
            self.path.mkdir(parents=True, exist_ok=True)

    def __bool__(self) -> bool:
        return self.path is not None

    def write(self, name: str, text: object) -> None:
        """Keep a text. Nothing is formatted when there is no folder."""
        if self.path is not None:
            (self.path / name).write_text(f"{text}\n")
