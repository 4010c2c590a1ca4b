"""Symbolic scalar expressions: the nodes, their interning and Python's operators on them.

An expression is immutable, in normal form from the moment it exists, and unique: two expressions that normalise to the
same form are the same object, so equality is identity and expressions are cheap dictionary keys. There are five kinds
of node:

- `Const`    a Python int, float or bool;
- `Symbol`   a name with a kind;
- `Sum`      an integer polynomial: a constant plus integer multiples of monomials;
- `Product`  a monomial: powers of atoms;
- `Call`     everything else: floor division, modulo, min, max, float arithmetic, comparisons, logic.

    >>> s0, s1 = symbol("s0"), symbol("s1")
    >>> print((s0 + 1) * s1 - s1, (4 * s0 + 6) // 2, (s0 * s1) % s1)
    s0*s1 2*s0 + 3 0
    >>> (s0 + s1) * 2 is 2 * s1 + 2 * s0
    True

Comparing with `<`, `<=`, `>` and `>=` builds an expression of kind "bool"; `==` stays identity, use `eq` and `ne`.
Where Python would raise (a division by zero), a simplified expression may have a value instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, NoReturn, TypeAlias, cast
from weakref import WeakValueDictionary

from firesteel.locks import new_rlock

Kind: TypeAlias = Literal["int", "float", "bool"]
Scalar: TypeAlias = "int | float"
ExprLike: TypeAlias = "Expr | int | float"
Values: TypeAlias = "Mapping[Symbol, int | float]"

_nodes: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
# Lookups go straight to the table of references below, for speed; insertions go through `_share`.
_references = _nodes.data  # type: ignore[attr-defined]
_lock = new_rlock()
_serials = itertools.count()


class Expr:
    """Base of all expressions. `kind` says what Python type its value has; `serial` orders expressions arbitrarily."""

    __slots__ = ("__weakref__", "_symbols", "kind", "serial")

    kind: Kind
    serial: int
    _symbols: frozenset[Symbol] | None
    text_of: ClassVar[Callable[[Expr], str]]
    """What `str` gives; `printing`, which knows all kinds of expressions, sets it."""

    def _setup(self, kind: Kind) -> None:
        self.kind = kind
        self.serial = next(_serials)
        self._symbols = None

    @property
    def args(self) -> tuple[Expr, ...]:
        """The sub-expressions, left to right."""
        return ()

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        """All symbols the value depends on."""
        symbols = self._symbols
        if symbols is None:
            symbols = frozenset().union(*[arg.free_symbols for arg in self.args])
            self._symbols = symbols
        return symbols

    @property
    def is_constant(self) -> bool:
        return False

    # torch reads these two off a node's expression.
    @property
    def is_number(self) -> bool:
        return False

    @property
    def is_Boolean(self) -> bool:  # noqa: N802
        return False

    def evaluate(self, values: Values) -> Scalar:
        """The value in an environment, exactly as Python would compute it.

        >>> (symbol("s0") // 2).evaluate({symbol("s0"): -3})
        -2
        """
        return evaluate(self, values, {})

    def substitute(self, replacements: Mapping[Expr, ExprLike]) -> Expr:
        """The expression with symbols (or whole sub-expressions) replaced at once, normalised again."""
        if not replacements:
            return self
        memo = {old: as_expr(new) for old, new in replacements.items()}
        return rebuild(self, lambda node: None, memo)

    def __str__(self) -> str:
        return type(self).text_of(self)

    __repr__ = __str__

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of the symbolic expression {self} is not known; ask a ShapeEnv to evaluate it")

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: object) -> Expr:
        return self

    def __add__(self, other: ExprLike) -> Expr:
        if type(other) is int and self.kind == "int":
            return polynomials.add_const(self, other)
        return arithmetic.add(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __radd__(self, other: ExprLike) -> Expr:
        if type(other) is int and self.kind == "int":
            return polynomials.add_const(self, other)
        return arithmetic.add(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __sub__(self, other: ExprLike) -> Expr:
        if type(other) is int and self.kind == "int":
            return polynomials.add_const(self, -other)
        return arithmetic.sub(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rsub__(self, other: ExprLike) -> Expr:
        return arithmetic.sub(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __mul__(self, other: ExprLike) -> Expr:
        if type(other) is int and self.kind == "int":
            return polynomials.scale(self, other)
        return arithmetic.mul(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmul__(self, other: ExprLike) -> Expr:
        if type(other) is int and self.kind == "int":
            return polynomials.scale(self, other)
        return arithmetic.mul(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __floordiv__(self, other: ExprLike) -> Expr:
        return arithmetic.floordiv(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return arithmetic.floordiv(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __mod__(self, other: ExprLike) -> Expr:
        return arithmetic.mod(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rmod__(self, other: ExprLike) -> Expr:
        return arithmetic.mod(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __truediv__(self, other: ExprLike) -> Expr:
        return arithmetic.truediv(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return arithmetic.truediv(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __pow__(self, other: ExprLike) -> Expr:
        return arithmetic.power(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __rpow__(self, other: ExprLike) -> Expr:
        return arithmetic.power(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def __neg__(self) -> Expr:
        return arithmetic.neg(self)

    def __abs__(self) -> Expr:
        return arithmetic.absolute(self)

    def __lt__(self, other: ExprLike) -> Expr:
        return relations.lt(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __le__(self, other: ExprLike) -> Expr:
        return relations.le(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __gt__(self, other: ExprLike) -> Expr:
        return relations.gt(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def __ge__(self, other: ExprLike) -> Expr:
        return relations.ge(self, other) if isinstance(other, _OPERANDS) else NotImplemented


_OPERANDS = (Expr, int, float)


class Const(Expr):
    """A plain Python value; its kind is the value's type."""

    __slots__ = ("value",)

    value: Scalar

    @property
    def is_constant(self) -> bool:
        return True

    @property
    def is_number(self) -> bool:
        return self.kind != "bool"

    @property
    def is_Boolean(self) -> bool:  # noqa: N802
        return self.kind == "bool"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return const, (self.value,)


class Symbol(Expr):
    """An unknown; unique by name and kind. What is known about it is kept by a `ShapeEnv`."""

    __slots__ = ("name",)

    name: str

    @property
    def free_symbols(self) -> frozenset[Symbol]:
        return self._symbols or frozenset((self,))

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return symbol, (self.name, self.kind)


class Sum(Expr):
    """`const` plus the sum of `coefficient * monomial` over `terms`; never trivial (a lone monomial is itself)."""

    __slots__ = ("const", "terms")

    const: int
    terms: tuple[tuple[Expr, int], ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return tuple([monomial for monomial, _ in self.terms])

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return _unpickle_sum, (self.const, self.terms)


class Product(Expr):
    """The product of `base ** exponent` over `factors`; exponents are positive and bases are not sums."""

    __slots__ = ("factors",)

    factors: tuple[tuple[Expr, int], ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return tuple([base for base, _ in self.factors])

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return _unpickle_product, (self.factors,)


class Call(Expr):
    """An operation `op` (a key of `operations.OPERATIONS`) applied to `operands`."""

    __slots__ = ("op", "operands")

    op: str
    operands: tuple[Expr, ...]

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.operands

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return operations.build, (self.op, self.operands)


def _share(key: tuple[Any, ...], node: Expr) -> Expr:
    with _lock:
        return _nodes.setdefault(key, node)


def _new_const(value: Scalar, kind: Kind) -> Const:
    node = Const.__new__(Const)
    node._setup(kind)
    node.value = value
    node._symbols = frozenset()
    return node


# Strong references: sizes below this are everywhere, and they then cost one list index.
_SMALL = 1024
_small_ints = [_new_const(value, "int") for value in range(-_SMALL, _SMALL)]
TRUE = _new_const(True, "bool")
FALSE = _new_const(False, "bool")
ZERO = _small_ints[_SMALL]
ONE = _small_ints[_SMALL + 1]


def const(value: Scalar) -> Const:
    """The constant expression of a Python value.

    >>> const(3) is const(3), const(1) is const(True)
    (True, False)
    """
    if type(value) is int:
        if -_SMALL <= value < _SMALL:
            return _small_ints[value + _SMALL]
        key: tuple[Any, ...] = ("const", "int", value)
        kind: Kind = "int"
    elif type(value) is bool:
        return TRUE if value else FALSE
    elif type(value) is float:
        # hex keeps -0.0 apart from 0.0 and makes NaN equal to itself.
        key, kind = ("const", "float", value.hex()), "float"
    else:
        raise TypeError(f"expected an int, float or bool, got {type(value).__name__}")
    reference = _references.get(key)
    known = reference() if reference is not None else None
    return cast(Const, known if known is not None else _share(key, _new_const(value, kind)))


def symbol(name: str, kind: Kind = "int") -> Symbol:
    """The symbol of that name and kind."""
    key = ("symbol", name, kind)
    reference = _references.get(key)
    known = reference() if reference is not None else None
    if known is None:
        node = Symbol.__new__(Symbol)
        node._setup(kind)
        node.name = name
        known = _share(key, node)
    return cast(Symbol, known)


def as_expr(value: ExprLike) -> Expr:
    """Expressions as they are, Python values as constants."""
    return value if isinstance(value, Expr) else const(value)


def make_sum(constant: int, terms: tuple[tuple[Expr, int], ...]) -> Expr:
    """`constant + Σ coefficient * monomial`; `terms` sorted by serial, without zeros or repetitions."""
    if not terms:
        return const(constant)
    if not constant and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    key = ("sum", constant, terms)
    reference = _references.get(key)
    known = reference() if reference is not None else None
    if known is None:
        node = Sum.__new__(Sum)
        node._setup("int")
        node.const = constant
        node.terms = terms
        known = _share(key, node)
    return known


def make_product(factors: tuple[tuple[Expr, int], ...]) -> Expr:
    """`Π base ** exponent`; `factors` sorted by serial, without repetitions."""
    if len(factors) == 1 and factors[0][1] == 1:
        return factors[0][0]
    if not factors:
        return ONE
    key = ("product", factors)
    reference = _references.get(key)
    known = reference() if reference is not None else None
    if known is None:
        node = Product.__new__(Product)
        node._setup("int")
        node.factors = factors
        known = _share(key, node)
    return known


def make_call(op: str, operands: tuple[Expr, ...], kind: Kind) -> Expr:
    """The operation as given, without normalisation: constructors elsewhere end here."""
    # The kind is a function of the operation and its operands, so it need not be in the key.
    key = (op, operands)
    reference = _references.get(key)
    known = reference() if reference is not None else None
    if known is None:
        node = Call.__new__(Call)
        node._setup(kind)
        node.op = op
        node.operands = operands
        known = _share(key, node)
    return known


def _unpickle_sum(constant: int, terms: tuple[tuple[Expr, int], ...]) -> Expr:
    # Serials differ between processes, so the order of the terms must be found again.
    return make_sum(constant, tuple(sorted(terms, key=lambda term: term[0].serial)))


def _unpickle_product(factors: tuple[tuple[Expr, int], ...]) -> Expr:
    return make_product(tuple(sorted(factors, key=lambda factor: factor[0].serial)))


def rebuild(expr: Expr, rewrite: Callable[[Expr], Expr | None], memo: dict[Expr, Expr]) -> Expr:
    """Rebuild `expr` bottom-up through the normalising constructors.

    `memo` maps expressions to their replacements and is extended. `rewrite` sees every rebuilt operation and sum once
    and may give another expression for it.
    """
    rebuilt = memo.get(expr)
    if rebuilt is not None:
        return rebuilt
    result: Expr = expr
    match expr:
        case Sum():
            new = [(rebuild(monomial, rewrite, memo), coefficient) for monomial, coefficient in expr.terms]
            if any(now is not old for (now, _), (old, _) in zip(new, expr.terms, strict=True)):
                result = _weighted_sum(expr.const, new)
            rewritten = rewrite(result)
            result = result if rewritten is None else rewritten
        case Product():
            new = [(rebuild(base, rewrite, memo), exponent) for base, exponent in expr.factors]
            if any(now is not old for (now, _), (old, _) in zip(new, expr.factors, strict=True)):
                result = ONE
                for base, exponent in new:
                    result = arithmetic.mul(result, arithmetic.power(base, const(exponent)))
        case Call():
            operands = tuple([rebuild(operand, rewrite, memo) for operand in expr.operands])
            if any(now is not old for now, old in zip(operands, expr.operands, strict=True)):
                try:
                    result = operations.build(expr.op, operands)
                except ZeroDivisionError:
                    # A divisor became zero. Python may never get there (`n == 0 or x % n == 0`), so it stays as it is.
                    result = make_call(expr.op, operands, expr.kind)
            rewritten = rewrite(result)
            result = result if rewritten is None else rewritten
        case _:
            pass
    memo[expr] = result
    return result


def _weighted_sum(constant: int, summands: list[tuple[Expr, int]]) -> Expr:
    """`constant + Σ coefficient * expression`, of any expressions, normalised."""
    if all([summand.kind == "int" for summand, _ in summands]):  # added up at once
        merged: dict[Expr, int] = {}
        for summand, coefficient in summands:
            own, terms = polynomials.parts(summand)
            constant += own * coefficient
            for monomial, factor in terms:
                merged[monomial] = merged.get(monomial, 0) + factor * coefficient
        return polynomials.from_terms(constant, merged)
    result: Expr = const(constant)
    for summand, coefficient in summands:
        result = arithmetic.add(result, arithmetic.mul(summand, const(coefficient)))
    return result


def evaluate(expr: Expr, values: Values, memo: dict[Expr, Scalar]) -> Scalar:
    """The value of an expression; `memo` keeps the values of its operations and is extended."""
    if isinstance(expr, Symbol):
        return _value_of(expr, values)
    if isinstance(expr, Const):
        return expr.value
    if expr in memo:
        return memo[expr]
    result: Scalar
    if isinstance(expr, Sum):
        result = expr.const
        for monomial, coefficient in expr.terms:
            result += coefficient * evaluate(monomial, values, memo)
    elif isinstance(expr, Product):
        result = 1
        for base, exponent in expr.factors:
            result *= evaluate(base, values, memo) ** exponent
    else:
        assert isinstance(expr, Call)
        result = operations.evaluate(expr, lambda operand: evaluate(operand, values, memo))
    memo[expr] = result
    return result


def _value_of(wanted: Symbol, values: Values) -> Scalar:
    try:
        return values[wanted]
    except KeyError:
        _missing(wanted)


def _missing(wanted: Symbol) -> NoReturn:
    raise KeyError(f"no value given for the symbol {wanted.name}") from None


# The constructors need the node classes and the operators need the constructors.
from firesteel.shapes import arithmetic, operations, polynomials, relations  # noqa: E402
