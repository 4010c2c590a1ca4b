"""What is known of the elements of a tensor whatever the data is: a number, or the range that they lie in.

    if torch.rand([]) < 0.0:                                 never true: `rand` is not below 0
        continue
    x.view(torch.div(x.size(0), 2, rounding_mode="trunc"), 2)     with 6 rows the quotient is 3

Facts are read off the captured nodes when a program asks for the value of a tensor. A tensor that anything but the
functions below has seen may have been changed in place, and nothing is known of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.fx import Node

from .. import torch_compat
from ..devices import kind_of


class Range(NamedTuple):
    """Bounds of all elements, both included; NaN is among them only where `nan` says so."""

    low: float
    high: float
    nan: bool = False


MAX_DEPTH = 30
_TRUE, _FALSE = Range(1, 1), Range(0, 0)
_UNIT = Range(0.0, 1.0)
_MAYBE_NAN_UNIT, _SYMMETRIC = Range(0.0, 1.0, True), Range(-1.0, 1.0, True)
_AT_LEAST_0 = Range(0.0, math.inf, True)

# Functions whose result lies in a range, whatever they are given.
_BOUNDED: dict[str, Range] = {
    "rand": _UNIT, "rand_like": _UNIT, "bernoulli": _UNIT, "sigmoid": _MAYBE_NAN_UNIT, "softmax": _MAYBE_NAN_UNIT,
    "tanh": _SYMMETRIC, "sin": _SYMMETRIC, "cos": _SYMMETRIC, "relu": _AT_LEAST_0, "exp": _AT_LEAST_0,
    "softplus": _AT_LEAST_0, "count_nonzero": Range(0, math.inf),
}
# Functions that fill a tensor with one number; None for one that they are given.
_FILLED: dict[str, int | None] = {"full": None, "full_like": None, "zeros": 0, "zeros_like": 0, "ones": 1,
                                  "ones_like": 1}
_EXACT = 128
"""Integers below this are the same in every dtype."""
# Functions whose elements are elements of what they are given.
_SELECTING = frozenset({
    "clone", "detach", "contiguous", "view", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "expand_as",
    "transpose", "permute", "t", "cpu", "amax", "amin", "flip", "roll", "select", "repeat",
})
_CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type_as"})
_SELECTING_ATTRIBUTES = frozenset({"T", "mT"})
_COMPARISONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal",
                          "__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "not_equal"})
_SAME = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "not_equal": "ne"}
_LOGIC = frozenset({"any", "all", "logical_not", "logical_and", "logical_or", "and_", "or_", "__and__", "__or__",
                    "invert", "__invert__", "bitwise_not", "bitwise_and", "bitwise_or"})
# Functions of numbers whose value is computed while capturing, when all that they are given is known.
_COMPUTED = frozenset({
    "tensor", "as_tensor", "scalar_tensor", "full", "zeros", "ones", "add", "sub", "mul", "div", "truediv", "floordiv",
    "floor_divide", "mod", "remainder", "neg", "abs", "maximum", "minimum", "ceil", "floor", "trunc", "round", "to",
    "long", "int", "float", "double", "half", "bfloat16", "bool", "clone", "detach",
}) | _COMPARISONS
_READING = frozenset({"item", "size", "dim", "numel", "abs", "sum", "mean", "max", "min", "__bool__"})
_PURE = frozenset({*_BOUNDED, *_FILLED, "argmax", "argmin"}) | _SELECTING | _CASTS | _COMPARISONS | _LOGIC | \
    _COMPUTED | _READING
# What is done with the batch sizes of packed sequences.
_READS_SIZES = frozenset({"getitem", "item", "size", "lstm", "gru", "rnn_tanh", "rnn_relu", "unsqueeze", "pad", "cpu",
                          "to", "dim", "lt"})
# Functions whose result may share memory with what they are given.
_ALIASING = _SELECTING | _CASTS | frozenset({"as_tensor", "long", "int", "bool"})


def known_truth(node: Node) -> bool | None:
    """Whether a tensor of one element is true, where that does not depend on data."""
    value = known_number(node)
    if value is not None:
        return bool(value)
    bounds = range_of(node)
    if bounds is None:
        return None
    if bounds.low > 0 or bounds.high < 0:  # NaN is true too
        return True
    return False if bounds.low == bounds.high == 0 and not bounds.nan else None


def known_number(node: Node) -> int | float | bool | None:
    """The value of a tensor of one element that the program itself made of numbers."""
    fake = node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor) or fake.dim() != 0 or not kind_of(fake).is_host \
            or fake.dtype.is_complex:
        return None
    value = _computed(node, 0)
    if not isinstance(value, torch.Tensor) or value.dim() != 0 or value.dtype is not fake.dtype:
        return None
    with torch_compat.without_modes():
        number: int | float | bool = value.item()
    return number


def known_size(node: Node) -> Any:
    """The size that a tensor of one element is, which may be a symbol: each sequence has a first step, so the first
    batch size of packed sequences is how many there are."""
    sizes = _item_of(node, 0)
    packed = _item_of(sizes, 1)
    if sizes is None or packed is None or function_name(packed) != "_pack_padded_sequence" or not all(
            function_name(user) in _READS_SIZES for user in (*sizes.users, *node.users)):
        return None
    padded: Any = packed.args[0]
    return padded.meta["example_value"].size(0 if packed.args[2] else 1)


def _item_of(node: Node | None, index: int) -> Node | None:
    """What a node is the item of, under an index."""
    if node is None or function_name(node) != "getitem" or node.args[1] != index:
        return None
    return node.args[0] if isinstance(node.args[0], Node) else None


def range_of(node: Node, depth: int = 0) -> Range | None:
    """The range that all elements of a tensor lie in."""
    fake = node.meta.get("example_value")
    name = function_name(node)
    if name is None or not isinstance(fake, torch.Tensor) or depth > MAX_DEPTH or not _unchanged(node):
        return None
    if (number := known_number(node)) is not None:
        return None if math.isnan(number) else Range(number, number)
    if name in _FILLED:
        return _filled(node, name)
    if name in ("argmax", "argmin"):
        return Range(0, _last_place(node))
    if name in _COMPARISONS:
        return _comparison(node, _SAME.get(name, name.strip("_")), depth)
    operand = node.args[0] if node.args else None
    given = range_of(operand, depth + 1) if isinstance(operand, Node) else None
    if name in _LOGIC:
        return _logic(node, name, given, depth)
    if name == "abs" and fake.is_floating_point():
        return _AT_LEAST_0
    if name in ("sum", "mean") and isinstance(operand, Node):
        counts = operand.meta["example_value"].dtype is torch.bool
        return Range(0, math.inf) if counts else Range(0.0, math.inf, True) if given and given.low >= 0 and \
            fake.is_floating_point() else None
    if name in _BOUNDED:
        return _BOUNDED[name] if not fake.dtype.is_complex else None
    if given is not None and name in _CASTS and fake.is_floating_point():
        with torch_compat.without_modes():
            return _rounded(given, fake.dtype)  # what is small may be 0 there
    return given if name in _SELECTING else None


def _filled(node: Node, name: str) -> Range | None:
    """The number that all elements of a new tensor are."""
    number = _FILLED[name]
    if number is None:
        given = node.kwargs.get("fill_value", node.args[1] if len(node.args) > 1 else None)
        number = given if isinstance(given, (bool, int)) else None
    dtype = node.meta["example_value"].dtype
    if number is None or dtype.is_complex:
        return None
    return Range(bool(number), bool(number)) if dtype is torch.bool else Range(number, number) if \
        abs(number) < _EXACT else None


def _last_place(node: Node) -> float:
    """The largest place that argmax can be: the last one of a dimension, or of all elements."""
    operand = node.args[0] if node.args else None
    fake = operand.meta["example_value"] if isinstance(operand, Node) else None
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    if fake is None or not (dim is None or type(dim) is int and -fake.dim() <= dim < fake.dim()):
        return math.inf
    sizes = fake.shape if dim is None else fake.shape[dim: dim + 1 or None]
    return math.prod(sizes) - 1 if all(type(size) is int and size > 0 for size in sizes) else math.inf


def function_name(node: Node) -> str | None:
    """The name of the function that a node calls, whichever way it is written."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function":
        return None
    name = getattr(node.target, "__name__", "")
    if name == "getattr":
        return str(node.args[1]) if node.args[1] in _SELECTING_ATTRIBUTES else None
    return name


