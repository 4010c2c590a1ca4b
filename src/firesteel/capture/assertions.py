"""Conditions on data that a graph checks when it runs: what the program states, and what the capture assumes.

A condition on numbers that exist only while the graph runs cannot be a guard. It becomes an assertion, a node of the
graph that raises. The unit then runs again as plain Python (see `failing_graphs`): a statement of the user's that does
not hold raises there with the user's own message, and an assumption of ours was needed only by the graph.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import shapes, torch_compat
from ..pipeline.failing_graphs import MAX_KEPT_BYTES, bytes_of, restorable
from ..shapes.undecidable import in_names, readable_names
from .signals import GraphBreak
from .undecidable import symbols_in

if TYPE_CHECKING:
    from .graph import CapturedGraph
    from .tracer import Tracer

TORCH = os.path.dirname(torch.__file__)
ASSUMED = "the graph is for the case that "
# An operator that asks more questions than this about one call needs data.
MAX_ASSUMPTIONS = 12
# What the capture tries a question about unknown sizes with.
TYPICAL_SIZE = 2


def state(tx: Tracer, condition: Any) -> bool:
    """Take a condition as true, as ``torch._check`` does; False when it is known not to hold.

    It is a guard where inputs decide, and an assertion in the graph where data does.
    """
    env = tx.shape_env
    known = len(env.checks)
    try:
        if not env.check(condition, _where(tx)):
            return False
    except shapes.ContradictionError:
        return False
    for check in env.checks[known:]:
        _no_collectives(tx, in_words(tx, check.expr))
        if tx.fake.before_late_error is not None:
            tx.fake.before_late_error((), ())
        _add(tx, check, f"{in_words(tx, check.expr)} does not hold ({check.provenance})")
    tx.asserted = len(env.checks)
    return True


def assume(tx: Tracer, condition: Any) -> bool:
    """Take a condition as true that most programs meet; False when it is known not to hold."""
    try:
        if not tx.shape_env.check(condition):
            return False
    except shapes.ContradictionError:
        return False
    assert_assumptions(tx, ready=True)
    return True


def assert_assumptions(tx: Tracer, ready: bool) -> None:
    """Assertions for what operators have assumed since the last call; `ready`: all symbols have nodes by now."""
    checks = tx.shape_env.checks
    while tx.asserted < len(checks):
        check = checks[tx.asserted]
        if not ready and not all(tx.number_nodes.is_readable(symbol) for symbol in check.expr.free_symbols):
            return
        words = in_words(tx, check.expr)
        place = str(check.provenance)
        if place in tx.refused:
            asking = f"{check.provenance.op} needs to know" if check.provenance.op else "it matters"
            raise GraphBreak(f"{asking} whether {words}, which holds in some calls only")
        _no_collectives(tx, words)
        _keep_changed_inputs(tx, words)
        _add(tx, check, f"{ASSUMED}{words} ({place})").meta["assumed_at"] = place
        tx.asserted += 1


def _where(tx: Tracer) -> shapes.Provenance:
    """The line of the program that states something, not the line of torch's function for that."""
    provenance = tx.provenance()
    frames = provenance.frames
    while len(frames) > 1 and frames[-1].filename.startswith(TORCH):
        frames = frames[:-1]
    return dataclasses.replace(provenance, frames=frames)


def in_words(tx: Tracer, expr: shapes.Expr) -> str:
    """A condition in the words of the program."""
    return words_of(tx.shape_env, expr)


def words_of(env: shapes.ShapeEnv, expr: shapes.Expr) -> str:
    """A condition on the symbols of an environment, in the names of what they were made for."""
    names = env.source_names()
    names.update(readable_names(env.symbols[symbol] for symbol in expr.free_symbols if symbol in env.symbols))
    return in_names(expr, names)


def assumptions_of(graph: CapturedGraph | None) -> dict[str, str]:
    """The messages of a graph's assumptions, and the places that made them."""
    nodes = graph.module.graph.nodes if graph is not None else ()
    return {node.args[1]: node.meta["assumed_at"] for node in nodes if "assumed_at" in node.meta}


