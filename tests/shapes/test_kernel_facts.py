"""What kernels ask of symbolic sizes, against brute force: divisibility, layouts, index arithmetic and its printing."""

from __future__ import annotations

import itertools
import random

import pytest

from firesteel import shapes
from firesteel.shapes import Facts, const, eq, symbol
from firesteel.shapes.congruences import NOTHING, Congruence, Congruences
from firesteel.shapes.layout import dense_order

s0, s1, s2 = symbol("s0"), symbol("s1"), symbol("s2")
i, j, k = symbol("i"), symbol("j"), symbol("k")


def facts_of(*conditions: shapes.Expr) -> Facts:
    facts = Facts()
    for condition in conditions:
        facts.add(condition)
    return facts


# Divisibility


def values_of(congruence: Congruence) -> set[int]:
    return {value for value in range(-30, 31) if congruence.allows(value)}


CONGRUENCES = [Congruence(m, r) for m in range(5) for r in range(-3, 5) if not m or 0 <= r < m]


@pytest.mark.parametrize("left", CONGRUENCES)
def test_congruence_arithmetic(left: Congruence) -> None:
    for right in CONGRUENCES:
        for a, b in itertools.product(values_of(left), values_of(right)):
            assert (left + right).allows(a + b)
            assert (left * right).allows(a * b)
        joined, both = left.join(right), left.meet(right)
        assert values_of(left) | values_of(right) <= values_of(joined)
        # A meeting is exact: nothing weaker, nothing stronger.
        assert (values_of(both) if both else set()) == values_of(left) & values_of(right)


def test_congruence_narrows_only_to_allowed_ends() -> None:
    for congruence in CONGRUENCES:
        if congruence.modulus < 2:
            continue
        for low, high in itertools.combinations(range(-6, 7), 2):
            inside = [value for value in range(low, high + 1) if congruence.allows(value)]
            narrow = congruence.narrow(shapes.Interval(low, high))
            assert narrow.is_empty if not inside else (narrow.lower, narrow.upper) == (inside[0], inside[-1])


def test_known_divisors_divide() -> None:
    rng = random.Random(0)
    texts = ["6*a*b", "a + 4", "a//2", "a % 6", "min(a, b) + 2", "a*b//4*3", "(a + b)*c", "abs(a - b)", "c*8 + a"]
    texts += ["a % (4*c)", "(a if c > 3 else b)", "a**2", "a*b + 6*c + 3"]
    informative = 0
    for _ in range(200):
        d, e = rng.choice([2, 3, 4, 6, 8]), rng.choice([2, 3, 4, 6])
        r, q = rng.choice([0, 0, rng.randrange(d)]), rng.choice([0, rng.randrange(e)])
        facts = facts_of(eq(s0 % d, r), eq(s1 % e, q))
        text = rng.choice(texts)
        expr = shapes.parse(text, {"a": s0, "b": s1, "c": s2})
        divisor = facts.divisor(expr)
        congruence = facts.congruence(expr)
        informative += divisor > 1
        for a, b, c in itertools.product(range(r, 40, d), range(q, 30, e), (1, 2, 5)):
            value = eval(text, {"a": a, "b": b, "c": c})
            assert congruence.allows(value), (text, facts.congruences.known, value)
            assert value % divisor == 0 if divisor else value == 0
            assert not facts.known_multiple(expr, 16) or value % 16 == 0
    assert informative > 60


