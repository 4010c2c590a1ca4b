"""Integers of NumPy's that are computed from numbers of the graph, without a tensor: ``np.min([100, n // 2])``.

The number stays an expression of sizes and arguments, so that slices, loops and branches can be decided by guards. In
computations with arrays it is a tensor without dimensions like any other scalar of NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from . import number_rules
from .source import call_source
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer

EXTREMA: dict[Any, Callable[..., Any]] = {numpy.min: min, numpy.max: max}
ARITHMETIC: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS: dict[str, Any] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
                               "==": operator.eq, "!=": operator.ne}


class ExactScalar(ArrayValue):
    """A scalar of NumPy's whose value is a number of the graph."""

    __slots__ = ("tx", "exact", "made")

    def __init__(self, tx: Tracer, exact: NumberValue) -> None:
        Value.__init__(self, None)
        self.tx = tx
        self.exact = exact
        self.made: TensorValue | None = None
        self.dtype = numpy.dtype(bool if exact.python_type() is bool else numpy.int64)
        self.scalar, self.writeable, self.copied = True, True, False
        self.view = self.real = self.host = None
        self.flipped = frozenset()

    @property
    def tensor(self) -> TensorValue:  # type: ignore[override]
        """The scalar as a tensor, for those who compute with arrays."""
        if self.made is None:
            number = number_rules.as_int(self.tx, self.exact) if self.dtype == bool else self.exact
            dtype = ConstantValue(torch.int64)
            scalar = self.tx.call_torch(torch.full, [TupleValue([]), number], {"dtype": dtype})
            if self.dtype == bool:
                scalar = self.tx.call_torch("bool", [scalar], {})
            assert isinstance(scalar, TensorValue)
            self.made = scalar
            self.tx.array_state.memories.add(scalar.fake.storage_key)
        return self.made

    @property
    def ndim(self) -> int:
        return 0

    @property
    def shape(self) -> tuple[Any, ...]:
        return ()

    def number(self, tx: Tracer, method: str) -> Value:
        """``int``, ``float`` or ``bool`` of it."""
        if method == "__bool__":
            return number_rules.truth_value(tx, self.exact)
        return number_rules.apply(tx, float if method == "__float__" else int, [self.exact])

    def truth(self, tx: Tracer) -> bool:
        return self.exact.truth(tx)

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{code.constant(self.dtype.type)}({code.value(self.exact)})")


def extremum(tx: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """``np.min([a, b])`` or ``np.max`` of integers, at least one of them a number of the graph; None for all others."""
    if function not in EXTREMA or len(args) != 1 or kwargs:
        return None
    given = args[0].realize()
    if not isinstance(given, (ListValue, TupleValue)) or given.items is None:
        return None
    items = [item.realize() for item in given.items]
    if not any(isinstance(item, NumberValue) for item in items) or not all(_is_integer(item) for item in items):
        return None
    result = items[0]
    for item in items[1:]:
        result = number_rules.apply(tx, EXTREMA[function], [result, item]).realize()  # folds what is constant
    return _scalar(tx, result)


def _is_integer(value: Value) -> bool:
    """A Python integer whose value is known before the graph runs."""
    if isinstance(value, NumberValue):
        return value.hint is not None and value.python_type() is int
    return isinstance(value, ConstantValue) and type(value.value) is int and abs(value.value) < 2**63


def _scalar(tx: Tracer, result: Value) -> Value:
    result = result.realize()
    if isinstance(result, NumberValue):
        return ExactScalar(tx, result)
    value = result.as_constant()
    return ConstantValue(numpy.bool_(value) if type(value) is bool else numpy.int64(value))


def exact_binary(tx: Tracer, symbol: str, left: Value, right: Value) -> Value | None:
    """Sums, differences, products and comparisons of such a scalar and an integer; None for all others."""
    if not isinstance(left, ExactScalar) and not isinstance(right, ExactScalar):
        return None
    function = ARITHMETIC.get(symbol) or COMPARISONS.get(symbol)
    if function is None:
        return None
    operands = [_exact(tx, operand) for operand in (left, right)]
    if any(operand is None for operand in operands):
        return None
    return _scalar(tx, number_rules.apply(tx, function, operands))  # type: ignore[arg-type]


def _exact(tx: Tracer, operand: Value) -> Value | None:
    """An operand as a number of Python's: integers, also those of NumPy's that come from outside."""
    if isinstance(operand, ExactScalar):
        return operand.exact if operand.dtype != bool else None
    if isinstance(operand, ConstantValue) and type(operand.value) is numpy.int64:
        return ConstantValue(int(operand.value))
    if isinstance(operand, ArrayValue):
        if not operand.scalar or operand.source is None or type(operand.real) is not numpy.int64:
            return None
        source = call_source(operand.source, int)
        tx.symbols.changing.add(source)
        number = tx.wrap(int(operand.real), source).realize()
        return number if _is_integer(number) else None
    return operand if _is_integer(operand) else None
