"""Builtins that compute with numbers, and torch's functions for symbolic ones, called on Values."""

from __future__ import annotations

import inspect
import math
import operator
import sys
from typing import TYPE_CHECKING, Any

import torch

from .. import shapes
from . import number_rules, object_operators
from .call_handlers import HANDLERS, Handler, handles
from .call_signatures import refused
from .equivalents.reductions import fits_64_bits, sum_compensating_floats
from .objects import call_special
from .signals import GraphBreak
from .values.arrays import ArrayValue
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.objects import ObjectValue
from .values.sequences import SequenceValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


SUM_COMPENSATES_FLOATS = sys.version_info >= (3, 12)


@handles(sum)
def call_sum(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    start = args[1] if len(args) > 1 else kwargs.get("start", ConstantValue(0))
    if issubclass(start.python_type(), (str, bytes, bytearray)):
        raise refused("sum")
    if SUM_COMPENSATES_FLOATS:
        iterable = args[0].realize()
        items = iterable.elements(tx) if isinstance(iterable, SequenceValue) else None
        if items is not None and all(item.is_constant() for item in (start, *items)):
            return tx.fold(sum, [[item.as_constant() for item in items], start.as_constant()], {})
        return tx.call(tx.python_object(sum_compensating_floats), [tx.iterate(iterable), start], {})
    total = start
    for item in tx.iterate_lazily(args[0]):
        total = tx.binary("+", total, item)
    return total


@handles(fits_64_bits)
def call_fits_64_bits(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, NumberValue) and value.python_type() is int:
        return ConstantValue(True)  # integers of graphs do
    if value.is_constant():
        return tx.fold(fits_64_bits, [value.as_constant()], {})
    return ConstantValue(tx.truth(tx.compare("<=", ConstantValue(-(2**63)), value))
                         and tx.truth(tx.compare("<", value, ConstantValue(2**63))))


def _extreme(function: Any, symbol: str) -> Handler:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) > 1 and "default" in kwargs:
            raise refused(function.__name__)
        items = tx.iterate_lazily(args[0]) if len(args) == 1 else iter(args)
        key = kwargs.get("key")
        if key is not None and key.is_constant() and key.as_constant() is None:
            key = None
        best = next(items, None)
        if best is None:
            if "default" in kwargs:
                return kwargs["default"]
            name = function.__name__
            raise tx.raised(ValueError(f"{name}() arg is an empty sequence" if sys.version_info < (3, 12)
                                       else f"{name}() iterable argument is empty"))
        best_key = best if key is None else tx.call(key, [best], {})
        for item in items:
            if key is None and _of_one_type(item, best):
                best = best_key = number_rules.apply(tx, function, [best, item])
                continue
            item_key = item if key is None else tx.call(key, [item], {})
            better = tx.compare(symbol, item_key, best_key)
            if key is None and (chosen := _chosen_tensor(tx, better, item, best)) is not None:
                best = best_key = chosen
                continue
            if tx.truth(better):
                best, best_key = item, item_key
        return best

    return call


def _chosen_tensor(tx: Tracer, better: Value, item: Value, best: Value) -> Value | None:
    """The larger or smaller of two tensors, where data decides which that is; None where it is decided now."""
    better, item, best = better.realize(), item.realize(), best.realize()
    if not (isinstance(better, TensorValue) and isinstance(item, TensorValue) and isinstance(best, TensorValue)) \
            or better.known_truth() is not None:
        return None
    from .branches import choose  # few programs need it

    return choose(tx, better, item, best)


def _of_one_type(one: Value, two: Value) -> bool:
    """Whether the smaller or larger of two numbers is an expression: otherwise the order decides on its type."""
    one, two = one.realize(), two.realize()
    return number_rules.is_number(one) and number_rules.is_number(two) and one.python_type() is two.python_type() \
        and one.python_type() is not bool


handles(max)(_extreme(max, ">"))
handles(min)(_extreme(min, "<"))


@handles(abs, operator.abs)
def call_abs(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, ArrayValue):
        return tx.arrays.absolute(tx, value)
    if isinstance(value, TensorValue):
        return tx.call_torch("abs", [value], {})
    if isinstance(value, ObjectValue):
        return call_special(tx, value, "__abs__")
    return number_rules.apply(tx, abs, [value])