def test_divisors_that_programs_need() -> None:
    facts = facts_of(eq(s0 % 16, 0), s1 >= 2)
    assert facts.known_multiple(s0, 16) and facts.known_multiple(s0 * s1, 16) and facts.known_multiple(48 * s1, 16)
    assert facts.known_multiple(s0 // 4, 4) and not facts.known_multiple(s0 // 4, 8)
    assert facts.divisor(s0 + 24 * s1) == 8
    assert facts.divisor(const(0)) == 0 and facts.known_multiple(const(0), 16)
    assert facts.congruence(s1) == NOTHING
    assert facts.replace(16 * (s0 // 16) * s1) is s0 * s1
    both = facts_of(eq(s0 % 4, 1), eq(s0 % 6, 3))
    assert both.congruence(s0) == Congruence(12, 9)
    solved = facts_of(eq(4 * s0, 3 * s1))
    assert solved.divisor(s0) == 3 and solved.divisor(s1) == 4


def test_contradicting_remainders_are_refused() -> None:
    known = Congruences()
    known.learn(s0, Congruence(4, 1))
    with pytest.raises(ValueError, match="modulo"):
        known.learn(s0, Congruence(2, 0))
    facts = facts_of(eq(s0 % 4, 1))
    with pytest.raises(shapes.ContradictionError):
        facts.add(eq(s0, 6))


# Layouts


def strides_of(sizes: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= sizes[dim]
    return tuple(strides)


def test_layouts_of_plain_numbers() -> None:
    facts = Facts()
    for sizes in itertools.product((1, 2, 3), repeat=3):
        for strides in itertools.product((1, 2, 3, 4, 6, 9), repeat=3):
            dense = [
                order
                for order in itertools.permutations(range(3))
                if all(size == 1 or a == b for size, a, b in zip(sizes, strides, strides_of(sizes, order)))
            ]
            found = dense_order(sizes, strides, facts)
            assert (found in dense) if dense else found is None


def test_layouts_of_symbols() -> None:
    facts = facts_of(s0 >= 2, s1 >= 2, s2 >= 2)
    assert dense_order((s0, s1, s2), (s2, s0 * s2, 1), facts) == (2, 0, 1)
    assert dense_order((s0, s1, s2), (2 * s2, 2 * s0 * s2, 2), facts) is None
    assert dense_order((s2, s1), (s0, 1), facts) is None
    facts.add(eq(s1, s0))
    assert dense_order((s2, s1), (s0, 1), facts) == (1, 0)


# Index arithmetic


def index_facts() -> Facts:
    """i, j and k run over a tensor of sizes s0, s1 and s2."""
    conditions = [s0 >= 1, s1 >= 1, s2 >= 1, i >= 0, j >= 0, k >= 0, i < s0, j < s1, k < s2]
    return facts_of(*conditions)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(i*s1 + j)//s1", "i"),
        ("(i*s1 + j) % s1", "j"),
        ("((i*s1 + j)*s2 + k)//s2 % s1", "j"),
        ("((i*s1 + j)*s2 + k)//(s1*s2)", "i"),
        ("((i*s1 + j)*s2 + k) % (s1*s2)", "j*s2 + k"),
        ("((i*s1 + j)*s2 + k) % s2", "k"),
        ("((i*s1 + j)*s2 + k)//(s1*s2)*(s1*s2) + ((i*s1 + j)*s2 + k) % (s1*s2)", "i*s1*s2 + j*s2 + k"),
        ("8*(i//8) + i % 8", "i"),
        ("s1*(i//s1) + i % s1", "i"),
        ("i - 8*(i//8)", "i % 8"),
        ("4*((i//4) % 3) + i % 4", "i % 12"),
        ("s1*((i//s1) % s2) + i % s1", "i % (s1*s2)"),
        ("(12*i + 4*(j % 3) + k % 4)//12", "i"),
        ("(12*i + 4*(j % 3) + k % 4)//4 % 3", "j % 3"),
        ("(12*i + 4*(j % 3) + k % 4) % 4", "k % 4"),
        ("min(i, s0 - 1)", "i"),
        ("max(i, 0)", "i"),
        ("abs(i + 1)", "i + 1"),
        ("(i if i < s0 else j)", "i"),
        ("(i % s0)//s0 + i//s0", "0"),
        ("(i + 1)//s0", "(i + 1)//s0"),
        ("(i*s1 + j + 1) % s1", "(j + 1) % s1"),
    ],
)
def test_index_arithmetic(before: str, after: str) -> None:
    names = [s0, s1, s2, i, j, k]
    expr = shapes.parse(before, names)
    simple = shapes.simplify_under_ranges(expr, index_facts())
    assert str(simple) == str(shapes.parse(after, names))
    for a, b, c in itertools.product(range(1, 4), range(1, 4), range(1, 3)):
        for x, y, z in itertools.product(range(a), range(b), range(c)):
            values = {"s0": a, "s1": b, "s2": c, "i": x, "j": y, "k": z}
            expected = eval(before, dict(values))
            assert simple.evaluate({symbol(name): value for name, value in values.items()}) == expected


# Printing


def test_python_code() -> None:
    names = {s0: "x.size(0)", s1: "n", s2: "_fs_s2"}
    assert shapes.print_python((s0 * s1 + 1) // s2, names) == "(n*x.size(0) + 1)//_fs_s2"
    assert shapes.print_python(eq(s0 * s1, s2), names) == "n*x.size(0) == _fs_s2"
    assert shapes.print_python(eq(s0 % 8, 0), names) == "x.size(0) % 8 == 0"
    # What may divide by zero comes after what may save it from that.
    assert shapes.print_python(shapes.or_(eq(s0 % s1, 0), eq(s1, 0)), names) == "n == 0 or x.size(0) % n == 0"
