"""Functions that fold an iterable into one value: all, any, sum, min, max, math.prod, functools.reduce."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from firesteel.capture.equivalents.registry import MISSING, equivalent_of


@equivalent_of(all)
def all_(iterable: Iterable[Any], /) -> bool:
    for element in iterable:  # noqa: SIM110 - all() is what this function is
        if not element:
            return False
    return True


@equivalent_of(any)
def any_(iterable: Iterable[Any], /) -> bool:
    for element in iterable:  # noqa: SIM110 - any() is what this function is
        if element:
            return True
    return False


@equivalent_of(sum)
def sum_(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    iterator = iter(iterable)
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    if isinstance(start, bytes):
        raise TypeError("sum() can't sum bytes [use b''.join(seq) instead]")
    if isinstance(start, bytearray):
        raise TypeError("sum() can't sum bytearray [use b''.join(seq) instead]")
    if sys.version_info >= (3, 12):
        return _sum_compensating_floats(iterator, start)
    return _add_all(iterator, start)


def _add_all(iterator: Iterator[Any], total: Any) -> Any:
    # A `for` loop would call the iterator's own __iter__, which the original does not.
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            return total
        total = total + element


def fits_64_bits(value: int) -> bool:
    """Whether C code sees the number as it is."""
    return -(2**63) <= value < 2**63


def _sum_compensating_floats(iterator: Iterator[Any], total: Any) -> Any:
    """Sum as Python 3.12 does: leading small ints, then floats with Neumaier's compensation, then anything by `+`.

    A stage ends for good with the first element that does not belong to it.
    """
    leading_ints = type(total) is int and fits_64_bits(total)
    while leading_ints:
        try:
            element = next(iterator)
        except StopIteration:
            return total
        total = total + element
        leading_ints = type(element) in (int, bool) and fits_64_bits(element) and fits_64_bits(total)

    floats = type(total) is float
    compensation = 0.0
    while floats:
        try:
            element = next(iterator)
        except StopIteration:
            return _compensated(total, compensation)
        if type(element) is float:
            partial = total + element
            # A choice instead of a branch: numbers that data decides stay in one graph.
            compensation += torch.sym_ite(abs(total) >= abs(element), (total - partial) + element,
                                          (element - partial) + total)
            total = partial
        elif isinstance(element, int) and fits_64_bits(element):
            total = total + element
        else:
            total = _compensated(total, compensation) + element
            floats = False

    return _add_all(iterator, total)


def _compensated(total: float, compensation: float) -> float:
    # Adding a zero could lose the sign of a negative zero, adding a non-finite value would turn an infinity into NaN.
    usable = (compensation != 0.0) & (abs(compensation) < math.inf)
    result: float = torch.sym_ite(usable, total + compensation, total)
    return result


_EMPTY_EXTREMUM = "{}() iterable argument is empty" if sys.version_info >= (3, 12) else "{}() arg is an empty sequence"


def _extremum_candidates(name: str, arguments: tuple[Any, ...], default: Any) -> Any:
    if len(arguments) > 1:
        if default is not MISSING:
            raise TypeError(f"Cannot specify a default for {name}() with multiple positional arguments")
        return arguments
    if not arguments:
        raise TypeError(f"{name} expected at least 1 argument, got 0")
    return arguments[0]


@equivalent_of(min)
def min_(*arguments: Any, key: Callable[[Any], Any] | None = None, default: Any = MISSING) -> Any:
    smallest = smallest_key = MISSING
    for element in _extremum_candidates("min", arguments, default):
        element_key = element if key is None else key(element)
        if smallest is MISSING or element_key < smallest_key:
            smallest = element
            smallest_key = element_key
    if smallest is not MISSING:
        return smallest
    if default is not MISSING:
        return default
    raise ValueError(_EMPTY_EXTREMUM.format("min"))


@equivalent_of(max)
def max_(*arguments: Any, key: Callable[[Any], Any] | None = None, default: Any = MISSING) -> Any:
    largest = largest_key = MISSING
    for element in _extremum_candidates("max", arguments, default):
        element_key = element if key is None else key(element)
        if largest is MISSING or element_key > largest_key:
            largest = element
            largest_key = element_key
    if largest is not MISSING:
        return largest
    if default is not MISSING:
        return default
    raise ValueError(_EMPTY_EXTREMUM.format("max"))


@equivalent_of(math.prod)
def prod(iterable: Iterable[Any], /, *, start: Any = 1) -> Any:
    product = start
    for element in iterable:
        product = product * element
    return product


@equivalent_of(functools.reduce)
def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = MISSING, /) -> Any:
    try:
        iterator = iter(iterable)
    except TypeError:
        raise TypeError("reduce() arg 2 must support iteration") from None
    value = initial
    while True:
        try:
            element = next(iterator)
        except StopIteration:
            break
        value = element if value is MISSING else function(value, element)
    if value is MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    return value
