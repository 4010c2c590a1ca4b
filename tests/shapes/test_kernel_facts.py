"""What kernels ask of symbolic sizes, against brute force: divisibility, layouts, index arithmetic and its printing."""

from __future__ import annotations

import itertools
import random

import pytest

from firesteel import shapes
from firesteel.shapes import Facts, IndexPrinter, const, eq, symbol
from firesteel.shapes.congruences import NOTHING, Congruence, Congruences
from firesteel.shapes.layout import collapse, dense_order, is_channels_last, is_contiguous

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


def test_fits_int32_counts_everything_on_the_way() -> None:
    facts = facts_of(s0 >= 0, s0 <= 2**16, s1 >= 0, s1 <= 2**14, s2 >= 0)
    assert shapes.fits_int32(s0 * s1, facts)
    assert not shapes.fits_int32(2 * s0 * s1, facts)
    assert not shapes.fits_int32(s2, facts)
    assert not shapes.fits_int32(s2 % 8, facts)
    assert not shapes.fits_int32(2 * s0 * s1 - 2 * s0 * s1 // 4, facts)  # the terms before the difference do not
    assert shapes.fits_int32(s0 * s1 - s1, facts)


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
            assert is_contiguous(sizes, strides, facts) is ((2, 1, 0) in dense)
            found = dense_order(sizes, strides, facts)
            assert (found in dense) if dense else found is None


def test_layouts_of_symbols() -> None:
    facts = facts_of(s0 >= 2, s1 >= 2, s2 >= 2)
    assert is_contiguous((s0, s1, s2), (s1 * s2, s2, 1), facts) is True
    assert is_contiguous((s0, s1), (1, s0), facts) is False
    assert is_contiguous((s0, s1), (s2, 1), facts) is None
    assert is_channels_last((s0, 3, s1, s2), (3 * s1 * s2, 1, 3 * s2, 3), facts) is True
    assert is_channels_last((s0, 3, s1, s2), (3 * s1 * s2, s1 * s2, s2, 1), facts) is False
    assert is_channels_last((s0, 3), (3, 1), facts) is False
    assert dense_order((s0, s1, s2), (s2, s0 * s2, 1), facts) == (2, 0, 1)
    assert dense_order((s0, s1, s2), (2 * s2, 2 * s0 * s2, 2), facts) is None
    facts.add(eq(s1, s0))
    assert is_contiguous((s2, s1), (s0, 1), facts) is True


def test_collapsed_dimensions_visit_the_same_elements() -> None:
    rng = random.Random(1)
    merged = 0
    for _ in range(300):
        sizes = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.choice([2, 3, 4])))
        order = list(range(len(sizes)))[::-1]
        tensors = []
        for _ in range(2):
            if rng.random() < 0.3:
                rng.shuffle(order)
            strides = strides_of(sizes, tuple(order))
            if rng.random() < 0.3:  # broadcast along a dimension
                dim = rng.randrange(len(sizes))
                strides = (*strides[:dim], 0, *strides[dim + 1 :])
            tensors.append(strides)
        result = collapse(sizes, tensors, Facts())
        merged += len(result.sizes) < len([size for size in sizes if size > 1])

        def offsets(sizes: tuple[int, ...], tensors: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
            return [
                tuple(sum(index * step for index, step in zip(point, strides)) for strides in tensors)
                for point in itertools.product(*map(range, sizes))
            ]

        plain = tuple(int(size.value) for size in result.sizes)
        steps = [tuple(int(step.value) for step in strides) for strides in result.strides]
        assert offsets(plain, steps) == offsets(sizes, tensors)
        for group, size in zip(result.groups, plain):
            product = 1
            for dim in group:
                product *= sizes[dim]
            assert product == size
    assert merged > 100


def test_collapsing_symbols_needs_all_tensors() -> None:
    facts = facts_of(s0 >= 2, s1 >= 2, s2 >= 2)
    sizes, contiguous = (s0, s1, s2), (s1 * s2, s2, 1)
    assert collapse(sizes, [contiguous], facts).sizes == (s0 * s1 * s2,)
    both = collapse(sizes, [contiguous, (0, s2, 1)], facts)
    assert both.sizes == (s0, s1 * s2)
    assert both.strides == ((s1 * s2, const(1)), (const(0), const(1)))
    assert both.groups == ((0,), (1, 2))
    unknown = collapse(sizes, [(symbol("stride"), s2, 1)], facts)
    assert unknown.groups == ((0,), (1, 2))
    assert collapse((1, s0, 1), [(7, 1, 3)], facts).groups == ((1,),)


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


@pytest.mark.parametrize(
    ("text", "plain", "known"),
    [
        ("i*s1 + j", "i*s1 + j", "i*s1 + j"),
        ("(i + 1)//4", "floordiv(i + 1, 4)", "(i + 1) / 4"),
        ("4*(i//s1) + i % 4", "4*floordiv(i, s1) + floormod(i, 4)", "i % 4 + 4*(i / s1)"),
        ("(i//4) % s1", "floormod(floordiv(i, 4), s1)", "i / 4 % s1"),
        ("i//(s1//2)", "floordiv(i, floordiv(s1, 2))", "i / (s1 / 2)"),
        ("i % (s1*2)", "floormod(i, 2*s1)", "i % (2*s1)"),
        ("(i - j)//4", "floordiv(i - j, 4)", "floordiv(i - j, 4)"),
        ("i**3 - 5", "i*i*i - 5", "i*i*i - 5"),
        ("min(i, j, 7)", "min(min(7, i), j)", "min(min(7, i), j)"),
        ("abs(i - j)", "abs(i - j)", "abs(i - j)"),
        ("i if i < s0 and not (j == 3) else j", "(i <= s0 - 1 && j != 3 ? i : j)", "(i <= s0 - 1 && j != 3 ? i : j)"),
        ("i >= 2 or j >= 3", "i >= 2 || j >= 3", "i >= 2 || j >= 3"),
        ("(i & 7) + 1", "(7 & i) + 1", "(7 & i) + 1"),
        ("4294967296*i", "4294967296*i", "4294967296*i"),
        ("True", "1", "1"),
    ],
)
def test_index_code(text: str, plain: str, known: str) -> None:
    names = [s0, s1, s2, i, j, k]
    expr = shapes.parse(text, names)
    assert IndexPrinter().print(expr) == plain
    code = IndexPrinter(index_facts()).print(expr)
    assert code == known
    if "?" in code or "&&" in code or "||" in code:
        return
    # With what it computes: `/` of numbers that are not negative rounds down in C as well.
    functions = {"floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b, "min": min, "abs": abs}
    for x, y in itertools.product(range(9), repeat=2):
        values = {"i": x, "j": y, "k": 0, "s0": 9, "s1": 9, "s2": 1}
        assert eval(code.replace(" / ", "//"), {**functions, **values}) == eval(text, dict(values)), values


def test_bit_operations_are_always_in_parentheses() -> None:
    # `a & b == c` means something else in C than in Python.
    assert IndexPrinter().print(eq(shapes.arithmetic.bitand(i, 7), 3)) == "(7 & i) == 3"


def test_index_code_refuses_what_it_cannot_say() -> None:
    with pytest.raises(TypeError, match="floats"):
        IndexPrinter().print(shapes.to_float(s0))
    with pytest.raises(TypeError, match="ceil"):
        IndexPrinter().print(shapes.ceil(s0 / 2))
    with pytest.raises(TypeError, match="pow"):
        IndexPrinter().print(shapes.pow_by_natural(s0, s1))
    with pytest.raises(OverflowError, match="64 bits"):
        IndexPrinter().print(s0 + 2**63)


def test_python_code() -> None:
    names = {s0: "x.size(0)", s1: "n", s2: "_fs_s2"}
    assert shapes.print_python((s0 * s1 + 1) // s2, names) == "(n*x.size(0) + 1)//_fs_s2"
    assert shapes.print_python(eq(s0 * s1, s2), names) == "n*x.size(0) == _fs_s2"
    assert shapes.print_python(eq(s0 % 8, 0), names) == "x.size(0) % 8 == 0"
    # What may divide by zero comes after what may save it from that.
    assert shapes.print_python(shapes.or_(eq(s0 % s1, 0), eq(s1, 0)), names) == "n == 0 or x.size(0) % n == 0"
