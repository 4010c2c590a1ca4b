"""The bridge to torch: our expressions inside `torch.SymInt`, `torch.SymFloat` and `torch.SymBool`.

torch asks a symbolic number's `node` for arithmetic and for decisions, by method names that it fixes. `SymNode` answers
them with expressions and a `ShapeEnv`; constants leave as plain Python numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from firesteel import torch_compat
from firesteel.shapes import arithmetic, polynomials, relations
from firesteel.shapes.env import ShapeEnv, UndecidableError
from firesteel.shapes.expr import Call, Const, Expr, ExprLike, Kind, Scalar, as_expr, const
from firesteel.shapes.operations import MATH_FUNCTIONS
from firesteel.shapes.ranges import INF, Interval

_LayoutCondition = Callable[[Sequence[Expr], Sequence[Expr], tuple[int, ...]], Expr]
# No tensor has so many elements; bounds that are infinite are those of sizes.
_BEYOND_MEMORY = 2**61
_PYTYPES: dict[Kind, type] = {"int": int, "float": float, "bool": bool}


class TorchShapeEnv:
    """What torch expects to find as `node.shape_env`, answered by a `ShapeEnv`."""

    # torch keeps records for a validator of its own when this is set.
    _translation_validation_enabled = False

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.dims: object = None
        """Kept here for `fake.dims`, so that an environment has one and both die together."""
        self._nodes: dict[Expr, SymNode] = {}
        self._wrapped: dict[Expr, Any] = {}
        self._answers: dict[Expr, Scalar] = {}
        self._hints: dict[Expr, Scalar | None] = {}
        self.results: dict[tuple[Any, ...], SymNode] = {}
        """Nodes by the operation and the operands that made them."""

    def node(self, expr: Expr) -> SymNode:
        """The one node of an expression."""
        node = self._nodes.get(expr)
        if node is None:
            node = self._nodes[expr] = SymNode(expr, self)
        return node

    def wrapped(self, expr: Expr) -> Any:
        """The one `torch.SymInt`, `SymFloat` or `SymBool` of an expression."""
        wrapped = self._wrapped.get(expr)
        if wrapped is None:
            wrapped = self._wrapped[expr] = _WRAPPERS[expr.kind](self.node(expr))
        return wrapped

    def answer(self, expr: Expr) -> Scalar:
        """`ShapeEnv.evaluate`, remembered: what was known stays so, and for what was not a guard was left."""
        answer = self._answers.get(expr)
        if answer is None:
            answer = self._answers[expr] = self._evaluate(expr)
        return answer

    def _evaluate(self, expr: Expr) -> Scalar:
        # torch asks of sizes whether they are 0 or 1. That a number is not its least value is guarded as an inequality,
        # which says more about others.
        if isinstance(expr, Call) and expr.op in ("eq0", "ne0"):
            part, factor, constant = polynomials.primitive(expr.operands[0])
            least = -constant // factor
            if self.env.interval(part).lower == least and self.env.hint(part) not in (None, least):
                return self.env.evaluate(part >= least + 1) == (expr.op == "ne0")
        return self.env.evaluate(expr)

    def answer_for_size(self, expr: Expr) -> bool:
        """`ShapeEnv.evaluate_as_general_size`, remembered where hints decide."""
        answer = self._answers.get(expr)
        if answer is not None:
            return bool(answer)
        return bool(self.answer(expr)) if self.env.is_backed(expr) else self.env.evaluate_as_general_size(expr)

    def answer_or(self, expr: Expr, default: bool) -> bool:
        """`ShapeEnv.evaluate_or`."""
        answer = self._answers.get(expr)
        if answer is not None:
            return bool(answer)
        return bool(self.answer(expr)) if self.env.is_backed(expr) else self.env.evaluate_or(expr, default)

    def hint(self, expr: Expr) -> Scalar | None:
        """`ShapeEnv.hint`, remembered: hints do not change."""
        hint = self._hints.get(expr)
        if hint is None:
            hint = self._hints[expr] = self.env.hint(expr)
        return hint

    def evaluate_sym_node(
        self, node: SymNode, size_oblivious: bool = False, fallback_value: bool | None = None
    ) -> Scalar:
        if fallback_value is not None:
            return self.answer_or(node.raw_expr, fallback_value)
        if size_oblivious:
            return node.guard_size_oblivious("", 0)
        return self.answer(node.raw_expr)

    def _maybe_evaluate_static(self, expr: Expr, compute_hint: bool = False, **_: object) -> Scalar | None:
        if compute_hint:
            return self.env.hint(expr)
        if expr.kind == "bool":
            return self.env.decide(expr)
        interval = self.env.interval(expr)
        return int(interval.lower) if expr.kind == "int" and interval.is_single else None

    def guarding_hint_or_throw(self, expr: Expr) -> Scalar:
        value = self.env.hint(expr)
        return self.env.evaluate(expr) if value is None else value

    def optimization_hint(self, expr: Expr, fallback: int | None = None) -> Scalar | None:
        value = self.env.hint(expr)
        return fallback if value is None else value

    def bound_sympy(self, expr: Expr) -> _Bounds:
        return _Bounds(self.env.interval(expr))

    def is_unbacked_symint(self, expr: Expr) -> bool:
        return expr in self.env.symbols and expr not in self.env.hints


class _Bounds:
    """An interval under the names that torch reads."""

    def __init__(self, interval: Interval) -> None:
        self.lower, self.upper = interval.lower, interval.upper
        self._single = interval.is_single

    def is_singleton(self) -> bool:
        return self._single


class SymNode:
    """One symbolic number, under the names that torch calls."""

    __slots__ = ("raw_expr", "shape_env")

    # For `torch_compat`: torch's predicates on symbolic numbers can leave this one to its own methods.
    answers_for_itself = True

    def __init__(self, expr: Expr, shape_env: TorchShapeEnv) -> None:
        self.raw_expr = expr
        self.shape_env = shape_env

    def _new(self, expr: Expr) -> SymNode:
        return self.shape_env.node(expr)

    # What it is

    @property
    def expr(self) -> Expr:
        return self.shape_env.env.replace(self.raw_expr)

    @property
    def pytype(self) -> type:
        return _PYTYPES[self.raw_expr.kind]

    @property
    def _hint(self) -> Scalar | None:
        return self.shape_env.hint(self.raw_expr)

    hint = _hint

    @property
    def constant(self) -> Scalar | None:
        expr = self.raw_expr
        return expr.value if isinstance(expr, Const) else None

    def has_hint(self) -> bool:
        return self.shape_env.env.is_backed(self.expr)

    def is_int(self) -> bool:
        return self.raw_expr.kind == "int"

    def is_float(self) -> bool:
        return self.raw_expr.kind == "float"

    def is_bool(self) -> bool:
        return self.raw_expr.kind == "bool"

    def is_nested_int(self) -> bool:
        return False

    def nested_int(self) -> None:
        return None

    def is_symbolic(self) -> bool:
        return True

    def is_constant(self) -> bool:
        # torch then takes the plain value out of arithmetic results, which it can do for ints and bools only.
        return type(self.raw_expr) is Const and self.raw_expr.kind != "float"

    def _constant_of(self, kind: Kind) -> Scalar | None:
        expr = self.expr
        return expr.value if isinstance(expr, Const) and expr.kind == kind else None

    def maybe_as_int(self) -> int | None:
        # torch asks this often, most of the time while no equality is known
        if type(self.raw_expr) is not Const and not self.shape_env.env.facts.replacements:
            return None
        value = self._constant_of("int")
        return None if value is None else int(value)

    def maybe_as_float(self) -> float | None:
        return self._constant_of("float")

    def maybe_as_bool(self) -> bool | None:
        value = self._constant_of("bool")
        return None if value is None else bool(value)

    constant_int = maybe_as_int
    constant_bool = maybe_as_bool

    def wrap_int(self, num: int) -> SymNode:
        return self._new(const(num))

    wrap_float = wrap_bool = wrap_int

    def clone(self) -> SymNode:
        return self

    def str(self) -> str:
        return str(self.expr)

    _graph_repr = __str__ = __repr__ = str

    # Decisions

    def guard_int(self, file: object, line: object) -> int:
        if torch_compat.asks_for_plain_sizes(file) and not torch_compat.python_dispatcher_enabled():
            # An error, as older releases of torch raise it: in Python there is often a way that needs no numbers.
            raise RuntimeError("C++ code asks for numbers of a tensor with symbolic sizes/strides")
        return int(self.shape_env.answer(self.raw_expr))

    def guard_float(self, file: object, line: object) -> float:
        return float(self.shape_env.answer(self.raw_expr))

    def guard_bool(self, file: object, line: object) -> bool:
        return bool(self.shape_env.answer(self.raw_expr))

    def guard_or_false(self, file: object, line: object) -> bool:
        return self.shape_env.answer_or(self.raw_expr, False)

    def guard_or_true(self, file: object, line: object) -> bool:
        return self.shape_env.answer_or(self.raw_expr, True)

    def guard_size_oblivious(self, file: object, line: object) -> bool:
        return self.shape_env.answer_for_size(self.raw_expr)

    def statically_known_true(self, file: object, line: object) -> bool:
        return self.shape_env.env.decide(self.raw_expr) is True or self._is_size_below_any_memory()

    def _is_size_below_any_memory(self) -> bool:
        """Whether this says that a size is less than the end of a slice without an end, which is as far as can be."""
        if not isinstance(self.raw_expr, Call) or self.raw_expr.op != "ge0":
            return False
        bound = polynomials.parts(self.raw_expr.operands[0])[0]
        env = self.shape_env.env
        if bound < _BEYOND_MEMORY or not env.is_backed(self.raw_expr):
            return False
        size = env.interval(polynomials.scale(polynomials.add_const(self.raw_expr.operands[0], -bound), -1))
        return size.lower >= 0 and size.upper == INF

    def expect_true(self, file: object, line: object) -> bool:
        return self.shape_env.env.check(self.raw_expr)

    def int_(self) -> int:
        return self.guard_int("", 0)

    def bool_(self) -> bool:
        return self.guard_bool("", 0)

    def float_(self) -> float:
        return self.guard_float("", 0)

    def evaluate(self, size_oblivious: bool = False) -> Scalar:
        return self.shape_env.evaluate_sym_node(self, size_oblivious)

    # Operations that are not one of the tables below

    def pow(self, other: SymNode) -> SymNode:
        base, exponent = self.raw_expr, other.raw_expr
        if base.kind == "int" and exponent.kind == "int" and not isinstance(exponent, Const):
            natural = self.shape_env.env.evaluate(exponent >= 0)
            return self._new(
                arithmetic.pow_by_natural(base, exponent)
                if natural
                else arithmetic.power(arithmetic.to_float(base), arithmetic.to_float(exponent))
            )
        return self._new(arithmetic.power(base, exponent))

    def pos(self) -> SymNode:
        return self

    def round(self, ndigits: int | None = None) -> SymNode:
        return self._new(arithmetic.round_(self.raw_expr, ndigits))

    def sym_ite(self, then_val: SymNode, else_val: SymNode) -> SymNode:
        return self._new(relations.if_else(self.raw_expr, then_val.raw_expr, else_val.raw_expr))

    def sym_sum(self, args: Sequence[SymNode]) -> SymNode:
        total: Expr = const(0)
        for arg in args:
            total = arithmetic.add(total, arg.raw_expr)
        return self._new(total)

    # Memory formats

    def is_contiguous(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._strided_in_order(sizes, strides, tuple(range(len(sizes) - 1, -1, -1)))

    def is_channels_last_contiguous_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._strided_in_order(sizes, strides, (1, 3, 2, 0))

    def is_channels_last_contiguous_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._strided_in_order(sizes, strides, (1, 4, 3, 2, 0))

    def is_channels_last_strides_2d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._strides_grow(sizes, strides, (1, 3, 2, 0))

    def is_channels_last_strides_3d(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        return self._strides_grow(sizes, strides, (1, 4, 3, 2, 0))

    def is_non_overlapping_and_dense(self, sizes: Sequence[SymNode], strides: Sequence[SymNode]) -> SymNode:
        if len(sizes) == 1:
            return self._new(relations.or_(relations.eq(strides[0].raw_expr, 1), sizes[0].raw_expr < 2))
        # The dimensions in the order that the strides of this run give; dense means contiguous in that order.
        hints = [(node._hint, i) for i, node in enumerate(strides)]
        if any(value is None for value, _ in hints):
            return self.is_contiguous(sizes, strides)
        sized = [(value, sizes[i]._hint or 0, i) for value, i in hints]
        return self._strided_in_order(sizes, strides, tuple([i for _, _, i in sorted(sized)]))

    def _strided_in_order(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: tuple[int, ...]
    ) -> SymNode:
        """Whether the strides are those of a dense tensor whose dimensions lie in `order`, innermost first."""
        if len(order) != len(sizes):
            return self._new(const(False))
        return self._remembered(sizes, strides, order, self._dense_condition)

    def _dense_condition(self, sizes: Sequence[Expr], strides: Sequence[Expr], order: tuple[int, ...]) -> Expr:
        decide = self.shape_env.env.decide
        conditions: list[Expr] = []
        expected: Expr = const(1)
        for i in order:
            if strides[i] is not expected:
                condition = relations.or_(relations.eq(strides[i], expected), relations.eq(sizes[i], 1))
                if decide(condition) is not True:
                    conditions.append(condition)
            expected = arithmetic.mul(expected, sizes[i])
        if not conditions:
            return const(True)
        # What is known is left out, so that guards say what is not.
        empty = [relations.eq(size, 0) for size in sizes if decide(relations.eq(size, 0)) is not False]
        if any([decide(condition) is False for condition in conditions]):
            return relations.or_(*empty)
        return relations.or_(relations.and_(*conditions), *empty)

    def _strides_grow(self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: tuple[int, ...]) -> SymNode:
        """Whether strides grow along `order` as in a channels-last tensor, which need not be dense."""
        if len(order) != len(sizes):
            return self._new(const(False))
        return self._remembered(sizes, strides, order, self._growing_condition)

    def _growing_condition(self, sizes: Sequence[Expr], strides: Sequence[Expr], order: tuple[int, ...]) -> Expr:
        decide = self.shape_env.env.decide
        conditions: list[Expr] = [relations.ne(strides[1], 0)]
        least: Expr = const(0)
        for i in order:
            conditions += [relations.ne(sizes[i], 0), strides[i] >= least]
            if i == 0:
                # A tensor of one channel and one row could be either format; it is called contiguous then.
                conditions.append(relations.ne(least, strides[1]))
            least = arithmetic.mul(strides[i], arithmetic.maximum(sizes[i], 1))
        unknown = []
        for condition in conditions:
            known = decide(condition)
            if known is False:
                return const(False)
            if known is None:
                unknown.append(condition)
        return relations.and_(*unknown)

    def _remembered(
        self, sizes: Sequence[SymNode], strides: Sequence[SymNode], order: tuple[int, ...], build: _LayoutCondition
    ) -> SymNode:
        # Every new tensor has this asked of it. What is decided stays so; an answer still open may close, though.
        results = self.shape_env.results
        key = (build.__name__, order, *[node.raw_expr for node in sizes], *[node.raw_expr for node in strides])
        known = results.get(key)
        if known is None:
            condition = build([node.expr for node in sizes], [node.expr for node in strides], order)
            if not isinstance(condition, Const) and not self.shape_env.env.is_backed(condition):
                return self._new(const(self._likely(condition)))
            known = self._new(condition)
            if isinstance(known.raw_expr, Const):
                results[key] = known
        return known

    def _likely(self, condition: Expr) -> bool:
        """Whether a layout is as asked where data decides: it is when that is so for all sizes from 2 on."""
        try:
            return self.shape_env.env.evaluate_as_general_size(condition)
        except UndecidableError:
            return False


_BINARY: dict[str, Callable[[ExprLike, ExprLike], Expr]] = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "mod": arithmetic.mod,
    "floordiv": arithmetic.floordiv,
    "int_floordiv": arithmetic.floordiv,
    "truediv": arithmetic.truediv,
    "int_truediv": arithmetic.truediv,
    "float_truediv": arithmetic.truediv,
    "pow_by_natural": arithmetic.pow_by_natural,
    "float_pow": arithmetic.power,
    "sym_min": arithmetic.minimum,
    "sym_max": arithmetic.maximum,
    "lshift": arithmetic.lshift,
    "rshift": arithmetic.rshift,
    "bitwise_and": arithmetic.bitand,
    "bitwise_or": arithmetic.bitor,
    "bitwise_xor": arithmetic.bitxor,
    "eq": relations.eq,
    "ne": relations.ne,
    "lt": relations.lt,
    "le": relations.le,
    "gt": relations.gt,
    "ge": relations.ge,
    "and_": relations.and_,
    "or_": relations.or_,
    "sym_and": relations.and_,
    "sym_or": relations.or_,
}
_UNARY: dict[str, Callable[[ExprLike], Expr]] = {
    "neg": arithmetic.neg,
    "abs": arithmetic.absolute,
    "floor": arithmetic.floor,
    "ceil": arithmetic.ceil,
    "trunc": arithmetic.trunc,
    "sym_int": arithmetic.trunc,
    "sym_float": arithmetic.to_float,
    "is_integer": arithmetic.is_integer,
    "sym_not": relations.not_,
}


def _install_operations() -> None:
    def binary(name: str, build: Callable[[ExprLike, ExprLike], Expr]) -> Callable[[SymNode, SymNode], SymNode]:
        def operate(self: SymNode, other: SymNode) -> SymNode:
            adapter = self.shape_env
            key = (name, self.raw_expr, other.raw_expr)
            node = adapter.results.get(key)
            if node is None:
                node = adapter.results[key] = adapter.node(build(self.raw_expr, other.raw_expr))
            return node

        return operate

    def unary(build: Callable[[ExprLike], Expr]) -> Callable[[SymNode], SymNode]:
        return lambda self: self._new(build(self.raw_expr))

    def function(name: str) -> Callable[[SymNode], SymNode]:
        return lambda self: self._new(arithmetic.math_call(name, self.raw_expr))

    for name, build in _BINARY.items():
        setattr(SymNode, name, binary(name, build))
    for name, make in _UNARY.items():
        setattr(SymNode, name, unary(make))
    for name in MATH_FUNCTIONS:
        setattr(SymNode, f"sym_{name}", function(name))
        setattr(SymNode, f"_sym_{name}", function(name))


_install_operations()

_WRAPPERS: dict[Kind, type] = {"int": torch.SymInt, "float": torch.SymFloat, "bool": torch.SymBool}


def _torch_env(env: ShapeEnv) -> TorchShapeEnv:
    if env.torch_adapter is None:
        env.torch_adapter = TorchShapeEnv(env)
    assert isinstance(env.torch_adapter, TorchShapeEnv)
    return env.torch_adapter


def make_symbolic(env: ShapeEnv, expr: ExprLike) -> Any:
    """A `torch.SymInt`, `SymFloat` or `SymBool`, by the expression's kind; a plain number when it is constant."""
    expr = env.replace(expr)
    if isinstance(expr, Const):
        return expr.value
    return _torch_env(env).wrapped(expr)


