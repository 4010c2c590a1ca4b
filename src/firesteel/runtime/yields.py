"""What entries of generators return at a `yield`: plain data, which `generators` drives on with."""

from __future__ import annotations

from typing import Any


class Way:
    """A continuation that lacks one argument."""

    __slots__ = ("unit", "args", "place")

    def __init__(self, unit: Any, args: list[Any], place: int) -> None:
        self.unit = unit
        self.args = args
        self.place = place


class Yielded:
    """Returned by an entry at a `yield`: a value, and the continuations for what is sent and what is thrown, each with
    the place in its arguments where that belongs. `delegate`: the iterator that ``yield from`` stands at, and what goes
    on with its result."""

    __slots__ = ("value", "sent", "thrown", "delegate", "finished")

    def __init__(self, value: Any, sent: Way, thrown: Way | None = None, delegate: Any = None,
                 finished: Way | None = None) -> None:
        self.value = value
        self.sent = sent
        self.thrown = thrown
        self.delegate = delegate
        self.finished = finished


class PlainGenerator:
    """Where a generator's unit is not compiled: the generator that runs it, or the rest of it, as plain Python."""

    __slots__ = ("generator",)

    def __init__(self, generator: Any) -> None:
        self.generator = generator
