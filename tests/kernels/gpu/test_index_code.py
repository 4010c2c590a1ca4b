"""Index arithmetic as Triton's Python: its text, and what it computes."""

from __future__ import annotations

import itertools
import types

import pytest

from firesteel import shapes
from firesteel.functional.graph import Unsupported
from firesteel.kernels.gpu.values import TritonIndexPrinter
from firesteel.shapes import eq, symbol

s0, s1, i, j = symbol("s0"), symbol("s1"), symbol("i"), symbol("j")
FUNCTIONS = {
    "floor_divide": lambda a, b: a // b, "floor_modulo": lambda a, b: a % b,
    "tl": types.SimpleNamespace(minimum=min, maximum=max, where=lambda c, a, b: a if c else b),
}


def printed(expr: shapes.Expr) -> str:
    return TritonIndexPrinter({}, lambda name: name).print(expr)


@pytest.mark.parametrize(("text", "code"), [
    ("i*s1 + j", "i*s1 + j"),
    ("(i + 1)//4", "((i + 1) // 4)"),
    ("4*(i//s1) + i % 4", "(i % 4) + 4*(i // s1)"),
    ("(i//4) % s1", "((i // 4) % s1)"),
    ("i//(s1//2)", "(i // (s1 // 2))"),
    ("(i - j)//4", "floor_divide(i - j, 4)"),
    ("i**3 - 5", "i*i*i - 5"),
    ("min(i, j, 7)", "tl.minimum(tl.minimum(7, i), j)"),
    ("abs(i - j)", "abs(i - j)"),
    ("i if i < s0 and not (j == 3) else j", "tl.where((i <= s0 - 1) & (j != 3), i, j)"),
    ("i >= 2 or j >= 3", "(i >= 2) | (j >= 3)"),
    ("(i & 7) + 1", "(7 & i) + 1"),
    ("4294967296*i", "4294967296*i"),
    ("True", "1"),
])
def test_index_code(text: str, code: str) -> None:
    expr = shapes.parse(text, [s0, s1, i, j])
    assert sorted(printed(expr)) == sorted(code)  # operands of `and` and `or` are in the order of their making
    for x, y in itertools.product(range(9), repeat=2):
        values = {"i": x, "j": y, "s0": 9, "s1": 9}
        assert eval(printed(expr), {**FUNCTIONS, **values}) == eval(text, dict(values)), values


def test_bit_operations_are_always_in_parentheses() -> None:
    assert printed(eq(shapes.arithmetic.bitand(i, 7), 3)) == "(7 & i) == 3"


def test_index_code_refuses_what_it_cannot_say() -> None:
    for expr, why in ((shapes.to_float(s0), "floats"), (shapes.ceil(s0 / 2), "ceil"),
                      (shapes.pow_by_natural(s0, s1), "pow")):
        with pytest.raises(Unsupported, match=why):
            printed(expr)
    with pytest.raises(OverflowError, match="64 bits"):
        printed(s0 + 2**63)
