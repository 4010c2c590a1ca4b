"""What FIRESTEEL_LOGS=shapes and FIRESTEEL_EXPLAIN_GUARD tell about symbolic sizes.

    [shapes] s0 = x.size(0): 8 in this run, at least 2
    [shapes] guard s0 == s1, that is x.size(0) == y.size(0): model.py:12 in forward, in aten.add: return x + y
    [shapes] s2 is always 5: guard s2 == 5

Every function here is called only when its log is on, or when a guard is to be explained.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from firesteel import config
from firesteel.errors import format_user_stack
from firesteel.logs import log

if TYPE_CHECKING:
    from firesteel.shapes import Expr, Interval, ShapeGuard, Symbol, SymbolInfo
    from firesteel.shapes.guards import Provenance


def log_symbol(info: SymbolInfo) -> None:
    """A symbol was made."""
    value = "unknown until the program runs" if info.hint is None else f"{info.hint} in this run"
    log("shapes", "%s = %s: %s%s%s", info.symbol, info.source_name, value, _bounds(info.interval),
        _place(info.provenance, "; "))


def _bounds(interval: Interval) -> str:
    lower, upper = abs(interval.lower) != float("inf"), abs(interval.upper) != float("inf")
    if lower and upper:
        return f", from {interval.lower} to {interval.upper}"
    return f", at least {interval.lower}" if lower else f", at most {interval.upper}" if upper else ""


def _place(provenance: Provenance, before: str) -> str:
    if not provenance.frames:
        return f"{before}in {provenance.op}" if provenance.op else ""
    return f"{before}{provenance}" + (f": {provenance.line}" if provenance.line else "")


def in_sources(expr: Expr, names: Mapping[Symbol, str]) -> str:
    """The condition with the places that values come from instead of symbols."""
    from firesteel.shapes import print_python

    return print_python(expr, {symbol: names.get(symbol, symbol.name) for symbol in expr.free_symbols})


def log_guard(guard: ShapeGuard, names: Mapping[Symbol, str], kind: str = "guard") -> None:
    """A guard was recorded, or (kind "check") a condition that the program asserts when it runs."""
    log("shapes", "%s %s, that is %s%s", kind, guard.expr, in_sources(guard.expr, names),
        _place(guard.provenance, "; "))


def log_replacement(info: SymbolInfo, value: Expr, guard: ShapeGuard | None) -> None:
    """A symbol became a constant, or another expression."""
    says = "is always" if value.is_constant else "is replaced by"
    why = "" if guard is None else f": guard {guard.expr}"
    log("shapes", "%s (%s) %s %s%s", info.symbol, info.source_name, says, value, why)


def wants(expr: Expr, symbols: Iterable[Symbol], names: Mapping[Symbol, str]) -> bool:
    """Whether the guard is the one that config.explain_guard names, in whatever spelling."""
    from firesteel.shapes.parsing import ParseError, parse

    wanted = config.explain_guard
    if not wanted:
        return False
    try:
        if parse(wanted, list(symbols)) is expr:
            return True
    except ParseError:
        pass
    return _normal(wanted) in (_normal(str(expr)), _normal(in_sources(expr, names)))


def _normal(text: str) -> str:
    sides = "".join(text.split()).split("==")
    return "==".join(sorted(sides))


def internal_stack() -> str:
    """Our own stack at this moment, without the frames of this module."""
    return "".join(traceback.format_stack()[:-2]).rstrip()


def explain(guard: ShapeGuard, names: Mapping[Symbol, str], stack: str) -> None:
    """Print where a guard was born: the user's stack and our own."""
    lines = [f"guard {guard.expr}, that is {in_sources(guard.expr, names)}"]
    if guard.provenance.op:
        lines.append(f"asked by {guard.provenance.op}")
    lines.append("the program's stack, outermost call first:")
    lines.append(format_user_stack(guard.provenance.frames) or "  (not known)")
    lines.append("firesteel's stack, outermost call first:")
    lines.append(stack)
    sys.stderr.write("\n".join(lines) + "\n")