@handles(round)
def call_round(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    rest = [*args[1:], *kwargs.values()]
    if isinstance(value, ObjectValue):
        if len(rest) == 1 and rest[0].is_constant() and rest[0].as_constant() is None:
            rest = []
        return call_special(tx, value, "__round__", rest)
    if isinstance(value, (TensorValue, ArrayValue)):
        raise GraphBreak(f"round() of {value.describe()}")
    if len(rest) == 1 and rest[0].is_constant() and rest[0].as_constant() is None:
        rest = []
    result = number_rules.call(tx, round, [value, *rest])
    return result if result is not None else number_rules.fold(tx, round, [value, *rest])


@handles(divmod)
def call_divmod(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if any(isinstance(arg.realize(), ObjectValue) for arg in args):
        left, right = args[0].realize(), args[1].realize()
        return object_operators.binary(tx, "divmod", left, right, ("__divmod__", "__rdivmod__"))
    if any(isinstance(arg.realize(), ArrayValue) for arg in args):
        return tx.make_tuple([tx.binary("//", args[0], args[1]), tx.binary("%", args[0], args[1])])
    if any(isinstance(arg.realize(), TensorValue) for arg in args):
        raise refused("divmod")
    if all(arg.is_constant() for arg in args) or not all(number_rules.is_number(arg.realize()) for arg in args):
        return tx.fold(divmod, [tx.constant_of(arg) for arg in args], {})
    return tx.make_tuple([tx.binary("//", args[0], args[1]), tx.binary("%", args[0], args[1])])


@handles(pow)
def call_pow(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) == 2 and not kwargs:
        return tx.binary("**", args[0], args[1])
    base = args[0].realize()
    if isinstance(base, ObjectValue) and not kwargs:
        result = call_special(tx, base, "__pow__", args[1:])
        if result.is_constant() and result.as_constant() is NotImplemented:
            raise GraphBreak("pow() of an object that refuses")
        return result
    return tx.fold(pow, [tx.constant_of(a) for a in args], {k: tx.constant_of(v) for k, v in kwargs.items()})


@handles(operator.not_)
def call_not(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return not_(tx, args[0])


def not_(tx: Tracer, value: Value) -> Value:
    """``not value``: of a number it is an expression, and no decision."""
    value = value.realize()
    if isinstance(value, (TensorValue, ArrayValue)):
        value = value.number(tx, "__bool__")
    if isinstance(value, NumberValue):
        return number_rules.truth_value(tx, value, negated=True)
    return ConstantValue(not tx.truth(value))


@handles(operator.truth)
def call_truth(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return truth(tx, args[0])


def truth(tx: Tracer, value: Value) -> Value:
    """``bool(value)``: of a number it is an expression, and no decision."""
    value = value.realize()
    if isinstance(value, (TensorValue, ArrayValue)):
        return value.number(tx, "__bool__")
    if isinstance(value, NumberValue):
        return number_rules.truth_value(tx, value)
    return ConstantValue(tx.truth(value))


@handles(operator.index)
def call_index(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, ObjectValue):
        return call_special(tx, value, "__index__")
    if isinstance(value, (TensorValue, ArrayValue)):
        raise GraphBreak(f"{value.describe()} as an index needs its data")
    if isinstance(value, NumberValue) and value.python_type() is int:
        return value
    return tx.fold(operator.index, [tx.constant_of(value)], {})


@handles(math.sqrt, torch.sym_sqrt)
def call_sqrt(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    if isinstance(value, TensorValue):
        raise GraphBreak("math.sqrt of a tensor needs its data", "use torch.sqrt")
    return number_rules.apply(tx, math.sqrt, [value])


# torch's functions for symbolic numbers: on plain ones, which is what programs see, they are Python's


def _sym_conversion(cls: type) -> Handler:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tx.call(tx.python_object(cls), args or list(kwargs.values()), {})

    return call


handles(torch.sym_int)(_sym_conversion(int))
handles(torch.sym_float)(_sym_conversion(float))


def _sym_extreme(function: Any) -> Handler:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        a, b = [arg.realize() for arg in (*args, *kwargs.values())]
        best = HANDLERS[function](tx, [a, b], {})
        if float in (a.python_type(), b.python_type()):
            return tx.call(tx.python_object(float), [best], {})
        return best

    return call


handles(torch.sym_max)(_sym_extreme(max))
handles(torch.sym_min)(_sym_extreme(min))


@handles(torch.sym_not)
def call_sym_not(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return not_(tx, [*args, *kwargs.values()][0])


@handles(torch.sym_ite)
def call_sym_ite(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    condition, then, otherwise = [value.realize() for value in
                                  (*args, *(kwargs[name] for name in ("b", "t", "f")[len(args):]))]
    kind = then.python_type()
    if condition.python_type() is not bool or otherwise.python_type() is not kind:
        raise GraphBreak("torch.sym_ite of these arguments")
    if not isinstance(condition, NumberValue) or not all(number_rules.is_number(v) for v in (then, otherwise)):
        return then if tx.truth(condition) else otherwise
    exprs = [number_rules.expr_of(tx, value) for value in (condition, then, otherwise)]
    hints = [number_rules.hint_of(value) for value in (condition, then, otherwise)]
    hint = None if None in hints else hints[1] if hints[0] else hints[2]
    return tx.symbols.computed(shapes.if_else(*exprs), hint, torch.sym_ite, [condition, then, otherwise])


SYM_SUM_TAKES_SEVERAL = any(
    parameter.kind is parameter.VAR_POSITIONAL for parameter in inspect.signature(torch.sym_sum).parameters.values())


@handles(torch.sym_sum)
def call_sym_sum(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    if len(args) != 1 and not SYM_SUM_TAKES_SEVERAL:
        raise GraphBreak("torch.sym_sum of this release takes one list")
    first = args[0].realize() if len(args) == 1 else None
    items = first if isinstance(first, SequenceValue) else tx.make_tuple(args)
    return call_sum(tx, [items], {})
