"""`ShapeEnv`: the symbols of one capture, what is known about them, and the guards that decisions on them left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from firesteel.errors import UserFrame
from firesteel.shapes import relations
from firesteel.shapes.expr import Const, Expr, ExprLike, Kind, Scalar, Symbol, as_expr, const, symbol
from firesteel.shapes.facts import ContradictionError, Facts
from firesteel.shapes.ranges import ANY_FLOAT, BOOL, INF, Interval
from firesteel.shapes.simplify import simplify_under_ranges


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who asked: the user's frames (outermost first), the source of the value, the operator that needed to know."""

    frames: tuple[UserFrame, ...] = ()
    source: str = ""
    op: str = ""

    def __str__(self) -> str:
        place = str(self.frames[-1]) if self.frames else "an unknown place"
        return f"{place}, in {self.op}" if self.op else place


UNKNOWN = Provenance()


@dataclass(frozen=True, slots=True)
class ShapeGuard:
    """A condition that must hold again for a captured program to be valid, and where it was born."""

    expr: Expr
    provenance: Provenance = UNKNOWN

    def __str__(self) -> str:
        return f"{self.expr}  # {self.provenance}"


@dataclass(frozen=True, slots=True)
class SymbolInfo:
    """What was declared about a symbol: its place in the program, and the interval promised for it."""

    symbol: Symbol
    source_name: str
    hint: Scalar | None
    interval: Interval
    provenance: Provenance


class UndecidableError(Exception):
    """A value was needed that depends on data, and nothing that is known decides it."""

    def __init__(self, expr: Expr, symbols: list[SymbolInfo], provenance: Provenance) -> None:
        self.expr = expr
        self.provenance = provenance
        names = ", ".join(f"{info.symbol} = {info.source_name}" for info in symbols)
        check = f"torch._check({expr})" if expr.kind == "bool" else "torch._check on its possible values"
        super().__init__(
            f"the value of `{expr}` is not known while capturing: it depends on data ({names}). "
            f"Asked at {provenance}. If one answer always holds, state it with {check}."
        )


