"""One line that says how far a command is, in terminals only."""

from __future__ import annotations

import time
from typing import IO


class ProgressLine:
    """Called with what goes on now."""

    def __init__(self, stream: IO[str], limit: float) -> None:
        self.stream = stream
        self.limit = limit
        self.began = time.monotonic()
        self.shown = stream.isatty()

    def __call__(self, text: str) -> None:
        if self.shown:
            spent = time.monotonic() - self.began
            self.stream.write(f"\r\x1b[K[{spent:.0f} of {self.limit:.0f} s] {text[:100].splitlines()[0]}")
            self.stream.flush()

    def end(self) -> None:
        """Remove the line."""
        if self.shown:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