def _unchanged(node: Node) -> bool:
    """Whether nothing can have changed the result of a node in place, or taken a view of it that we do not see."""
    return "out" not in node.kwargs and all(
        (name := function_name(user)) in _PURE and (name not in _ALIASING or _unchanged(user)) for user in node.users)


def _comparison(node: Node, name: str, depth: int) -> Range | None:
    left, right = (_bounds(argument, depth) for argument in node.args[:2])
    if left is None or right is None:
        return None
    with torch_compat.without_modes():
        return _compared_in_all(name, left, right)


def _compared_in_all(name: str, left: Range, right: Range) -> Range | None:
    """The outcome of a comparison, if it is the same in every dtype that numbers may be rounded to."""
    outcomes = {_compared(name, _rounded(left, dtype), _rounded(right, dtype))
                for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16)}
    outcome = outcomes.pop() if len(outcomes) == 1 else None
    return None if outcome is None else _TRUE if outcome else _FALSE


def _rounded(bounds: Range, dtype: torch.dtype) -> Range:
    """A range as tensors of a dtype see it."""
    low, high = (bound if abs(bound) == math.inf else float(torch.tensor(bound, dtype=dtype)) for bound in bounds[:2])
    return Range(low, high, bounds.nan)


def _compared(name: str, left: Range, right: Range) -> bool | None:
    if name in ("gt", "ge"):
        name, left, right = {"gt": "lt", "ge": "le"}[name], right, left
    if name == "lt":
        never, always = left.low >= right.high, left.high < right.low
    elif name == "le":
        never, always = left.low > right.high, left.high <= right.low
    else:
        never = left.low > right.high or right.low > left.high
        always = left.low == left.high == right.low == right.high
        if name == "ne":
            return True if never else False if always and not (left.nan or right.nan) else None
    # every comparison with NaN is false
    return False if never else True if always and not (left.nan or right.nan) else None


