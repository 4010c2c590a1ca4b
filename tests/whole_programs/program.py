"""Whole programs: what one is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Compile = Callable[[Any], Any]
"""What a program does to the function or module that it wants compiled: `fs.compile`, or nothing."""

Call = Callable[[int], Any]
"""The program's loop body: it is given the number of the round, and returns what is compared with the plain run."""


@dataclass(frozen=True)
class Program:
    """A small real program. `build` makes models and data, and compiles what a user would compile."""

    name: str
    build: Callable[[Compile], Call]
    tolerance: float = 1e-3
    """How far results may be from the plain run's, relative or absolute: training multiplies rounding errors."""
    most_calls: int = 1000
    """Longer runs than this are not measured."""

    @property
    def subject(self) -> str:
        """What the program is, in one line."""
        return (self.build.__doc__ or "").splitlines()[0]


PROGRAMS: dict[str, Program] = {}


def program(name: str, tolerance: float = 1e-3,
            most_calls: int = 1000) -> Callable[[Callable[[Compile], Call]], Callable[[Compile], Call]]:
    """Put a program into the list."""
    def register(build: Callable[[Compile], Call]) -> Callable[[Compile], Call]:
        if name in PROGRAMS:
            raise ValueError(f"there are two programs {name!r}")
        PROGRAMS[name] = Program(name, build, tolerance, most_calls)
        return build

    return register
