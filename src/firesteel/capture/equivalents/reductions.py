"""Functions that fold an iterable into one value: the sum of floats, math.prod, functools.reduce."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from firesteel.capture.call_handlers import MISSING, equivalent_of


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


def sum_compensating_floats(iterator: Iterator[Any], total: Any) -> Any:
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


sum_as_python_does = sum_compensating_floats if sys.version_info >= (3, 12) else _add_all
"""``sum`` of an iterator and a start."""


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