def _bounds(argument: Any, depth: int) -> Range | None:
    if isinstance(argument, Node):
        return range_of(argument, depth + 1)
    if isinstance(argument, (int, float)):
        return None if math.isnan(argument) else Range(argument, argument)
    return None


def _logic(node: Node, name: str, given: Range | None, depth: int) -> Range | None:
    fake = node.meta["example_value"]
    if fake.dtype is not torch.bool or given not in (_TRUE, _FALSE):
        return None
    if name == "any":
        return _FALSE if given == _FALSE else None  # of no elements it is false
    if name == "all":
        return _TRUE if given == _TRUE else None
    if name in ("logical_not", "invert", "__invert__", "bitwise_not"):
        return _FALSE if given == _TRUE else _TRUE
    other = _bounds(node.args[1], depth)
    both = name.strip("_") in ("logical_and", "and", "bitwise_and")
    decisive = _FALSE if both else _TRUE
    if decisive in (given, other):
        return decisive
    return given if given == other else None


def _computed(argument: Any, depth: int) -> Any:
    """An argument as eager computes it from numbers alone; None where it is not known."""
    if not isinstance(argument, Node):
        return argument
    name = function_name(argument)
    fake = argument.meta.get("example_value")
    if name not in _COMPUTED or depth > MAX_DEPTH or not isinstance(fake, torch.Tensor) or fake.dim() != 0 \
            or fake.requires_grad or not _unchanged(argument) or not kind_of(fake).is_host:
        return None
    args = [_computed(value, depth + 1) for value in argument.args]
    kwargs = {key: _computed(value, depth + 1) for key, value in argument.kwargs.items()}
    if any(_unknown(given, value) for given, value in zip(
            (*argument.args, *argument.kwargs.values()), (*args, *kwargs.values()), strict=True)):
        return None
    target: Callable[..., Any] = getattr(torch.Tensor, argument.target) if isinstance(argument.target, str) \
        else argument.target
    try:
        with torch_compat.without_modes(), torch.no_grad():
            return target(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError):  # raised where the program comes to it
        return None


def _unknown(given: Any, value: Any) -> bool:
    """Whether an argument is, or holds, a node that was not computed."""
    if isinstance(given, (list, tuple)):
        return any(isinstance(item, Node) for item in given)
    return isinstance(given, Node) and value is None
