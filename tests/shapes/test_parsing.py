"""Expressions survive being written and read."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings

from firesteel import shapes
from firesteel.shapes import ParseError, parse, symbol
from shapes.programs import SYMBOLS, Tree, build_or_none, float_conditions, float_trees, int_conditions, int_trees

s0, s1 = symbol("s0"), symbol("s1")
f0, b0 = symbol("f0", "float"), symbol("b0", "bool")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(int_trees | float_trees | int_conditions | float_conditions)
def test_what_is_printed_is_read_back(tree: Tree) -> None:
    expr = build_or_none(tree)
    assume(expr is not None)
    assert expr is not None
    assert parse(str(expr), SYMBOLS) is expr


@pytest.mark.parametrize(
    "expr",
    [
        shapes.pow_by_natural(s0, s1),
        shapes.if_else(s0 > 1, s0, s1),
        shapes.arithmetic.is_integer(f0),
        shapes.arithmetic.round_(f0, 2),
        shapes.arithmetic.math_call("sqrt", s0 * 2),
        shapes.const(float("inf")) + f0,
        shapes.const(-0.0),
        shapes.trunc(f0 / 3),
        shapes.arithmetic.lshift(s0, s1),
        shapes.and_(b0, shapes.not_(f0 < 1.0)),
        shapes.minimum(f0, f0 * 2.0),
        (s0 + s1 + 1) ** 50,
        s0 * 2**70,
        shapes.const(True),
    ],
    ids=str,
)
def test_every_construct(expr: shapes.Expr) -> None:
    assert parse(str(expr), [s0, s1, f0, b0]) is expr


def test_names_may_stand_for_other_expressions() -> None:
    assert parse("a + b", {"a": s0, "b": 2 * s1}) is s0 + 2 * s1


@pytest.mark.parametrize(
    "text",
    ["", "s0 +", "s9", "__import__('os')", "s0.real", "s0[1]", "lambda: s0", "s0 // 0", "open(s0)", "s0 is s1", "'s0'"]
    + ["min()", "s0 and", "f0 << 1", "(" * 500 + "s0" + ")" * 500, "round(s0, 1, 2)"],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse(text, [s0, s1, f0])
