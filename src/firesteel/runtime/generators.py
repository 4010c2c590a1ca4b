"""Generators of programs that run compiled: what lies between two yields is a unit.

A `yield` ends an entry as a break does. The entry returns a `Yielded`, which knows where to go on with what is sent,
and where with what is thrown; a real generator drives from one to the next:

    def doubled(x):                  unit 1: y = x * 2, yields y
        y = x * 2                    unit 2: sent -> returns y + sent
        sent = yield y
        return y + sent
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ..own_frames import passed_over
from .units import GENERATOR, Resume, Unit, drive
from .yields import PlainGenerator, Way, Yielded

__all__ = ["GENERATOR", "compiled_generator", "resumed_generator"]


def compiled_generator(unit: Unit, args: Sequence[Any]) -> Generator[Any, Any, Any]:
    """The generator of a generator function's unit."""
    return _named(_run(unit, list(args)), unit)


def resumed_generator(unit: Unit, yielded: Yielded) -> Generator[Any, Any, Any]:
    """A generator that stands at a yield."""
    generator = _named(_run_on(yielded), unit)
    next(generator)
    return generator


def _named(generator: Generator[Any, Any, Any], unit: Unit) -> Generator[Any, Any, Any]:
    names: Any = generator
    names.__name__, names.__qualname__ = unit.code.co_name, unit.code.co_qualname
    return generator


@passed_over
def _run(unit: Unit, args: list[Any]) -> Generator[Any, Any, Any]:
    result = unit.call(tuple(args))
    args.clear()
    return (yield from _run_on(drive(result)))


@passed_over
def _run_on(result: Any) -> Generator[Any, Any, Any]:
    while True:
        if type(result) is PlainGenerator:
            return (yield from result.generator)
        if type(result) is not Yielded:
            return result
        yielded = result
        try:
            sent = yield yielded.value
        except BaseException as error:
            result = _throw(yielded, error)
        else:
            result = _go(yielded.sent, sent)


@passed_over
def _go(way: Way, argument: Any) -> Any:
    """Run to the next yield or the end."""
    way.args[way.place] = argument
    return drive(Resume(way.unit, way.args))


@passed_over
def _throw(yielded: Yielded, error: BaseException) -> Any:
    """Raise an exception at the yield; behind ``yield from`` it goes to the iterator that stands there."""
    if yielded.delegate is not None:
        try:
            if isinstance(error, GeneratorExit):
                getattr(yielded.delegate, "close", lambda: None)()
            elif hasattr(yielded.delegate, "throw"):
                yielded.value = yielded.delegate.throw(error)
                return yielded
        except StopIteration as stop:
            if yielded.finished is not None and not isinstance(error, GeneratorExit):
                return _go(yielded.finished, stop.value)
            error = stop
        except BaseException as raised:
            error = raised
    if yielded.thrown is None:
        raise error
    return _go(yielded.thrown, error)
