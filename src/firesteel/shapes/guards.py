"""Guards on sizes and where they come from: plain data, and the order in which they can be checked safely."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firesteel.errors import UserFrame
from firesteel.shapes import relations
from firesteel.shapes.expr import Call, Const, Expr, Scalar, Symbol
from firesteel.shapes.facts import Facts
from firesteel.shapes.printing import risk
from firesteel.shapes.ranges import Interval

from ..records import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who asked: the user's frames (outermost first), the source of the value, the operator that needed to know."""

    frames: tuple[UserFrame, ...] = ()
    source: str = ""
    op: str = ""

    @property
    def frame(self) -> UserFrame | None:
        """The innermost frame of the user's own code: a line in torch.nn tells less than the one that calls it."""
        own = [frame for frame in self.frames if not frame.in_torch]
        return (own or self.frames or (None,))[-1]

    @property
    def line(self) -> str:
        """The user's line of code, or "" when it is not available."""
        return self.frame.source if self.frame is not None else ""

    def __str__(self) -> str:
        place = str(self.frame) if self.frame is not None else "an unknown place"
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


_DIVISIONS = frozenset(["floordiv", "mod", "truediv", "ffloordiv", "fmod"])


def divisors(expr: Expr) -> Iterator[Expr]:
    """The symbolic divisors that Python meets in any case: where one of them is zero, it raises."""
    if isinstance(expr, Call):
        if expr.op in _DIVISIONS and not isinstance(expr.operands[1], Const):
            yield expr.operands[1]
        if expr.op in ("and", "or"):
            return  # which operands are looked at depends on the others
        if expr.op == "ifelse":
            yield from divisors(expr.operands[0])
            return
    for arg in expr.args:
        yield from divisors(arg)


def in_safe_order(guards: Iterable[ShapeGuard], bounds: Iterable[ShapeGuard]) -> list[ShapeGuard]:
    """The guards so that each is checked where its divisors are known not to be zero.

    `bounds` are checked before all of them. Where no other guard says it, a guard that the divisor is not zero is
    added: the program that was captured divided by it, so it was not. What is left is a choice between conditions that
    all divide (`a/b > 1 or a/c > 1`): the order in which the program looked at them is not known any more.
    """
    waiting = sorted(guards, key=lambda guard: risk(guard.expr))
    if not waiting or not risk(waiting[-1].expr):
        return waiting
    known = Facts()
    for guard in bounds:
        known.add(guard.expr)
    result: list[ShapeGuard] = []
    while waiting:
        position = next((i for i, guard in enumerate(waiting) if not _open(guard.expr, known)), None)
        if position is None:
            for divisor in _open(waiting[0].expr, known)[:1]:
                guard = ShapeGuard(relations.ne(divisor, 0), waiting[0].provenance)
                waiting.insert(0, guard)
            continue
        guard = waiting.pop(position)
        known.add(guard.expr)
        result.append(guard)
    return result


def _open(expr: Expr, known: Facts) -> list[Expr]:
    """Divisors that may be zero, innermost first."""
    return [divisor for divisor in divisors(expr)
            if known.decide(relations.ne(divisor, 0), expected=True) is not True][::-1]


def conjuncts(guard: ShapeGuard) -> list[ShapeGuard]:
    """The guard taken apart where it is an `and`."""
    expr = guard.expr
    if isinstance(expr, Call) and expr.op == "and":
        return [ShapeGuard(operand, guard.provenance) for operand in expr.operands]
    return [guard]
