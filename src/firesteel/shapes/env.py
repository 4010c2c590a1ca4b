"""`ShapeEnv`: the symbols of one capture, what is known about them, and the guards that decisions on them left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from types import ModuleType

from firesteel import config
from firesteel.logs import enabled
from firesteel.shapes import relations
from firesteel.shapes.expr import Const, Expr, ExprLike, Kind, Scalar, Symbol, as_expr, const, evaluate, symbol
from firesteel.shapes.facts import ContradictionError, Facts
from firesteel.shapes.guards import UNKNOWN, Provenance, ShapeGuard, SymbolInfo, conjuncts, in_safe_order
from firesteel.shapes.ranges import ANY_FLOAT, BOOL, INF, Interval
from firesteel.shapes.simplify import simplify_under_ranges
from firesteel.shapes.undecidable import UndecidableError

from ..records import dataclass


class LateDecisionError(Exception):
    """A decision on sizes was needed after the guards were made, when nothing sees to it any more that it holds."""

    def __init__(self, guard: ShapeGuard) -> None:
        super().__init__(f"{guard.expr} would have to be decided after the guards were made")


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
    yielding: frozenset[Symbol] = frozenset()
    """Backed symbols that are replaced before others when an equality ties them together."""
    reserved: set[str] = field(default_factory=set)
    """Names that `reserve_name` does not give away."""
    settle: Callable[[UndecidableError], Scalar | None] | None = field(default=None, repr=False)
    """Where this is set, it may answer what depends on data; the answer becomes a check."""
    checks_defaults: bool = False
    """Whether what `evaluate_or` answers for want of data becomes a check: with `checks_layouts` all of it, otherwise
    where more than sizes of 0 and 1 differ."""
    checks_layouts: bool = False
    """Whether what is answered about strides for want of data becomes a check: an operator is being captured."""
    closed: bool = False
    """Whether the guards are made: what would be decided on a hint from now on nobody checks, so it raises."""
    answers: list[ShapeGuard] | None = None
    """Where this is a list: what was answered without a guard, because it followed from what was known."""
    torch_adapter: object = field(default=None, repr=False)
    """Kept here for `symnode`, so that an environment has one and both die together."""
    _recorded: list[ShapeGuard] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _hint_values: dict[Expr, Scalar] = field(default_factory=dict, repr=False)
    _replaced_by: dict[Symbol, ShapeGuard] = field(default_factory=dict, repr=False)
    """For each symbol that is no longer free, the guard that made it so."""
    _narrowed_by: list[tuple[SymbolInfo, ShapeGuard]] = field(default_factory=list, repr=False)
    _stacks: dict[ShapeGuard, str] = field(default_factory=dict, repr=False)
    """Where guards were born inside of firesteel, kept only while one is to be explained."""
    _results: tuple[int, list[ShapeGuard], list[ShapeGuard]] | None = field(default=None, repr=False)

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
        name: str | None = None,
        is_size: bool = True,
    ) -> Symbol:
        """A new symbol: backed when there is a hint, the value in the run that is being captured, otherwise unbacked.

        Sizes of inputs are what graphs and guards can always compute with. So where an equality ties them to a number
        that is no size, or to one that is not known before the program runs, those are replaced, never the size.

        The bounds are promises: whoever makes the symbol sees to it that they hold, see `assumptions`. A `name` comes
        from `reserve_name`.
        """
        if name is None:
            prefix = {"int": "s", "float": "f", "bool": "b"}[kind] if hint is not None else _UNBACKED_PREFIX[kind]
            name = self.reserve_name(prefix)
        new = symbol(name, kind)
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
        info = SymbolInfo(new, source_name, hint, interval, provenance or self.current_provenance())
        self.symbols[new] = info
        if enabled("shapes"):
            shape_log().log_symbol(info)
        if hint is None or not is_size:
            self.facts.levels[new] = 2 if hint is None else 1
        if kind != "bool":
            self.facts.set_bounds(new, interval)
            if interval.is_single and kind == "int":
                self.facts.add(relations.eq(new, const(int(lower))))
        return new

    def reserve_name(self, prefix: str = "s") -> str:
        """The next name of its kind, for a symbol that is made later or never."""
        while True:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            if f"{prefix}{number}" not in self.reserved:
                return f"{prefix}{number}"

    def is_backed(self, expr: Expr) -> bool:
        """All symbols of the expression have hints."""
        return all([free in self.hints for free in expr.free_symbols])

    def hint(self, expr: ExprLike) -> Scalar | None:
        """The value in the run that is being captured, without a guard; None when it depends on unbacked symbols."""
        expr = self.facts.replace(as_expr(expr))
        if isinstance(expr, Const):
            return expr.value
        value = self._hint_values.get(expr)
        if value is not None:
            return value
        return evaluate(expr, self.hints, self._hint_values) if self.is_backed(expr) else None

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
        try:
            value = self.hint(expr)
        except ArithmeticError:  # Python would raise here, so any answer does
            value = None
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
        asked = as_expr(expr)
        expr = self.facts.replace(asked)
        if isinstance(expr, Const):
            if self.answers is not None and asked.kind == "bool" and asked is not expr:
                self._answered(asked, bool(expr.value), provenance)
            return expr.value
        if expr.kind == "bool":
            decided = self.decide(expr)
            if decided is not None:
                if self.answers is not None:
                    self._answered(asked, decided, provenance)
                return decided
        elif expr.kind == "int":
            interval = self.facts.interval(expr)
            if interval.is_single:
                return int(interval.lower)
        value = self.hint(expr)
        if value is None:
            error = self._undecidable(expr, provenance)
            settled = None if self.settle is None else self.settle(error)
            if settled is None:
                raise error
            self.check(relations.eq(expr, settled) if expr.kind != "bool" else expr if settled else
                       relations.not_(expr), provenance)
            return settled
        if expr.kind == "bool":
            self._guard(expr if value else relations.not_(expr), provenance)
        elif value != value:
            self._guard(relations.ne(expr, expr), provenance)
        else:
            self._guard(relations.eq(expr, value), provenance)
        return value

    def _answered(self, asked: Expr, answer: bool, provenance: Provenance | None) -> None:
        assert self.answers is not None
        condition = asked if answer else relations.not_(asked)
        self.answers.append(ShapeGuard(condition, provenance or self.current_provenance()))

    def evaluate_or(self, condition: ExprLike, default: bool, provenance: Provenance | None = None) -> bool:
        """Like `evaluate`, but `default` where the answer depends on unbacked symbols."""
        expr = self.facts.replace(relations.truth(condition))
        decided = self.decide(expr)
        if decided is not None:
            return decided
        if self.is_backed(expr):
            return bool(self.evaluate(expr, provenance))
        if self.checks_defaults and (self.checks_layouts or self._decide_as_general_size(expr) is None) and any(
                self.facts.interval(free).upper > 1 for free in expr.free_symbols - self.hints.keys()):
            return default == self.check(expr if default else relations.not_(expr), provenance)
        return default

    def evaluate_as_general_size(self, condition: ExprLike, provenance: Provenance | None = None) -> bool:
        """Like `evaluate`, but unbacked sizes count as at least 2: some operators ask this way for their general case.

        No guard or check is left for that, so where the size turns out to be 0 or 1 an operator may describe its result
        differently from eager (a dimension not squeezed, a tensor not called contiguous).
        """
        expr = self.facts.replace(relations.truth(condition))
        decided = self.decide(expr)
        if decided is None and not self.is_backed(expr):
            decided = self._decide_as_general_size(expr)
        return bool(self.evaluate(expr, provenance)) if decided is None else decided

    def _decide_as_general_size(self, expr: Expr) -> bool | None:
        known = self.facts.copy()
        for free in expr.free_symbols - self.hints.keys():
            interval = self.facts.interval(free)
            if free.kind == "int" and interval.lower in (0, 1) and interval.upper >= 2:
                known.add(free >= 2)
        return known.decide(expr)

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
        check = ShapeGuard(expr, provenance or self.current_provenance())
        if self.closed:
            raise LateDecisionError(check)
        try:
            self.facts.copy().add(expr)  # nothing is left of a condition that does not fit what is known
        except ContradictionError:
            return False
        self.checks.append(check)
        self._learn(check, "check")
        return True

    def _guard(self, expr: Expr, provenance: Provenance | None) -> None:
        guard = ShapeGuard(expr, provenance or self.current_provenance())
        if self.closed:
            raise LateDecisionError(guard)
        self._recorded.append(guard)
        self._learn(guard, "guard")

    def _learn(self, guard: ShapeGuard, kind: str) -> None:
        logging = enabled("shapes")
        if logging:
            shape_log().log_guard(guard, self.source_names(), kind)
        if config.explain_guard:
            self._stacks[guard] = shape_log().internal_stack()
            self._explain(guard)
        before = {free: self.facts.bounds.get(free) for free in guard.expr.free_symbols}
        unbacked = self._unbacked()
        self.facts.add(guard.expr, unbacked if unbacked & guard.expr.free_symbols else self.yielding)
        for info in self.symbols.values():
            if info.symbol in self._replaced_by:
                continue
            value = self.facts.replacements.get(info.symbol)
            if value is not None:
                self._replaced_by[info.symbol] = guard
                if logging:
                    shape_log().log_replacement(info, value, guard)
            elif info.hint is not None and _cuts(before.get(info.symbol), self.facts.bounds.get(info.symbol), info):
                self._narrowed_by.append((info, guard))

    def _explain(self, guard: ShapeGuard, born: ShapeGuard | None = None) -> None:
        stack = self._stacks.get(born or guard)
        if stack is not None and shape_log().wants(guard.expr, self.symbols, self.source_names()):
            shape_log().explain(guard, self.source_names(), stack)

    def _undecidable(self, expr: Expr, provenance: Provenance | None) -> UndecidableError:
        unbacked = [self.symbols[free] for free in expr.free_symbols if free in self.symbols and free not in self.hints]
        unbacked.sort(key=lambda info: info.symbol.name)
        return UndecidableError(expr, unbacked, provenance or self.current_provenance(), self.source_names())

    # Results

    @property
    def guards(self) -> list[ShapeGuard]:
        """The guards of this capture in the order they were recorded, without those that others imply.

        A guard that divides by something comes after those that say that it is not zero. Together with `assumptions`,
        checked first, they hold for exactly the values for which all recorded guards do.
        """
        return list(self._minimal()[0])

    @property
    def decisions(self) -> int:
        """How many guards were recorded so far, those that others imply included."""
        return len(self._recorded)

    def assumptions(self) -> list[ShapeGuard]:
        """The bounds promised for backed symbols, as guards, without those that `guards` imply.

        A bound of 0 on the size of a tensor needs no check, because sizes are never negative; the caller knows that.
        """
        return list(self._minimal()[1])

    def _minimal(self) -> tuple[list[ShapeGuard], list[ShapeGuard]]:
        stamp = len(self._recorded) + len(self.symbols)
        if self._results is None or self._results[0] != stamp:
            needed = self._needed()
            bounds = self._bounds_beyond(needed)
            self._results = stamp, in_safe_order(needed, bounds), bounds
        return self._results[1], self._results[2]

    def _needed(self) -> list[ShapeGuard]:
        # Equalities say most, and later guards were not implied by earlier ones but may imply them.
        known = self._declared()
        parts = [(part, guard) for guard in self._recorded for part in conjuncts(guard)]
        newest_first = list(reversed(list(enumerate(parts))))
        needed: dict[int, ShapeGuard] = {}
        for position, (guard, recorded) in sorted(newest_first, key=lambda item: not _is_equality(item[1][0].expr)):
            if known.decide(guard.expr, expected=True) is not True:
                # With an equality at hand the others become shorter.
                expr = guard.expr if _is_equality(guard.expr) else known.replace(guard.expr)
                needed[position] = ShapeGuard(expr, guard.provenance)
                if expr is not recorded.expr and config.explain_guard:
                    self._explain(needed[position], recorded)
                known.add(guard.expr)
        return [needed[position] for position in sorted(needed)]

    def _declared(self) -> Facts:
        known = Facts()
        for info in self.symbols.values():
            if info.symbol.kind != "bool":
                known.set_bounds(info.symbol, info.interval)
        return known

    def _bounds_beyond(self, guards: list[ShapeGuard]) -> list[ShapeGuard]:
        known = Facts()
        for guard in guards:
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

    # Promises that the program did not keep

    def specialised(self) -> list[tuple[SymbolInfo, Scalar, ShapeGuard]]:
        """The symbols that guards made constants: what was declared, the constant, and the guard that forced it."""
        result = []
        for free, guard in self._replaced_by.items():
            value = self.facts.replacements[free]
            if isinstance(value, Const):
                result.append((self.symbols[free], value.value, guard))
        return result

    def narrowed(self) -> list[tuple[SymbolInfo, ShapeGuard]]:
        """The symbols whose promised range a guard cut, with the guard.

        A promise is a finite upper bound, with the lower bound that goes with it, or a lower bound above 2; at least 2
        alone is what every symbolic size has.
        """
        return list(self._narrowed_by)


def _cuts(before: Interval | None, now: Interval | None, info: SymbolInfo) -> bool:
    """Whether the new bounds leave out something that was promised and that the old ones still had."""
    if before is None or now is None or before == now:
        return False
    promised = info.interval
    finite = promised.upper != INF
    return (finite and now.upper < before.upper) or ((finite or promised.lower > 2) and now.lower > before.lower)


def shape_log() -> ModuleType:
    """The module that writes about shapes, imported when there is something to write."""
    from firesteel.shapes import log as shape_log

    return shape_log


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