def make_symint(env: ShapeEnv, expr: ExprLike) -> torch.SymInt | int:
    """The integer expression as torch wants sizes: a `torch.SymInt`, or an int when it is constant."""
    expr = as_expr(expr)
    if expr.kind != "int":
        raise TypeError(f"expected an integer expression, got {expr} of kind {expr.kind}")
    result: torch.SymInt | int = make_symbolic(env, expr)
    return result


def expr_of(value: object) -> Expr:
    """The expression inside a torch symbolic number; a plain number gives a constant."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node = value.node
        if not isinstance(node, SymNode):
            raise TypeError(f"{value} is a symbolic number of another system ({type(node).__name__})")
        return node.expr
    if isinstance(value, (bool, int, float)):
        return const(value)
    raise TypeError(f"expected a number, got {type(value).__name__}")


def floor_quotient(a: Any, b: Any) -> Any:
    """``a // b`` of numbers of which one is a symbolic float: torch rounds ``a / b``, and 1.0 // 0.1 is 9, not 10."""
    node = next(number.node for number in (a, b) if isinstance(number, (torch.SymInt, torch.SymFloat)))
    return make_symbolic(node.shape_env.env, arithmetic.floordiv(expr_of(a), expr_of(b)))


def computed(function: Any, values: Sequence[Any]) -> Any:
    """What a function gives for numbers, symbolic or plain, as Python computes it."""
    if function is torch.sym_ite:
        return choose(*values)
    if function is operator.floordiv and any(isinstance(value, (torch.SymInt, torch.SymFloat)) for value in values) \
            and any(isinstance(value, (float, torch.SymFloat)) for value in values):
        return floor_quotient(*values)
    return function(*values)


def choose(condition: Any, then: Any, otherwise: Any) -> Any:
    """One of two numbers, symbolic or plain; ``torch.sym_ite`` wants both to be symbols."""
    if not isinstance(condition, torch.SymBool):
        return then if condition else otherwise
    expr = relations.if_else(*map(expr_of, (condition, then, otherwise)))
    return make_symbolic(condition.node.shape_env.env, expr)


def hint_of(value: Any) -> Any:
    """The value of a number in the run that is being captured, symbolic or plain, without a guard."""
    return value.node.hint if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value
