"""Run a function on instrumented arguments and write down everything that user code could see of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import firesteel as fs
from firesteel.capture.equivalents import REGISTRY


class Tracked:
    """A value that logs each operation on it. Raises ValueError when its number is in `failing`."""

    def __init__(self, log: list[Any], number: Any, failing: tuple[Any, ...] = ()) -> None:
        self.log = log
        self.number = number
        self.failing = failing

    def _note(self, what: str, other: Any = None) -> Any:
        number = other.number if isinstance(other, Tracked) else other
        self.log.append((what, self.number, number))
        if self.number in self.failing:
            raise ValueError(f"{what} of {self.number}")
        return number

    def __lt__(self, other: Any) -> bool:
        return self.number < self._note("lt", other)

    def __gt__(self, other: Any) -> bool:
        return self.number > self._note("gt", other)

    def __eq__(self, other: Any) -> bool:
        return self.number == self._note("eq", other)

    def __hash__(self) -> int:
        return hash(self.number)

    def __bool__(self) -> bool:
        self._note("bool")
        return bool(self.number % 2)

    def __add__(self, other: Any) -> Tracked:
        return Tracked(self.log, self.number + self._note("add", other))

    def __radd__(self, other: Any) -> Tracked:
        return Tracked(self.log, self._note("radd", other) + self.number)

    def __mul__(self, other: Any) -> Tracked:
        return Tracked(self.log, self.number * self._note("mul", other))

    def __rmul__(self, other: Any) -> Tracked:
        return Tracked(self.log, self._note("rmul", other) * self.number)

    def __index__(self) -> int:
        self._note("index")
        return self.number


class Source:
    """An iterable that logs how it is used. An exception among its elements is raised in that place, once."""

    def __init__(self, log: list[Any], name: str, elements: list[Any]) -> None:
        self.log = log
        self.name = name
        self.elements = elements

    def __iter__(self) -> SourceIterator:
        self.log.append(("iter", self.name))
        return SourceIterator(self)


class ReiterableSource(Source):
    """A source whose iterator logs calls of its own `__iter__`."""

    def __iter__(self) -> SourceIterator:
        self.log.append(("iter", self.name))
        return ReiterableIterator(self)


class SourceIterator:
    """Has no `__iter__`, which is enough for whatever calls `iter` just once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = 0

    def __next__(self) -> Any:
        self.source.log.append(("next", self.source.name, self.position))
        if self.position >= len(self.source.elements):
            raise StopIteration
        element = self.source.elements[self.position]
        self.position += 1
        if isinstance(element, Exception):
            raise element
        return element


def plain(value: Any) -> Any:
    """`value` in a form that compares by type and content without running instrumented code."""
    if isinstance(value, Tracked):
        return ("Tracked", value.number)
    if type(value) in (list, tuple):
        return (type(value).__name__, [plain(element) for element in value])
    if hasattr(type(value), "__next__"):
        return (type(value).__name__, [plain(element) for element in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(plain(key), plain(element)) for key, element in value.items()])
    return (type(value).__name__, repr(value))


class ReiterableIterator(SourceIterator):
    def __iter__(self) -> SourceIterator:
        self.source.log.append(("iter of the iterator", self.source.name))
        return self


Build = Callable[[list[Any]], tuple[Any, ...]]


def observe(function: Callable[..., Any], build: Build, steps: int = 14, run: Callable[..., None] | None = None,
            **keywords: Any) -> list[Any]:
    """The log of calling `function` on what `build` makes, and of stepping its result if that is an iterator."""
    log: list[Any] = []
    arguments = build(log)
    if arguments and isinstance(arguments[-1], dict) and arguments[-1].pop("keywords", False):
        keywords = {**keywords, **arguments[-1]}
        arguments = arguments[:-1]
    (run or step)(log, function, arguments, keywords, steps)
    return log


def step(log: list[Any], function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
         steps: int) -> None:
    """Call `function`, and step its result if that is an iterator."""
    try:
        result = function(*arguments, **keywords)
    except Exception as error:
        log.append(("raised", type(error), str(error)))
        return
    if not hasattr(type(result), "__next__"):
        log.append(
            ("returned", plain(result), plain(arguments) if arguments and isinstance(arguments[0], list) else None)
        )
        return
    log.append("returned an iterator")
    for _ in range(steps):
        try:
            log.append(("element", plain(next(result))))
        except Exception as error:
            # An exhausted iterator is asked again: some originals try again, some stay exhausted.
            log.append(("raised", type(error), str(error)))


def assert_equivalent(original: Callable[..., Any], build: Build, **keywords: Any) -> None:
    """What capture does in place of `original` must be observed to do what `original` does."""
    expected = observe(original, build, **keywords)
    if original in REGISTRY:
        actual = observe(REGISTRY[original], build, **keywords)
    else:
        fs.reset()
        actual = observe(original, build, run=fs.compile(step, backend="eager"), **keywords)
    assert actual == expected
