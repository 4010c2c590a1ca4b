"""Sizes in the hands of rules: symbolic integers that Python's operators take to expressions directly.

A rule is written for plain integers. It works on symbols too because `Dim` has an integer's operators: arithmetic gives
another `Dim`, a comparison gives a bool and leaves a guard where it had to look at the hint. A plain `torch.SymInt` can
do that as well, through C++ and back, at ten times the cost. For torch a `Dim` is a `SymInt` like any other.

What was computed or decided once is remembered per environment. Decisions stay true for as long as it lives: they
followed from what was known, or left a guard.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ..shapes import Const, Expr, ShapeEnv, UndecidableError, eq, le, lt, maximum, minimum, ne, not_
from ..shapes.symnode import SymNode, TorchShapeEnv
from ..torch_compat import has_symbolic_layout

Question = TypeVar("Question", bound=Callable[..., Any])


class DimTable:
    """The `Dim` objects of one environment, and what was computed with them."""

    def __init__(self, adapter: TorchShapeEnv) -> None:
        self.adapter = adapter
        self.env: ShapeEnv = adapter.env
        # results of operators by the layouts of their arguments, kept by the dispatcher
        self.results: dict[Any, Any] = {}
        self.storage_sizes: dict[Any, Any] = {}
        self.equal: dict[tuple[Expr, Any], bool] = {}
        self.less: dict[tuple[Any, Any], bool] = {}
        self.less_or_equal: dict[tuple[Any, Any], bool] = {}
        self.products: dict[tuple[Expr, Any], Any] = {}
        self._version = -1
        self._found: dict[Expr, Any] = {}
        self._dims: dict[Expr, Dim] = {}

    def dim(self, expr: Expr) -> Any:
        """The number of an expression, with what is known applied: an int or the one `Dim` of its normal form."""
        if self.env.facts.version != self._version:
            self._found.clear()
            self._version = self.env.facts.version
        known = self._found.get(expr)
        if known is None:
            known = self._found[expr] = self._make(expr)
        return known

    def _make(self, expr: Expr) -> Any:
        expr = self.env.replace(expr)
        if isinstance(expr, Const):
            return expr.value
        dim = self._dims.get(expr)
        if dim is None:
            dim = self._dims[expr] = Dim(self.adapter.node(expr))
            dim.expr, dim.table = expr, self
        return dim

    def depends_on_data(self, *numbers: Any) -> bool:
        """Whether a symbol without a hint is in one of these."""
        return any(isinstance(number, Expr) and not self.env.is_backed(number) for number in numbers)

    def decide(self, condition: Expr, memo: dict[Any, bool], key: Any) -> bool:
        """The truth of a condition in this capture; a guard is left where it is not known."""
        try:
            answer = self.adapter.answer_for_size(condition)
        except UndecidableError:
            if not _about_layout:
                raise
            answer = self._likely(condition)
        if not self.env.is_backed(condition) and self.env.decide(condition) is None:
            # Answered for typical sizes: for others a result would lie in another way, or an index would be outside, so
            # the program checks it. That two sizes differ is not checked.
            if not (self.env.checks_layouts if _about_layout else answer or memo is not self.equal):
                return answer
            self.env.check(condition if answer else not_(condition))
        memo[key] = answer
        return answer

    def _likely(self, condition: Expr) -> bool:
        """The answer for most sizes: different ones differ, and unknown ones are small."""
        operation = getattr(condition, "op", "")
        if operation in ("eq0", "ne0"):
            return operation == "ne0"
        values = {}
        for symbol in condition.free_symbols:
            interval = self.env.interval(symbol)
            values[symbol] = self.env.hints.get(symbol, min(max(2, interval.lower), interval.upper))
        try:
            return bool(condition.evaluate(values))
        except ArithmeticError:
            return False


# How many questions about layouts are being answered, one inside the other.
_about_layout = 0


def layout_question(function: Question) -> Question:
    """Marks a function that tells how a tensor lies in memory from its sizes and strides.

    Where data decides, it gets answers for typical sizes. While a program is captured they become checks of it, because
    kernels give their results these strides. Later, and in exported programs, no check is left: strides are what they
    are for most data, while the operators that run see the real ones.
    """
    @functools.wraps(function)
    def ask(*args: Any) -> Any:
        global _about_layout
        _about_layout += 1
        try:
            return function(*args)
        finally:
            _about_layout -= 1

    return ask  # type: ignore[return-value]


class Dim(torch.SymInt):
    """A symbolic integer; see the module's description. Made by `DimTable.dim` only."""

    expr: Expr
    table: DimTable

    # Keys of dictionaries compare by identity first, and a table has one object per expression.
    __hash__ = object.__hash__

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        right = _operand(other)
        if right is None:
            return False
        key = (self.expr, right)
        answer = self.table.equal.get(key)
        if answer is None:
            answer = self.table.decide(eq(self.expr, right), self.table.equal, key)
        return answer

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return _compare(self.table, lt, self.table.less, self.expr, _operand(other))

    def __gt__(self, other: Any) -> bool:
        return _compare(self.table, lt, self.table.less, _operand(other), self.expr)

    def __le__(self, other: Any) -> bool:
        return _compare(self.table, le, self.table.less_or_equal, self.expr, _operand(other))

    def __ge__(self, other: Any) -> bool:
        return _compare(self.table, le, self.table.less_or_equal, _operand(other), self.expr)

    def __bool__(self) -> bool:
        return self != 0

    def __mul__(self, other: Any) -> Any:
        right = _integer(other)
        if right is None:
            return super().__mul__(other)
        key = (self.expr, right)
        table = self.table
        product = table.products.get(key)
        if product is None:
            product = table.products[key] = self.expr * right
        return table.dim(product)

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        right = _integer(other)
        return super().__add__(other) if right is None else self.table.dim(self.expr + right)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        right = _integer(other)
        return super().__sub__(other) if right is None else self.table.dim(self.expr - right)

    def __rsub__(self, other: Any) -> Any:
        left = _integer(other)
        return super().__rsub__(other) if left is None else self.table.dim(left - self.expr)

    def __floordiv__(self, other: Any) -> Any:
        right = _integer(other)
        return super().__floordiv__(other) if right is None else self.table.dim(self.expr // right)

    def __rfloordiv__(self, other: Any) -> Any:
        left = _integer(other)
        return super().__rfloordiv__(other) if left is None else self.table.dim(left // self.expr)

    def __mod__(self, other: Any) -> Any:
        right = _integer(other)
        return super().__mod__(other) if right is None else self.table.dim(self.expr % right)

    def __neg__(self) -> Any:
        return self.table.dim(-self.expr)


def _operand(value: Any) -> Any:
    """What stands for a number in expressions: a plain number or an `Expr`; None for what is neither."""
    kind = type(value)
    if kind is int:
        return value
    if kind is Dim:
        return value.expr
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return value.node.expr
    return value if isinstance(value, (int, float)) else None


def _integer(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return value
    if kind is Dim:
        return value.expr
    if isinstance(value, torch.SymInt):
        return value.node.expr
    return int(value) if isinstance(value, int) else None


def _compare(table: DimTable, relation: Callable[..., Expr], known: dict[Any, bool], left: Any, right: Any) -> bool:
    """Whether one number is in a relation to another; ``known`` are the answers so far."""
    key = (left, right)
    answer = known.get(key)
    if answer is None:
        answer = table.decide(relation(left, right), known, key)
    return answer


# ---------------------------------------------------------------------------------------------------------------------
# from torch's numbers


def table_of(adapter: TorchShapeEnv) -> DimTable:
    """The table of an environment."""
    table = adapter.dims
    if table is None:
        table = adapter.dims = DimTable(adapter)
    assert isinstance(table, DimTable)
    return table


def dim_of(value: Any) -> Any:
    """A size as rules want it: ints as they are, symbols as `Dim`."""
    kind = type(value)
    if kind is int:
        return value
    if kind is Dim:
        return value.table.dim(value.expr)
    if kind is torch.SymInt:
        node: SymNode = value.node
        table = node.shape_env.dims
        return (table or table_of(node.shape_env)).dim(node.raw_expr)  # type: ignore[attr-defined]
    return value


def dims(values: Sequence[Any]) -> tuple[Any, ...]:
    """`dim_of` for each."""
    return tuple([value if type(value) is int else dim_of(value) for value in values])


def shape_of(x: torch.Tensor) -> tuple[Any, ...]:
    """The sizes of a tensor as rules want them."""
    return dims(x.shape) if has_symbolic_layout(x) else x.shape


def stride_of(x: torch.Tensor) -> tuple[Any, ...]:
    """The strides of a tensor as rules want them."""
    return dims(x.stride()) if has_symbolic_layout(x) else x.stride()


def layout_of(x: torch.Tensor) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Sizes and strides of a tensor as rules want them."""
    return (dims(x.shape), dims(x.stride())) if has_symbolic_layout(x) else (x.shape, x.stride())


def offset_of(x: torch.Tensor) -> Any:
    """Where in its storage a tensor starts."""
    return dim_of(x.storage_offset())


def numel_of(x: torch.Tensor) -> Any:
    """The number of elements of a tensor."""
    return product(dims(x.shape)) if has_symbolic_layout(x) else x.numel()


def product(values: Sequence[Any]) -> Any:
    """
    >>> product((2, 3, 4))
    24
    """
    total: Any = 1
    for value in values:
        total = total * value
    return total


# ---------------------------------------------------------------------------------------------------------------------
# questions that leave no guard


def known_equal(a: Any, b: Any) -> bool:
    """Whether two sizes are equal for certain."""
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    table = a.table if type(a) is Dim else b.table
    left, right = _operand(a), _operand(b)
    if left is right:
        return True
    if table.equal.get((left, right)):
        return True
    return table.env.decide(eq(left, right)) is True


def at_least_one(size: Any) -> Any:
    """``max(size, 1)``, which no size but 0 changes."""
    if type(size) is int:
        return size or 1
    interval = size.table.env.interval(size.expr)
    return size if interval.lower >= 1 else size.table.dim(maximum(size.expr, 1))


def require_equal(a: Any, b: Any) -> bool:
    """Whether two sizes are equal; where data decides, that they are becomes a check of the program."""
    if a is b:
        return True
    if type(a) is int and type(b) is int:
        return a == b
    table: DimTable = a.table if type(a) is Dim else b.table
    return table.env.check(eq(_operand(a), _operand(b)))


def depends_on_data(number: Any) -> bool:
    """Whether data decides on a number."""
    return type(number) is Dim and number.table.depends_on_data(number.expr)


def require_natural(number: Any) -> bool:
    """Whether a number is not negative; where data decides, that it is not becomes a check of the program."""
    if type(number) is not Dim:
        return bool(number >= 0)
    return number.table.env.check(le(0, number.expr))


def smaller(a: Any, b: Any) -> Any:
    """``min(a, b)``: where data decides an expression, otherwise the one that is smaller now, with a guard."""
    if type(a) is int and type(b) is int:
        return min(a, b)
    table: DimTable = a.table if type(a) is Dim else b.table
    left, right = _operand(a), _operand(b)
    return table.dim(minimum(left, right)) if table.depends_on_data(left, right) else (b if b < a else a)


def larger(a: Any, b: Any) -> Any:
    """``max(a, b)``, likewise."""
    if type(a) is int and type(b) is int:
        return max(a, b)
    table: DimTable = a.table if type(a) is Dim else b.table
    left, right = _operand(a), _operand(b)
    return table.dim(maximum(left, right)) if table.depends_on_data(left, right) else (b if a < b else a)


def is_one(size: Any) -> bool:
    """Whether a size is 1, asked where a result has another shape then; where data decides, a check says no."""
    if type(size) is not Dim:
        return bool(size == 1)
    table: DimTable = size.table
    if not table.depends_on_data(size.expr):
        return size == 1
    known = table.env.decide(eq(size.expr, 1))
    return not table.env.check(ne(size.expr, 1)) if known is None else known


# ---------------------------------------------------------------------------------------------------------------------
# layouts


def contiguous_strides(shape: Sequence[Any]) -> tuple[Any, ...]:
    """
    >>> contiguous_strides((2, 0, 3))
    (3, 3, 1)
    """
    strides: list[Any] = []
    step: Any = 1
    for size in reversed(shape):
        strides.append(step)
        step = step * at_least_one(size)
    return tuple(reversed(strides))


def storage_size(shape: Sequence[Any], stride: Sequence[Any]) -> Any:
    """How many elements a storage needs for a layout.

    >>> storage_size((2, 3), (5, 1)), storage_size((2, 0), (1, 1))
    (8, 0)
    """
    table = next((number.table for number in (*shape, *stride) if type(number) is Dim), None)
    if table is None:
        return _storage_size(shape, stride)
    key = (shape, stride)
    size = table.storage_sizes.get(key)
    if size is None:
        size = table.storage_sizes[key] = _storage_size(shape, stride)
    return size


def _storage_size(shape: Sequence[Any], stride: Sequence[Any]) -> Any:
    elements: Any = 1
    for size, step in zip(shape, stride, strict=True):
        if type(size) is int and size == 0:
            return 0
        elements = elements + (size - 1) * step
    return elements