@dataclass
class ShapeEnv:
    """Symbols, facts and guards.

    >>> env = ShapeEnv()
    >>> s0 = env.new_symbol(6, "x.size(0)", lower=2)
    >>> env.evaluate(s0 > 4), env.evaluate(s0 > 3), env.evaluate(s0 >= 2)
    (True, True, True)
    >>> [str(guard.expr) for guard in env.guards]
    ['s0 >= 5']
    """

    current_provenance: Callable[[], Provenance] = field(default=lambda: UNKNOWN)
    symbols: dict[Symbol, SymbolInfo] = field(default_factory=dict)
    hints: dict[Symbol, Scalar] = field(default_factory=dict)
    facts: Facts = field(default_factory=Facts)
    checks: list[ShapeGuard] = field(default_factory=list)
    """Conditions on data that were stated (`torch._check`): to be asserted when the program runs, not before."""
    torch_adapter: object = field(default=None, repr=False)
    """Kept here for `symnode`, so that an environment has one and both die together."""
    _recorded: list[ShapeGuard] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)

    # Symbols

    def new_symbol(
        self,
        hint: Scalar | None,
        source_name: str,
        *,
        kind: Kind = "int",
        lower: Scalar = -INF,
        upper: Scalar = INF,
        provenance: Provenance | None = None,
    ) -> Symbol:
        """A new symbol: backed when there is a hint, the value in the run that is being captured, otherwise unbacked.

        The bounds are promises: whoever makes the symbol sees to it that they hold, see `assumptions`.
        """
        prefix = {"int": "s", "float": "f", "bool": "b"}[kind] if hint is not None else _UNBACKED_PREFIX[kind]
        number = self._counts.get(prefix, 0)
        self._counts[prefix] = number + 1
        new = symbol(f"{prefix}{number}", kind)
        if kind == "int":
            interval = Interval(lower, upper)
        elif kind == "bool":
            interval = BOOL
        else:
            bounded = (lower, upper) != (-INF, INF)
            interval = Interval(float(lower), float(upper)) if bounded else ANY_FLOAT
        if hint is not None:
            if hint not in interval:
                raise ValueError(f"the value {hint} of {source_name} is outside of its bounds {lower} to {upper}")
            self.hints[new] = hint
        self.symbols[new] = SymbolInfo(new, source_name, hint, interval, provenance or self.current_provenance())
        if kind != "bool":
            self.facts.set_bounds(new, interval)
            if interval.is_single and kind == "int":
                self.facts.add(relations.eq(new, const(int(lower))))
        return new

    def is_backed(self, expr: Expr) -> bool:
        """All symbols of the expression have hints."""
        return all([free in self.hints for free in expr.free_symbols])

    def hint(self, expr: ExprLike) -> Scalar | None:
        """The value in the run that is being captured, without a guard; None when it depends on unbacked symbols."""
        expr = self.facts.replace(as_expr(expr))
        if isinstance(expr, Const):
            return expr.value
        return expr.evaluate(self.hints) if self.is_backed(expr) else None

    def source_names(self) -> dict[Symbol, str]:
        """Where each symbol's value comes from, for printers."""
        return {info.symbol: info.source_name for info in self.symbols.values()}

    # Knowledge

    def replace(self, expr: ExprLike) -> Expr:
        """The expression with known equalities applied."""
        return self.facts.replace(as_expr(expr))

    def simplify(self, expr: ExprLike) -> Expr:
        """The shortest form known: equalities applied, divisions, remainders, min and max resolved by ranges."""
        return simplify_under_ranges(as_expr(expr), self.facts)

    def interval(self, expr: ExprLike) -> Interval:
        """Bounds on an expression."""
        return self.facts.interval(as_expr(expr))

    def decide(self, condition: ExprLike) -> bool | None:
        """True or False when every allowed choice of values gives that, otherwise None. Never guards."""
        expr = self.facts.replace(relations.truth(condition))
        if isinstance(expr, Const):
            return bool(expr.value)
        value = self.hint(expr)
        return self.facts.decide(expr, None if value is None else bool(value))

    def assume(self, condition: ExprLike) -> None:
        """Take a condition as true without a guard: something else sees to it."""
        self.facts.add(relations.truth(condition), self._unbacked())

    def _unbacked(self) -> frozenset[Symbol]:
        return frozenset(info for info in self.symbols if info not in self.hints)

    # Questions that leave guards

    def evaluate(self, expr: ExprLike, provenance: Provenance | None = None) -> Scalar:
        """The value of an expression in this capture; a guard is recorded unless the value follows from what is known.

        Raises `UndecidableError` when the value depends on unbacked symbols.
        """
        expr = self.facts.replace(as_expr(expr))
        if isinstance(expr, Const):
            return expr.value
        if expr.kind == "bool":
            decided = self.decide(expr)
            if decided is not None:
                return decided
        elif expr.kind == "int":
            interval = self.facts.interval(expr)
            if interval.is_single:
                return int(interval.lower)
        value = self.hint(expr)
        if value is None:
            raise self._undecidable(expr, provenance)
        if expr.kind == "bool":
            self._guard(expr if value else relations.not_(expr), provenance)
        elif value != value:
            self._guard(relations.ne(expr, expr), provenance)
        else:
            self._guard(relations.eq(expr, value), provenance)
        return value

    def evaluate_or(self, condition: ExprLike, default: bool, provenance: Provenance | None = None) -> bool:
        """Like `evaluate`, but `default` where the answer depends on unbacked symbols."""
        expr = self.facts.replace(relations.truth(condition))
        decided = self.decide(expr)
        if decided is not None:
            return decided
        return bool(self.evaluate(expr, provenance)) if self.is_backed(expr) else default

    def evaluate_as_general_size(self, condition: ExprLike, provenance: Provenance | None = None) -> bool:
        """Like `evaluate`, but unbacked sizes count as at least 2: some operators ask this way for their general case.

        No guard or check is left for that, so where the size turns out to be 0 or 1 an operator may describe its result
        differently from eager (a dimension not squeezed, a tensor not called contiguous).
        """
        expr = self.facts.replace(relations.truth(condition))
        decided = self.decide(expr)
        if decided is None and not self.is_backed(expr):
            known = Facts()
            for free in expr.free_symbols - self._float_or_bool():
                interval = self.facts.interval(free)
                is_size = free not in self.hints and interval.lower >= 0
                known.set_bounds(free, interval & Interval(lower=2) if is_size else interval)
            decided = known.decide(expr)
        return bool(self.evaluate(expr, provenance)) if decided is None else decided

    def _float_or_bool(self) -> frozenset[Symbol]:
        return frozenset(info for info in self.symbols if info.kind != "int")

    def check(self, condition: ExprLike, provenance: Provenance | None = None) -> bool:
        """State that a condition holds (`torch._check`): a guard where hints tell, otherwise a check at run time.

        Returns False when it is known not to hold; the caller then raises what the user's program would.
        """
        expr = self.facts.replace(relations.truth(condition))
        if self.is_backed(expr):
            return bool(self.evaluate(expr, provenance))
        decided = self.decide(expr)
        if decided is not None:
            return decided
        self.checks.append(ShapeGuard(expr, provenance or self.current_provenance()))
        self.facts.add(expr, self._unbacked())
        return True

    def _guard(self, expr: Expr, provenance: Provenance | None) -> None:
        self._recorded.append(ShapeGuard(expr, provenance or self.current_provenance()))
        self.facts.add(expr, self._unbacked())

    def _undecidable(self, expr: Expr, provenance: Provenance | None) -> UndecidableError:
        unbacked = [self.symbols[free] for free in expr.free_symbols if free in self.symbols and free not in self.hints]
        unbacked.sort(key=lambda info: info.symbol.name)
        return UndecidableError(expr, unbacked, provenance or self.current_provenance())

    # Results

    @property
    def guards(self) -> list[ShapeGuard]:
        """The guards of this capture in the order they were recorded, without those that others imply."""
        # Equalities say most, and later guards were not implied by earlier ones but may imply them.
        known = self._declared()
        newest_first = list(reversed(list(enumerate(self._recorded))))
        needed: dict[int, ShapeGuard] = {}
        for position, guard in sorted(newest_first, key=lambda item: not _is_equality(item[1].expr)):
            if known.decide(guard.expr, expected=True) is not True:
                # With an equality at hand the others become shorter.
                expr = guard.expr if _is_equality(guard.expr) else known.replace(guard.expr)
                needed[position] = ShapeGuard(expr, guard.provenance)
                known.add(guard.expr)
        return [needed[position] for position in sorted(needed)]

    def _declared(self) -> Facts:
        known = Facts()
        for info in self.symbols.values():
            if info.symbol.kind != "bool":
                known.set_bounds(info.symbol, info.interval)
        return known

    def assumptions(self) -> list[ShapeGuard]:
        """The bounds promised for backed symbols, as guards, without those that `guards` imply.

        A bound of 0 on the size of a tensor needs no check, because sizes are never negative; the caller knows that.
        """
        known = Facts()
        for guard in self.guards:
            known.add(guard.expr)
        result = []
        for info in self.symbols.values():
            if info.hint is None or info.symbol.kind == "bool":
                continue
            bounds = [
                relations.ge(info.symbol, info.interval.lower) if info.interval.lower != -INF else None,
                relations.le(info.symbol, info.interval.upper) if info.interval.upper != INF else None,
            ]
            for bound in bounds:
                if bound is not None and known.decide(bound, expected=True) is not True:
                    result.append(ShapeGuard(bound, info.provenance))
                    known.add(bound)
        return result


_UNBACKED_PREFIX: dict[Kind, str] = {"int": "u", "float": "uf", "bool": "ub"}


def _is_equality(expr: Expr) -> bool:
    return getattr(expr, "op", "") == "eq0"


__all__ = [
    "ContradictionError",
    "Provenance",
    "ShapeEnv",
    "ShapeGuard",
    "SymbolInfo",
    "UndecidableError",
]
