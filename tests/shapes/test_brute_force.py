"""A fixed sample of the questions of `brute_force`: no answer may be wrong, and most must be found."""

from __future__ import annotations

import pytest
from tests.shapes.brute_force import run

from firesteel import shapes
from firesteel.shapes import ShapeEnv, eq, maximum, minimum, ne


@pytest.fixture(scope="module")
def tally():
    return run(1500, seed=20)


def test_nothing_is_wrong(tally) -> None:
    """Decisions, simplified forms, intervals, and guards that hold exactly where all answers stay the same."""
    assert not tally.wrong, tally.wrong[0]
    assert tally.numbers >= 1500 and tally.guard_sets >= 200


def test_most_is_found(tally) -> None:
    """Of the questions whose answer is the same everywhere."""
    assert tally.constant.total() > 300
    assert len(tally.missed) < 0.2 * tally.constant.total()
    idioms = [text for text in tally.missed if text.startswith("idiom")]
    assert len(idioms) < 0.06 * tally.constant["idiom"], "\n".join(idioms)


def test_guards_are_fewer_than_questions(tally) -> None:
    assert tally.guards_kept < 0.75 * tally.guards_recorded


def env_with(*hints: int | None, lower: int = 2) -> tuple[ShapeEnv, list[shapes.Symbol]]:
    env = ShapeEnv()
    return env, [env.new_symbol(hint, f"x.size({i})", lower=lower) for i, hint in enumerate(hints)]


def test_questions_of_tensor_programs_need_no_guard() -> None:
    env, (a, b, c) = env_with(8, 6, 4)
    for condition in [
        (a + 1) // 2 >= 1,
        eq((2 * a) // 2, a),
        eq(maximum(1, a), a),
        8 * (a // 8) <= a,
        minimum(a, b) <= a,
        minimum(a, b) + maximum(a, b) >= a,
        eq(b * (a // b) + a % b, a),
        b * (a // b) <= a,
        a % b < b,
        eq((a * b + c % b) // b, a),
        (a + 3) // 4 * 4 >= a,
        (a + b) // 4 >= a // 4,
        minimum(a + 1, b + 1) > minimum(a, b),
        (a * b) // 4 >= b * (a // 4),
        ne(a * b * c, 1),
        shapes.or_(a <= 5, a >= 6),
        eq(a * b * 768 // (a * b), 768),
    ]:
        assert env.decide(condition) is True, str(condition)
        assert env.decide(shapes.not_(condition)) is False, str(condition)
    env.evaluate(eq(a % 4, 0))
    assert env.decide(eq(a * b % 4, 0)) is True
    assert env.decide(eq(a // 2 * 2, a)) is True
    assert env.decide(eq(4 * (a // 4) * b, a * b)) is True
    assert env.decide(ne(a, 6)) is True
    assert env.interval(a) == shapes.Interval(lower=4)
    assert len(env.guards) == 1


def test_a_quotient_compared_with_a_number_is_a_bound() -> None:
    env, (a,) = env_with(20)
    assert (a // 2 >= 5) is (a >= 10)
    assert (a // 2 <= 5) is (a <= 11)
    assert ((a + 3) // 4 < 6) is (a <= 20)
    assert (a // -3 > -4) is (a <= 9)


def test_division_by_zero_is_pythons_business() -> None:
    env, (a, b) = env_with(4, 0, lower=0)
    either = shapes.or_(eq(b, 0), eq(a % b, 0))
    assert env.evaluate(either) is True
    assert either.evaluate({a: 1, b: 0}) is True
    env.evaluate(eq(b, 0))
    assert env.decide(a % b >= 0) is None
    with pytest.raises(ZeroDivisionError):
        env.evaluate(a % b >= 0)


def test_guards_that_divide_are_checked_after_those_that_allow_it() -> None:
    env, (a, b) = env_with(6, 3, lower=0)
    env.evaluate(eq(a % b, 0))
    assert [str(guard.expr) for guard in env.guards] == ["s1 != 0", "s0 % s1 == 0"]
    env.evaluate(b >= 3)
    assert [str(guard.expr) for guard in env.guards] == ["s1 >= 3", "s0 % s1 == 0"]
