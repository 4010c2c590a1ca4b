"""Random expressions against brute force: normal forms, substitution, ranges, decisions and printing."""

from __future__ import annotations

import math
import pickle

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from firesteel import shapes
from firesteel.shapes.ranges import RangeAnalysis
from shapes.programs import (
    SYMBOLS,
    UNDEFINED,
    Tree,
    build_or_none,
    environments,
    float_conditions,
    float_trees,
    int_conditions,
    int_trees,
    linear_conditions,
    linear_trees,
    value_or_undefined,
)

MIXED = list(environments(range(-3, 5, 2))) + list(environments(range(2, 8, 3)))
SMALL = list(environments(range(-2, 5)))
SIZES = list(environments(range(2, 8)))

quick = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
thorough = settings(quick, max_examples=200)


def same(a: object, b: object) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


any_tree = int_trees | float_trees | int_conditions | float_conditions


@quick
@given(any_tree)
def test_value_is_pythons(tree: Tree) -> None:
    expr = build_or_none(tree)
    assume(expr is not None)
    assert expr is not None
    for values in MIXED:
        expected = value_or_undefined(tree, values)
        if expected is not UNDEFINED:
            assert same(expr.evaluate(values), expected), (expr, values)


@quick
@given(any_tree)
def test_printed_code_computes_the_same(tree: Tree) -> None:
    expr = build_or_none(tree)
    assume(expr is not None)
    assert expr is not None
    names = {symbol: f"x[{i}]" for i, symbol in enumerate(SYMBOLS)}
    code = compile(shapes.print_python(expr, names), "guard", "eval")
    text = compile(str(expr), "text", "eval")
    for values in MIXED:
        if value_or_undefined(tree, values) is UNDEFINED:
            continue
        expected = expr.evaluate(values)
        x = [values[symbol] for symbol in SYMBOLS]
        assert same(eval(code, {"math": math, "x": x}), expected), (str(expr), values)
        assert same(eval(text, {"math": math, **{s.name: v for s, v in values.items()}}), expected)


@quick
@given(any_tree, linear_trees, linear_trees)
def test_substitution_is_evaluation_in_two_steps(tree: Tree, first: Tree, second: Tree) -> None:
    expr, new0, new1 = build_or_none(tree), build_or_none(first), build_or_none(second)
    assume(expr is not None and new0 is not None and new1 is not None)
    assert expr is not None and new0 is not None and new1 is not None
    try:
        replaced = expr.substitute({SYMBOLS[0]: new0, SYMBOLS[1]: new1})
    except ZeroDivisionError:
        return  # a divisor became the constant 0
    for values in MIXED:
        a, b = value_or_undefined(first, values), value_or_undefined(second, values)
        if a is UNDEFINED or b is UNDEFINED:
            continue
        inner = {**values, SYMBOLS[0]: a, SYMBOLS[1]: b}
        expected = value_or_undefined(tree, inner)
        if expected is not UNDEFINED:
            assert same(replaced.evaluate(values), expected), (expr, replaced, values)


@quick
@given(int_trees | float_trees, st.integers(-2, 3), st.integers(0, 4))
def test_values_lie_in_their_interval(tree: Tree, low: int, width: int) -> None:
    expr = build_or_none(tree)
    assume(expr is not None)
    assert expr is not None
    interval = RangeAnalysis({s: shapes.Interval(low, low + width) for s in SYMBOLS}).interval(expr)
    half_open = RangeAnalysis({s: shapes.Interval(lower=low) for s in SYMBOLS}).interval(expr)
    for values in environments(range(low, low + width + 1)):
        value = value_or_undefined(tree, values)
        if value is not UNDEFINED:
            assert value in interval, (expr, values)
            assert value in half_open, (expr, values)


@thorough
@given(st.lists(linear_conditions | int_conditions, max_size=4), linear_conditions | int_conditions, st.booleans())
def test_decisions_are_never_wrong(assumptions: list[Tree], question: Tree, sizes: bool) -> None:
    env = shapes.ShapeEnv()
    symbols = [env.new_symbol(None, s.name, lower=2 if sizes else -2) for s in SYMBOLS]
    rename = dict(zip(SYMBOLS, symbols, strict=True))
    allowed = SIZES if sizes else SMALL
    for assumption in assumptions:
        expr = build_or_none(assumption)
        if expr is None:
            continue
        still = [values for values in allowed if value_or_undefined(assumption, values) is True]
        if not still:
            continue  # from a contradiction anything follows
        allowed = still
        try:
            env.assume(expr.substitute(rename))
        except shapes.ContradictionError:
            raise AssertionError(f"{expr} does not contradict, for example {still[0]}") from None
    expr = build_or_none(question)
    assume(expr is not None)
    assert expr is not None
    expr = expr.substitute(rename)
    decided = env.decide(expr)
    simplified = env.simplify(expr)
    for values in allowed:
        value = value_or_undefined(question, values)
        if value is UNDEFINED:
            continue
        renamed = {rename[symbol]: v for symbol, v in values.items()}
        assert decided is None or decided == value, (question, values)
        assert simplified.evaluate(renamed) == value, (question, simplified, values)


@quick
@given(st.lists(linear_conditions | int_trees, min_size=1, max_size=6), st.sampled_from(SIZES))
def test_guards_hold_exactly_where_all_answers_stay_the_same(questions: list[Tree], hints: dict) -> None:
    env = shapes.ShapeEnv()
    rename = {s: env.new_symbol(hints[s], s.name, lower=2) for s in SYMBOLS}
    asked = []
    for question in questions:
        expr = build_or_none(question)
        if expr is None or value_or_undefined(question, hints) is UNDEFINED:
            continue
        asked.append((question, env.evaluate(expr.substitute(rename))))
    for question, answer in asked:
        assert same(answer, question.value(hints))
    guards = env.guards
    for values in SIZES:
        answers = [value_or_undefined(question, values) for question, _ in asked]
        if UNDEFINED in answers:
            continue
        renamed = {rename[symbol]: v for symbol, v in values.items()}
        hold = all(guard.expr.evaluate(renamed) for guard in guards)
        # Guards are conditions on the answers and nothing more, so they hold in exactly these places.
        assert hold == all(same(a, b) for a, (_, b) in zip(answers, asked, strict=True)), (guards, values)


@quick
@given(any_tree)
def test_pickle_gives_the_same_object(tree: Tree) -> None:
    expr = build_or_none(tree)
    assume(expr is not None)
    assert pickle.loads(pickle.dumps(expr)) is expr
