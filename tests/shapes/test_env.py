"""What an environment knows, which guards it records, and which it does not need."""

from __future__ import annotations

import time

import pytest

from firesteel import shapes
from firesteel.errors import UserFrame
from firesteel.shapes import LateDecisionError, Provenance, ShapeEnv, eq, maximum, ne


def guards_of(env: ShapeEnv) -> list[str]:
    return [str(guard.expr) for guard in env.guards]


def sizes(env: ShapeEnv, *hints: int | None) -> list[shapes.Symbol]:
    return [env.new_symbol(hint, f"x.size({i})", lower=2) for i, hint in enumerate(hints)]


def test_questions_that_ranges_answer_leave_no_guard() -> None:
    env = ShapeEnv()
    s0, s1 = sizes(env, 5, 7)
    assert env.evaluate(ne(s0, 0)) is True
    assert env.evaluate(eq(s0 * s1, 1)) is False
    assert env.evaluate(s0 * s1 >= s0) is True
    assert env.evaluate(s0 % (s0 * s1) > 0) is True
    assert env.evaluate(maximum(s0, 1) > 1) is True
    assert env.guards == []


def test_guards_carry_their_provenance() -> None:
    env = ShapeEnv()
    (s0,) = sizes(env, 5)
    where = Provenance((UserFrame("model.py", 12, "forward"),), "x.size(0)", "aten.view")
    env.evaluate(s0 > 3, where)
    (guard,) = env.guards
    assert guard.provenance is where
    assert str(guard) == "s0 >= 4  # model.py:12 in forward, in aten.view"
    env.current_provenance = lambda: Provenance(op="aten.cat")
    env.evaluate(s0 > 4)
    assert env.guards[-1].provenance.op == "aten.cat"


def test_guards_are_facts_for_later_questions() -> None:
    env = ShapeEnv()
    s0, s1, s2 = sizes(env, 9, 6, 3)
    env.evaluate(s0 > s1)
    env.evaluate(s1 > s2)
    assert env.decide(s0 > s2) is True
    assert env.decide(s0 >= s2 + 2) is True
    assert env.decide(eq(s0, s2)) is False
    assert env.decide(s0 > s2 + 2) is None
    assert len(env.guards) == 2


