"""A random program: its source and where it came from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """Source of one random program; after shrinking, `source` is what is left of it."""

    seed: int
    source: str

    @property
    def filename(self) -> str:
        return f"<fuzz program {self.seed}>"
