"""Sizes as rules see them: integers of Python, with guards."""

import operator

import pytest
import torch

from firesteel.fake.dims import Dim, at_least_one, dim_of, dims, known_equal, product, require_equal, storage_size
from firesteel.shapes import ShapeEnv, eq
from firesteel.shapes.symnode import expr_of, make_symint


@pytest.fixture
def env():
    return ShapeEnv()


def symbols(env, *hints, lower=2):
    return [env.new_symbol(hint, "x.size()", lower=lower) for hint in hints]


def numbers(env, *hints):
    return [dim_of(make_symint(env, symbol)) for symbol in symbols(env, *hints)]


def guards(env):
    return [str(guard.expr) for guard in env.guards]


def test_arithmetic_is_that_of_expressions(env):
    a, b = numbers(env, 12, 5)
    for op in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod):
        for left, right in ((a, b), (a, 3), (30, a), (a, make_symint(env, b.expr)), (a, True)):
            values = [int(expr_of(value).evaluate(env.hints)) if isinstance(value, torch.SymInt) else value
                      for value in (left, right)]  # fmt: skip
            assert expr_of(op(left, right)).evaluate(env.hints) == op(*values)
    assert str(-a) == "-s0"
    assert guards(env) == []


def test_constants_are_plain(env):
    (a,) = numbers(env, 12)
    assert type(a - a) is int
    assert type((a + 1) - a) is int
    assert type(dim_of(3)) is int
    assert (a * 0, (2 * a) // a) == (0, 2)


def test_one_object_per_expression(env):
    a, b = numbers(env, 12, 5)
    assert a * b is b * a
    assert dims([make_symint(env, a.expr * b.expr), 3]) == (a * b, 3)
    assert dim_of(make_symint(env, a.expr)) is a
    assert {a * b: 1}[b * a] == 1


def test_comparisons_guard_once(env):
    a, b = numbers(env, 12, 12)
    assert a >= 2 and a != 1 and a != 0 and not a < 1 and bool(a)
    assert guards(env) == []
    assert a > 5 and not a <= 5 and a > 5
    assert a == b and b == a and not a != b
    assert guards(env) == ["s0 >= 6", "s0 == s1"]
    assert int(a) == 12
    assert guards(env) == ["s0 == s1", "s0 == 12"]


def test_least_values_are_guarded_as_inequalities(env):
    (a,) = numbers(env, 12)
    assert a // 2 != 1
    assert guards(env) == ["s0 >= 4"]


def test_floats(env):
    (a,) = numbers(env, 12)
    assert a > 2.5 and not a == "12"
    assert isinstance(a * 0.5, torch.SymFloat) and isinstance(a / 2, torch.SymFloat)
    with pytest.raises(TypeError):
        a + "1"


def test_known_facts(env):
    a, b = numbers(env, 12, 12)
    assert known_equal(a, a) and known_equal(3, 3) and not known_equal(a, b) and not known_equal(a, 12)
    assert at_least_one(0) == 1 and at_least_one(a) is a
    assert str(at_least_one(a - 5)) == "max(1, s0 - 5)"
    assert guards(env) == []
    env.evaluate(eq(a.expr, b.expr))
    assert known_equal(a, b) and dim_of(b) is a


def test_sizes_that_depend_on_data(env):
    (a,) = numbers(env, 12)
    u, v = (dim_of(make_symint(env, env.new_symbol(None, "x.nonzero()", lower=0))) for _ in range(2))
    assert u != 0 and u != 1 and u > 1
    assert require_equal(u, v) and require_equal(a, u)
    assert guards(env) == [] and [str(check.expr) for check in env.checks] == ["u0 >= 2", "u0 == u1", "s0 == u0"]
    assert not require_equal(3, 4)


def test_storage_sizes(env):
    a, b = numbers(env, 4, 5)
    assert storage_size((a, b), (b, 1)) is a * b is product((a, b))
    assert storage_size((a, b), (1, a)) is a * b
    assert storage_size((a, 0), (1, 1)) == 0
    assert str(storage_size((a, b), (2 * b, 1))) == "2*s0*s1 - s1"


def test_a_dim_is_a_number_for_torch(env):
    (a,) = numbers(env, 4)
    assert type(a) is Dim
    assert torch.empty(a, 3, device="meta").shape[0].node is a.node