def _add(tx: Tracer, check: shapes.ShapeGuard, message: str) -> torch.fx.Node:
    node = tx.number_nodes.expression(check.expr)
    assertion = tx.graph.call(torch_compat.assert_number, (node, message), {}, tx.user_frames())
    # Whoever traces the graph again knows that it holds, and would see a constant in the place of the condition.
    assertion.meta["condition"] = check.expr
    assertion.meta["example_value"] = None
    tx.effects.version += 1
    return assertion


def _no_collectives(tx: Tracer, words: str) -> None:
    """When an assertion fails, the program runs again: not when other processes have begun what it did then."""
    if tx.graph.groups:
        raise GraphBreak(f"whether {words} depends on data, and a collective began before",
                         "read the data before the collective")


def _keep_changed_inputs(tx: Tracer, words: str) -> None:
    """Inputs changed in place so far must be put back when an assumption fails, because the program goes on then."""
    changed = [entry for entry in tx.graph.inputs if entry.mutated]
    if sum(bytes_of(entry) for entry in changed) > MAX_KEPT_BYTES or not all(restorable(entry) for entry in changed):
        raise GraphBreak(f"whether {words} depends on data, and an input was changed in place before",
                         f"state it with torch._check({words}), or make the change later")
    tx.graph.note_risk(tx.fake.written)
    for entry in tx.graph.inputs:
        if entry.at_risk or entry.silently_at_risk:
            entry.must_restore = True


def plausible(env: shapes.ShapeEnv, error: shapes.UndecidableError) -> shapes.Expr | None:
    """The answer to an operator's question that fits most programs, as a condition; None when there is no such.

    Numbers in the place of sizes are not negative, sizes that an operator compares fit, and indices are inside.
    """
    expr = error.expr
    if expr.kind != "bool":
        return None
    for info in error.symbols:
        if info.symbol.kind == "int" and env.interval(info.symbol).lower < 0:
            return shapes.ge(info.symbol, 0)
    operation = getattr(expr, "op", "")
    if operation in ("eq0", "ne0") and not _about_zero_or_one(expr):
        if len(error.symbols) > 1 and not _about_a_whole_slice(expr):
            return None
        return expr if operation == "eq0" else shapes.not_(expr)
    answer = typical(env, expr)
    return None if answer is None else expr if answer else shapes.not_(expr)


def typical(env: shapes.ShapeEnv, expr: shapes.Expr) -> bool | None:
    """Whether a condition holds where sizes that data decides are neither 0 nor 1; None when that does not say."""
    values: dict[shapes.Symbol, Any] = {}
    for symbol in expr.free_symbols:
        hint = env.hint(symbol)
        if hint is None:
            if symbol.kind == "bool":
                return None
            interval = env.interval(symbol)
            hint = min(max(TYPICAL_SIZE, interval.lower), interval.upper)
        values[symbol] = hint
    try:
        return bool(expr.evaluate(values))
    except ArithmeticError:
        return None


def _about_a_whole_slice(expr: Any) -> bool:
    """Whether the question is if a size is that of a slice up to it: ``n == min(n, size)``, the slice is inside."""
    difference = expr.operands[0]
    if not isinstance(difference, shapes.Sum) or difference.const:
        return False
    terms: dict[Any, Any] = dict(difference.terms)
    shorter = [term for term in terms if getattr(term, "op", "") == "min"]
    return len(terms) == 2 and len(shorter) == 1 and any(
        term in shorter[0].operands and terms[term] == -terms[shorter[0]] for term in terms)


def _about_zero_or_one(expr: Any) -> bool:
    """Whether the question is if a size is 0 or 1, the cases that operators treat specially."""
    size = expr.operands[0]
    if isinstance(size, shapes.Sum):
        return size.const == -1 and len(size.terms) == 1 and size.terms[0][1] == 1
    return isinstance(size, (shapes.Symbol, shapes.Product, shapes.Call))


def depends_on_data(tx: Tracer, values: Any) -> bool:
    """Whether symbols without hints are in these arguments of an operation."""
    env = tx.shape_env
    return len(env.hints) < len(env.symbols) and any(symbol not in env.hints for symbol in symbols_in(values))
