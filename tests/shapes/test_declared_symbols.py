"""What an environment offers to those who declare sizes: names, who gives way, answers, and settling by values."""

import pytest

from firesteel import shapes
from firesteel.shapes import ShapeEnv, UndecidableError


def test_declared_names_are_not_given_away():
    env = ShapeEnv()
    env.reserved.update(("s0", "s2"))
    assert [env.reserve_name() for _ in range(3)] == ["s1", "s3", "s4"]


def test_symbols_that_give_way():
    env = ShapeEnv()
    batch = env.new_symbol(6, "x.size(0)", lower=2, name="batch")
    free = env.new_symbol(6, "y.size(0)", lower=2)
    other = env.new_symbol(8, "z.size(0)", lower=2)
    env.yielding = frozenset({free, other})
    env.evaluate(shapes.eq(batch, free))
    env.evaluate(shapes.eq(other, batch + 2))
    assert env.replace(free) is batch and env.replace(other) is batch + 2 and env.replace(batch) is batch


def test_the_plainer_form_among_those_that_give_way():
    env = ShapeEnv()
    first, second = env.new_symbol(6, "x.size(0)", lower=2), env.new_symbol(4, "y.size(0)", lower=2)
    env.yielding = frozenset({first, second})
    env.evaluate(shapes.eq(first, second + 2))
    assert env.replace(first) is second + 2 and env.replace(second) is second


def test_answers_without_guards_are_kept_on_demand():
    env = ShapeEnv()
    size = env.new_symbol(6, "x.size(0)", lower=2)
    assert env.evaluate(shapes.eq(size, 1)) is False and env.answers is None
    env.answers = []
    assert env.evaluate(shapes.eq(size, 1)) is False and env.evaluate(size >= 1) is True
    assert env.evaluate(size >= 5) is True  # this one is a guard
    assert [str(answer.expr) for answer in env.answers] == ["s0 != 1", "s0 >= 1"]
    assert [str(guard.expr) for guard in env.guards] == ["s0 >= 5"]


def test_undecidable_questions_can_be_settled():
    env = ShapeEnv()
    number = env.new_symbol(None, "n.item()")
    with pytest.raises(UndecidableError):
        env.evaluate(number >= 3)
    env.settle = lambda error: error.expr.evaluate({number: 2})
    assert env.evaluate(number >= 3) is False and env.evaluate(number * 2) == 4
    assert [str(check.expr) for check in env.checks] == ["u0 <= 2", "u0 == 2"]
    assert env.evaluate(number) == 2 and len(env.checks) == 2  # it is known now
    env.settle = lambda error: None
    with pytest.raises(UndecidableError):
        env.evaluate(env.new_symbol(None, "m.item()") >= 3)