def test_equalities_substitute() -> None:
    env = ShapeEnv()
    s0, s1, s2, s3 = sizes(env, 4, 4, 12, 3)
    env.evaluate(eq(s0, s1))
    env.evaluate(eq(s2, s0 * s3))
    assert env.replace(s1 + s0) is 2 * s0
    assert env.replace(s2) is s0 * s3
    assert env.decide(eq(s2 // s3, s1)) is True
    assert env.evaluate(s1) == 4
    assert env.replace(s0) is shapes.const(4)
    assert guards_of(env) == ["s0 == s1", "s0*s3 == s2", "s0 == 4"]


def test_stronger_guards_replace_weaker_ones() -> None:
    env = ShapeEnv()
    s0, s1 = sizes(env, 8, 5)
    for bound in range(3, 8):
        env.evaluate(s0 > bound)
    env.evaluate(s1 < 9)
    assert guards_of(env) == ["s0 >= 8", "s1 <= 8"]
    env.evaluate(s0)
    assert guards_of(env) == ["s1 <= 8", "s0 == 8"]


def test_divisibility() -> None:
    env = ShapeEnv()
    s0, s1 = sizes(env, 64, 3)
    env.evaluate(eq(s0 % 8, 0))
    assert env.decide(eq(s0 % 4, 0)) is True
    assert env.decide(eq((3 * s0 + 5) % 8, 5)) is True
    assert env.decide(eq(s0 // 8 * 8, s0)) is True
    assert env.decide(eq((s0 * s1) % 8, 0)) is True
    assert env.decide(eq((s0 * s1) % 16, 0)) is None
    env.evaluate(eq(s0, s1 * 21 + 1))
    assert env.decide(eq((21 * s1 + 1) % 8, 0)) is True
    assert len(env.guards) == 2


def test_a_positive_factor_is_cancelled() -> None:
    env = ShapeEnv()
    s0, s1, s2 = sizes(env, 3, 4, 4)
    env.evaluate(eq(s0 * s1, s0 * s2))
    assert guards_of(env) == ["s1 == s2"]
    any_sign = env.new_symbol(2, "n")
    env.evaluate(any_sign * s0 > any_sign * 2)
    assert guards_of(env)[1] == "s0*s3 >= 2*s3 + 1"


def test_unbacked_symbols_are_undecidable_until_checked() -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "mask.sum().item()", lower=0)
    where = Provenance((UserFrame("model.py", 3, "forward"),))
    with pytest.raises(shapes.UndecidableError) as error:
        env.evaluate(u0 < 10, where)
    for part in ("u0 <= 9", "mask.sum().item()", "model.py:3", "torch._check"):
        assert part in str(error.value)
    assert env.evaluate(u0 >= 0) is True
    assert env.evaluate_or(eq(u0, 1), False) is False
    assert env.check(u0 < 10, where) is True
    assert env.evaluate(u0 < 10) is True
    assert env.check(u0 > 20) is False
    assert env.guards == []
    assert [(str(check.expr), check.provenance) for check in env.checks] == [("u0 <= 9", where)]


def test_unbacked_sizes_in_the_general_case() -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "mask.sum().item()", lower=0)
    number = env.new_symbol(None, "n.item()")
    assert env.evaluate_as_general_size(eq(u0, 1)) is False
    assert env.evaluate_as_general_size(ne(u0 * 3, 0)) is True
    with pytest.raises(shapes.UndecidableError):
        env.evaluate_as_general_size(eq(number, 1))
    assert env.decide(eq(u0, 1)) is None
    assert env.guards == []


def test_an_unbacked_symbol_gives_way_to_a_backed_one() -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "y.item()")
    (s0,) = sizes(env, 6)
    env.check(eq(u0 + 1, s0))
    assert env.replace(u0) is s0 - 1
    assert env.hint(u0) == 5
    assert env.evaluate(u0 > 2) is True
    assert guards_of(env) == ["s0 >= 4"]


def test_assumptions_are_the_promised_bounds_that_guards_do_not_imply() -> None:
    env = ShapeEnv()
    sizes(env, 4, 5)
    s2 = env.new_symbol(6, "z.size(0)", lower=2, upper=100)
    s3 = env.new_symbol(6, "w.size(0)", lower=2, upper=100)
    assert len(env.assumptions()) == 6
    env.evaluate(eq(s2, s3))
    env.evaluate(s3 > 4)
    assert [str(guard.expr) for guard in env.assumptions()] == ["s0 >= 2", "s1 >= 2", "s2 <= 100"]


def test_contradictions_are_refused() -> None:
    env = ShapeEnv()
    u0 = env.new_symbol(None, "n", lower=2)
    env.assume(u0 < 9)
    with pytest.raises(shapes.ContradictionError):
        env.assume(u0 > 10)
    with pytest.raises(ValueError, match="outside"):
        env.new_symbol(1, "x.size(0)", lower=2)


def test_floats() -> None:
    env = ShapeEnv()
    f0 = env.new_symbol(0.5, "p", kind="float")
    nan = env.new_symbol(float("nan"), "q", kind="float")
    assert env.decide(f0 < float("inf")) is None  # it may be NaN
    assert env.evaluate(f0 < 1.0) is True
    assert env.evaluate(f0 < 1.0) is True
    assert env.evaluate(nan) != env.evaluate(nan)
    assert guards_of(env) == ["f0 < 1.0", "f1 != f1"]
    (s0,) = sizes(env, 8)
    assert env.evaluate(s0 / 2 >= 1.0) is True
    assert len(env.guards) == 2


def test_simplification_of_index_arithmetic() -> None:
    env = ShapeEnv()
    (s0,) = sizes(env, 8)
    i = env.new_symbol(None, "i", lower=0)
    j = env.new_symbol(None, "j", lower=0, upper=7)
    k = env.new_symbol(None, "k", lower=0)
    env.assume(k < s0)
    assert env.simplify((8 * i + j) // 8) is i
    assert env.simplify((8 * i + j) % 8) is j
    assert env.simplify((i * s0 + k) // s0) is i
    assert env.simplify((i * s0 + k) % s0) is k


def test_a_question_costs_little() -> None:
    """A typical question, new each time, must not start a search: it takes about half as long as to write it down."""
    ratios = []
    for _ in range(3):
        env = ShapeEnv()
        s0, s1 = sizes(env, 64, 65)
        start = time.thread_time()
        questions = [ne(s0 * s1 * 3 + n, 0) for n in range(300)]
        written = time.thread_time()
        for question in questions:
            env.evaluate(question)
        ratios.append((time.thread_time() - written) / (written - start))
        assert env.guards == []
    assert min(ratios) < 4, ratios


def test_nothing_is_decided_on_hints_once_the_guards_are_made():
    env = ShapeEnv()
    size, other = env.new_symbol(6, "x.size(0)", lower=2), env.new_symbol(5, "x.size(1)", lower=2)
    assert env.evaluate(size > 4)
    env.closed = True
    assert env.evaluate(size > 3)  # follows
    with pytest.raises(LateDecisionError, match="after the guards were made"):
        env.evaluate(size > other)
    assert env.decide(size > other) is None  # nothing was learned
