"""Numbers of the graph as symbols: where their values are read, what is known of them, and decisions on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from ..shapes.symnode import expr_of
from . import assertions
from .dynamism import Dynamism, TensorSeen
from .guards import NumberSeen
from .source import SizeSource, Source
from .undecidable import SYMBOLIC, undecidable
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.sequences import TupleValue

if TYPE_CHECKING:
    from .tracer import Tracer


class Symbols:
    """The symbols of one capture."""

    def __init__(self, tx: Tracer, dynamism: Dynamism) -> None:
        self.tx = tx
        self.dynamism = dynamism
        # where the values of symbols are read before the graph runs, and those that the user wants to stay symbols
        self.sources: dict[shapes.Symbol, Source] = {}
        self.demanded: dict[shapes.Symbol, SizeSource] = {}
        # names reserved for the symbols of sizes, and strides in terms of sizes
        self.names: dict[tuple[Source, int], str] = {}
        self.layouts: dict[Source, list[Any]] = {}
        # the numbers and tensors from outside, from which the next capture learns what varies
        self.numbers_seen: dict[str, NumberSeen] = {}
        self.tensors_seen: dict[str, TensorSeen] = {}
        self.number_inputs: dict[Source, NumberValue] = {}
        # numbers that are known to change before they have
        self.changing: set[Source] = set()

    # Values

    def shape(self, fake: Any) -> TupleValue:
        """A tensor's shape; each size is a shape expression."""
        return TupleValue([self.value_of(size) for size in fake.shape], torch.Size)

    def value_of(self, number: Any) -> Value:
        """The Value of a number that fake execution gave, plain or symbolic."""
        if not isinstance(number, SYMBOLIC):
            return ConstantValue(number)
        expr = expr_of(number)
        return ConstantValue(expr.value) if isinstance(expr, shapes.Const) else self.number(expr)

    def number(self, expr: shapes.Expr) -> NumberValue:
        """The Value of an expression; its node is made when an operation needs it."""
        return NumberValue(expr, self.tx.shape_env.hint(expr))

    def computed(self, expr: Any, hint: Any, function: Any, operands: list[Value]) -> Value:
        """The Value of ``function(*operands)``, computed from numbers of the graph."""
        expr = shapes.as_expr(expr)
        if isinstance(expr, shapes.Const):
            return ConstantValue(hint if hint is not None else expr.value)
        return NumberValue(expr, hint, (function, operands))

    # Decisions

    def decide(self, condition: Any) -> bool:
        """Take a decision on a symbolic condition: guarded, at the user's line."""
        condition = shapes.as_expr(condition)
        try:
            return bool(self.tx.shape_env.evaluate(condition))
        except shapes.UndecidableError as error:
            raise undecidable(error) from None

    def holds(self, condition: Any) -> bool:
        """Like `decide` for a condition that nearly all programs meet: where data decides, the graph asserts it."""
        condition = shapes.as_expr(condition)
        env = self.tx.shape_env
        if env.is_backed(env.replace(condition)):
            return self.decide(condition)
        return assertions.assume(self.tx, condition)

    def state(self, number: NumberValue, truth: bool) -> bool:
        """Take a number as true, or as false, as the program's own checks do; False when it is known not to be."""
        condition = number.expr if number.expr.kind == "bool" else shapes.ne(number.expr, 0)
        return assertions.state(self.tx, condition if truth else shapes.not_(condition))

    def specialize(self, number: NumberValue) -> None:
        """Guard that a number is what it is now; breaks when that depends on data."""
        env = self.tx.shape_env
        if number.hint is None:
            try:
                env.evaluate(number.expr)
            except shapes.UndecidableError as error:
                raise undecidable(error) from None
            return
        if isinstance(number.hint, float) and (number.hint == 0.0 or number.hint != number.hint):
            # equality does not tell 0.0 from -0.0, nor NaN from anything; the numbers it was made from do
            for symbol in number.expr.free_symbols:
                hint = env.hint(symbol)
                assert hint is not None
                self.decide(shapes.eq(symbol, shapes.as_expr(hint)))
            return
        self.decide(shapes.eq(number.expr, shapes.as_expr(number.hint)) if not isinstance(number.hint, bool)
                    else (number.expr if number.hint else shapes.not_(number.expr)))
