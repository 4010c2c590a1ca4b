"""Normal forms that other stages rely on, and what expressions print as."""

from __future__ import annotations

import ast
import copy
import gc
from pathlib import Path

import pytest

from firesteel import shapes
from firesteel.shapes import Expr, arithmetic, const, eq, maximum, minimum, symbol
from firesteel.shapes import expr as expr_module

pytestmark = pytest.mark.usefixtures("quick_collections")

s0, s1, s2 = symbol("s0"), symbol("s1"), symbol("s2")
f0 = symbol("f0", "float")
b0 = symbol("b0", "bool")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (s0 * s1 + 2, "s0*s1 + 2"),
        (4 * s0 + 1, "4*s0 + 1"),
        (5 - s0, "5 - s0"),
        (s1 - s0, "s1 - s0"),
        (-s0, "-s0"),
        (s0**2 * s1, "s0**2*s1"),
        (s0 // 2, "s0//2"),
        ((s0 + 1) // 2, "(s0 + 1)//2"),
        (s0 % 2, "s0 % 2"),
        (3 * (s0 % 2), "3*(s0 % 2)"),
        (-(s0 // 2) * s1, "-(s0//2)*s1"),
        (s0 / s1, "s0/s1"),
        (f0 * 2.0 - 1, "f0*2.0 - 1"),
        (minimum(s1, s0, 7), "min(7, s0, s1)"),
        (s0 < 5, "s0 <= 4"),
        (s0 > s1, "s0 >= s1 + 1"),
        (eq(s1, 5), "s1 == 5"),
        (eq(s2, s1 * s0), "s0*s1 == s2"),
        (eq(2 * s0, 2 * s1), "s0 == s1"),
        (shapes.and_(s0 >= 2, shapes.not_(eq(s0, s1))), "s0 != s1 and s0 >= 2"),
        (shapes.if_else(s0 > 1, s0, s1), "s0 if s0 >= 2 else s1"),
        (b0, "b0"),
        (shapes.not_(f0 < 1.0), "not f0 < 1.0"),
        (const(float("inf")), "float('inf')"),
    ],
)
def test_text(expr: Expr, text: str) -> None:
    assert str(expr) == text


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((s0 + 1) * (s1 + 1), s0 * s1 + s0 + s1 + 1),
        ((s0 * s1) // s1, s0),
        ((s0 * s1 + s1) // s1, s0 + 1),
        (((s0 + s1) * s2) // (s0 + s1), s2),
        ((s0 * s2) // (s1 * s2), s0 // s1),
        ((s0 // 2) // 3, s0 // 6),
        ((2 * s0 + 1) // 4, s0 // 2),
        ((8 * s0 + s1) % 8, s1 % 8),
        ((s0 % 8) % 4, s0 % 4),
        ((6 * s0) % 4, 2 * (s0 % 2)),
        (s0 // -2, (-s0) // 2),
        (maximum(s0, s0 + 1), s0 + 1),
        (minimum(s0, minimum(s1, s0)), minimum(s0, s1)),
        (s0 < s1, s1 > s0),
        (2 * s0 > 3, s0 >= 2),
        (shapes.not_(s0 < s1), s0 >= s1),
        (shapes.and_(s0 > 1, shapes.not_(s0 > 1)), const(False)),
        (eq(2 * s0, 2 * s1 + 1), const(False)),
        (arithmetic.rshift(s0, 3), s0 // 8),
    ],
)
def test_equal_forms_are_one_object(left: Expr, right: Expr) -> None:
    assert left is right


def test_floats_are_not_reassociated() -> None:
    assert (f0 + 0.1) + 0.2 is not f0 + (0.1 + const(0.2))
    assert f0 - f0 is not const(0.0)
    assert (s0 / 2).kind == "float"
    assert const(-0.0) is not const(0.0)
    assert const(float("nan")) is const(float("nan"))


def test_kinds_and_constants() -> None:
    assert const(1) is not const(True)
    assert type((s0 - s0 + 3).value) is int  # type: ignore[attr-defined]
    assert (7 // const(2), const(-7) % 3, const(2) ** -1) == (const(3), const(2), const(0.5))
    assert (b0 + 1).evaluate({b0: True}) == 2
    assert (s0**-1).kind == "float"
    with pytest.raises(ZeroDivisionError):
        _ = s0 // 0
    with pytest.raises(TypeError, match="sign"):
        _ = s0**s1
    with pytest.raises(TypeError, match="truth"):
        bool(s0 > 1)
    assert bool(const(3) > 1)


def test_large_powers_are_not_expanded() -> None:
    huge = (s0 + s1 + 1) ** 50
    assert huge.evaluate({s0: 1, s1: 1}) == 3**50
    product: Expr = const(1)
    for i in range(12):
        product = product * (symbol(f"n{i}") + 1)
    assert product.evaluate({symbol(f"n{i}"): 1 for i in range(12)}) == 2**12


def test_copies_are_the_same_object() -> None:
    expr = s0 // 3 + 1
    assert copy.deepcopy(expr) is copy.copy(expr) is expr


def test_unused_expressions_are_freed() -> None:
    def made() -> int:
        for _ in range(3):  # what one collection frees may hold what the next one frees
            gc.collect()
        return len(expr_module._nodes)

    before = made()
    exprs = [symbol(f"leak{i}") * 12345 + i for i in range(50)]
    assert made() >= before + 100
    del exprs
    assert made() <= before


def test_free_symbols() -> None:
    assert (s0 // s1 + minimum(s2, 3)).free_symbols == {s0, s1, s2}
    assert const(3).free_symbols == frozenset()


BRIDGES = ("symnode.py", "expression_nodes.py")


def test_only_the_bridges_import_torch() -> None:
    for path in Path(expr_module.__file__).parent.glob("*.py"):
        roots = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots.add((node.module or "").split(".")[0])
        assert "sympy" not in roots
        assert ("torch" in roots) == (path.name in BRIDGES), path.name
