"""Python on numbers that are not constants: sizes of tensors and arguments that vary.

Every program runs plain and compiled over several values; what Python can observe must be the same, and the number of
captures says whether the numbers stayed symbolic. A size is symbolic from the first call on (``dynamic=True``), a plain
number from the second call, in which it differs.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import assert_same_facts, observe
from capture.number_programs import Generator
from firesteel.errors import GraphBreakError

NUMBERS = (7, 12, 5, 100, 33)
FLOATS = (0.75, 2.5, -3.25, 1e3, 0.1)
NAMES = {"functools": functools, "itertools": itertools, "math": math, "operator": operator, "torch": torch}


def compiled_over(function: Callable[..., Any], calls: list[tuple[Any, ...]], **options: Any) -> int:
    """Compare the calls with plain ones; returns how many captures they needed."""
    options.setdefault("fullgraph", True)
    compiled = fs.compile(function, backend="eager", **options)
    with fs.config.patch(recompile_limit=64, raise_on_internal_error=True):
        for args in calls:
            assert_same_facts(observe(function, args, None), observe(compiled, args, None))
    return len(compiled._firesteel_unit.entries)


def of_number(expression: str, name: str = "n") -> Any:
    """A function of a number."""
    scope = dict(NAMES)
    exec(f"def f({name}):\n    return {expression}", scope)
    return scope["f"]


def of_size(expression: str) -> Any:
    """The same as a function of a tensor, whose first size is the number."""
    scope = dict(NAMES)
    exec(f"def f(x):\n    n = x.size(0)\n    return {expression}", scope)
    return scope["f"]


ARITHMETIC = [
    "n + 1", "n - 3", "3 - n", "n * 2", "n * n", "n / 2", "n / 3", "7 / n", "n // 4", "100 // n", "-n // 4", "n % 4",
    "100 % n", "-n % 4", "n % -4", "-n", "+n", "~n", "abs(n)", "abs(-n)", "abs(n - 10)", "n ** 2", "n ** 0", "2 ** n",
    "(-n) ** 3", "n ** -1", "n ** -2", "n ** 0.5", "n ** -0.5", "n ** 1.5", "n ** 2.0", "0.5 ** 2 * n", "n << 2",
    "n >> 1", "1 << n", "n & 6", "n | 8", "n ^ 3", "divmod(n, 4)", "divmod(100, n)", "divmod(-n, 4)", "pow(n, 2)",
    "round(n)", "round(n / 3)", "round(n / 3, 2)", "round(n, 1)", "round(n, None)", "round(n / 3, ndigits=1)",
    "n + True", "n * 0.1 + 0.2", "(n + 0.1) // 0.3", "(n + 0.1) % 0.3", "n / 4 - n // 4", "n * 1 + 0", "n - n",
]
CONVERSIONS = [
    "int(n)", "int(n / 2)", "int(-n / 3)", "float(n)", "float(n / 2)", "bool(n)", "bool(n - 200)", "complex(2, 3).real",
    "operator.index(n)", "operator.truth(n)", "operator.not_(n)", "not n", "torch.sym_int(n / 2)", "torch.sym_float(n)",
]
REDUCTIONS = [
    "min(n, 1000)", "max(n, 50)", "min(n, 9)", "max(n, 9, n + 1)", "min([n, 20, n * 2])", "max((n, 3), key=None)",
    "min(n / 2, 8.0)", "max(n, 4.5)", "min(n, 300.5)", "max([n], default=3)", "min(n, True)", "sum([n, 1, n])",
    "sum([n, 0.5])", "sum((n, n), 3)", "sum([0.1] * 3, n / 7)", "math.prod([n, 2, n])", "any([n > 2, False])",
    "all([n > 2, n > 1])", "functools.reduce(operator.mul, [n, 2, n])", "functools.reduce(lambda a, b: a * b, (n, 3))",
    "sorted([n, 3, n + 2])", "sorted([n, 3], reverse=True)", "max((n, 1), (n, 2))", "max([n, 3], key=lambda v: -v)",
    "torch.sym_max(n, 3)", "torch.sym_min(n, 200.0)", "torch.sym_max(n, 2.5)", "torch.sym_not(n == 8)",
    "torch.sym_ite(n > 1, n, 3)", "torch.sym_ite(n > 10, n * 2, n)", "torch.sym_sum([n, n, 1])",
]
MATH = [
    "math.sqrt(n)", "1 / math.sqrt(n)", "math.floor(n / 2)", "math.ceil(n / 2)", "math.trunc(-n / 2)", "math.log(n)",
    "math.log2(n)", "math.exp(-n)", "math.pow(n, 2)", "math.fabs(-n)", "math.isnan(n)", "math.isinf(n / 2)",
    "math.isfinite(n / 2)", "math.cos(n)", "math.sin(n / 3)", "math.tan(n)", "math.tanh(n)", "math.atan(n)",
    "math.asin(1 / n)", "math.erf(n / 50)", "math.floor(float(n) * 1.5)", "math.ceil(math.log2(n))",
    "torch.sym_sqrt(n)",
]
COMPARISONS = [
    "n == 3", "n != 3", "n < 1000", "1 < n < 1000", "1 < n <= 3", "n > 1 and n", "n or 3", "n is None", "n is not None",
    "n == None", "n != None", "n == 'a'", "n != ('a',)", "n == [n]", "n == n", "n == n + 1", "n < 200.5", "n == 7.5",
    "n in (2, 3)", "n in [1, 2, 3]", "n in {1, 2, 3}", "n not in (1, 2)", "n in (2, n)", "n in range(1000)",
    "n in range(1, 1000)", "n in (None, 'a')", "2 in range(n)", "1000 in range(n)", "n if n > 2 else 0",
    "n == 3 or n == 4", "None if n is None else n", "(n == 7) + 1", "(n > 3) * 2", "(n > 2) & (n < 1000)",
    "(n > 2) | (n < 4)", "(n > 2) ^ (n < 4)", "-(n > 2)", "(n > 2) == True", "(n > 8) == (n > 9)", "int(n > 2)",
    "float(n > 2)", "(n > 2) is True", "(n > 2) & 3", "(n == 7) < 2", "n is True", "n == torch.float32",
    "isinstance(n, int)", "isinstance(n, torch.SymInt)", "isinstance(n, (float, int))", "isinstance(n, bool)",
    "type(n) is int", "type(n)", "torch.is_tensor(n)", "isinstance(n / 2, float)", "callable(n)",
]
SEQUENCES = [
    "(n, n + 1)[0]", "(n, 2, 3)[1:]", "(n, 2) + (n,)", "(n, 2) == (n, 2)", "(n, 2) == (n, 3)", "(n, 2) != (n, 2)",
    "(n, 2) == (n, 2, 2)", "(n, 2) < (n, 3)", "(n, 3) >= (n + 1, 2)", "[n, 2] == [n, 2]", "[n] == (n,)", "len((n, 2))",
    "n in (n, 2)", "(n, 2).index(2)", "(n, 2).count(2)", "[n, 2, n].count(n)", "{'a': n} == {'a': n}",
    "torch.Size([n, 2])", "torch.Size([n, 2]).numel()", "torch.Size((n, 2)) + (3,)", "list(torch.Size([n, 2]))",
    "[*torch.Size([n, 2])]", "tuple(torch.Size([n, 2])[:-1]) + (2, -1)", "torch.Size([n, 2])[-1] == 2",
    "torch.Size([n, 2]) == torch.Size([n, 2])", "torch.Size([n, 2]) == (n, 3)", "(lambda *a: a)(*torch.Size([n, 2]))",
    "range(n)", "range(2, n)", "len(range(n))", "len(range(0, n, 3))", "len(range(n, 0, -2))", "len(range(n, 3))",
    "range(n)[2]", "range(n)[-1]", "range(3, n)[1]", "range(2, n).start", "range(n).stop", "range(n).step",
    "bool(range(n))", "n - 1 in range(n)", "n in range(0, 2 * n)", "slice(n)", "slice(0, n, 2).stop", "dict(a=n)",
    "list(enumerate([5, 6], n))", "list(itertools.islice(itertools.count(n), 3))", "list(map(int, (n, 2)))",
    "[v * 2 for v in (n, 2)]", "list(zip((n, 2), (n + 1, 3)))", "list(reversed((n, 2)))",
    "dict(zip('ab', (n, 2)))", "[a + b for a, b in itertools.product((n,), (1, n))]", "[n, 2][0] // 2",
]
TEXTS = [
    "f'{n}'", "f'{n:04d}'", "f'{n!r:>5}'", "f'{n / 2:.2f}'", "str(n)", "repr(n)", "f'{n + 1}/{n}'", "'a' + str(n)",
    "print(n)", "print('n', n + 1)", "print((n, 2))", "print([n])", "print(f'n={n}')", "repr((n, 1))", "str([n, 'a'])",
    "f'{(n,)}'", "print(torch.Size([n, 2]))", "f'{str(n)}!'", "bool(str(n))", "(str(n), 1)", "f'{n > 2}'",
    "format(n, 'x')",
]
METHODS = [
    "n.real", "n.imag", "n.numerator", "n.denominator", "n.conjugate()", "n.__index__()", "n.__int__()", "n.__add__(1)",
    "n.__radd__(1)", "n.__rsub__(1)", "n.__class__", "n.__mul__(2)", "n.__neg__()", "hasattr(n, 'shape')",
    "hasattr(n, 'real')", "getattr(n, 'foo', 3)", "(n / 2).is_integer()", "(n / 2).real", "n.__float__()",
    "n.__round__()", "n.__floor__()", "n.__bool__()", "n.__eq__(3)", "n.__invert__()", "int.__add__(n, 2)",
    "(n / 2).__mul__(2)", "n.__rpow__(2)",
]
SYMBOLIC = [*ARITHMETIC, *CONVERSIONS, *REDUCTIONS, *MATH, *COMPARISONS, *SEQUENCES, *TEXTS, *METHODS]

# The value itself is needed, so each one has a capture of its own.
CONSTANT = [
    "round(n, -1)", "pow(n, 2, 7)", "math.log(n, 2)", "math.gcd(n, 4)", "math.isqrt(n)", "math.log10(n)",
    "math.hypot(n, n)", "[0] * n", "'x' * n", "n * (1,)", "list(range(n))", "[i for i in range(n)]", "sum(range(n))",
    "list(reversed(range(n)))", "list(itertools.repeat(0, n))", "list(zip(range(n), 'ab'))", "{n: 1}", "{n}",
    "{7: 'a'}.get(n)", "'%d' % n", "'%d %d' % (n, n)", "'{} a'.format(n)", "hash(n)", "hash((n, 1))", "bin(n)",
    "hex(n)", "chr(n)", "f'{n:c}'", "str(n).upper()", "str(n) == '7'", "len(str(n))", "{str(n): 1}", "n.bit_length()",
    "n.__add__(1.5)", "n.__lt__('a')", "n + 1j", "n * 1j", "n ** 1j", "(n + 0.5) ** (n / 7)", "range(n) == range(7)",
    "list(range(n)[1:3])", "list(range(0, 100, n))", "[1, 2, 3, 4, 5, 6][:n]", "'abc' * n == 'abc'", "int(str(n))",
]

RAISING = [
    "n / 0", "n // 0", "n % 0", "1 / (n - n)", "1 // (n - 7)", "n % (n - 12)", "0 ** (7 - n)", "(n - 7) ** -1",
    "divmod(n, 0)", "n + 'a'", "'a' + n", "n + None", "n < None", "n < 'a'", "n[0]", "n()", "len(n)", "n.foo", "n @ 2",
    "[1, 2][n]", "iter(n)", "n << -1", "1 >> -n", "n & 1.5", "~(n / 2)", "math.sqrt(-n)", "math.sqrt(n - 8)",
    "math.log(n - 12)", "math.exp(n * 10)", "math.asin(n)", "f'{n:q}'", "range(n)[1000]", "range(1, n, 0)",
    "range(n / 2)", "(n - 8) ** 0.5", "(n - 7) ** -0.5", "max(n, None)", "sum([n, 'a'])", "int(n, 10)",
    "round(n, 'a')", "float(n, 1)", "operator.index(n / 2)", "(n / 2) << 1", "[n].index(3)", "math.factorial(-n)",
]


@pytest.mark.parametrize("expression", SYMBOLIC)
def test_sizes_stay_symbolic(expression: str) -> None:
    calls = [(torch.zeros(number, 2),) for number in NUMBERS]
    assert compiled_over(of_size(expression), calls, dynamic=True) == 1


@pytest.mark.parametrize("expression", SYMBOLIC)
def test_numbers_stay_symbolic(expression: str) -> None:
    calls = [(number,) for number in NUMBERS]
    assert compiled_over(of_number(expression), calls) <= 2


@pytest.mark.parametrize("expression", CONSTANT)
def test_sizes_made_constant(expression: str) -> None:
    calls = [(torch.zeros(number, 2),) for number in NUMBERS]
    assert compiled_over(of_size(expression), calls, dynamic=True) == len(NUMBERS)


@pytest.mark.parametrize("expression", RAISING)
def test_exceptions(expression: str) -> None:
    sizes = [(torch.zeros(number, 2),) for number in NUMBERS]
    compiled_over(of_size(expression), sizes, dynamic=True, fullgraph=False)
    compiled_over(of_number(expression), [(number,) for number in NUMBERS], fullgraph=False)


IN_GRAPHS = [e for e in (*ARITHMETIC, *CONVERSIONS, *MATH, *REDUCTIONS)
             if not e.startswith(("divmod", "2 ** n", "1 << n", "sorted", "max((n"))]


@pytest.mark.parametrize("expression", [*IN_GRAPHS, "(n == 7) + 1", "(n > 8) & 3", "(n > 8) & (n < 50)", "-(n > 8)"])
def test_numbers_in_graphs(expression: str) -> None:
    # the constant beside it keeps the shape of the result, so that the number is what the graph computes
    calls = [(torch.zeros(number, 2, dtype=torch.float64),) for number in NUMBERS]
    assert compiled_over(of_size(f"x.sum() + ({expression})"), calls, dynamic=True) == 1
    scope = dict(NAMES)
    exec(f"def f(x, n):\n    return x * ({expression})", scope)
    ones = torch.ones(2, dtype=torch.float64)
    assert compiled_over(scope["f"], [(ones, number) for number in NUMBERS]) <= 2


FLOAT_PROGRAMS = [
    "v + 1", "1 - v", "v * v", "v / 3", "2 / v", "v // 0.3", "v % 0.3", "-v", "+v", "abs(v)", "v ** 2", "v ** 3.0",
    "v ** -1", "round(v)", "round(v, 1)", "int(v)", "float(v)", "bool(v)", "math.floor(v)", "math.ceil(v)",
    "math.trunc(v)", "math.tanh(v)", "math.atan(v)", "math.sqrt(abs(v))", "math.sin(v)", "math.exp(-abs(v))",
    "math.isnan(v)", "math.isfinite(v)", "math.fabs(v)", "min(v, 2.0)", "max(v, 2.0, -v)", "sum([v, 0.1, 0.2])",
    "v == 2.5", "v != 3", "v < 1e6", "v is None", "v == 'a'", "v.is_integer()", "v.real", "v.imag", "v.conjugate()",
    "isinstance(v, float)", "type(v)", "f'{v:.3f}'", "str(v)", "(v, 1) == (v, 1)", "torch.sym_max(v, 1)", "v * 2 // 1",
    "torch.sym_int(v)", "divmod(v, 0.7)", "v * 1e-300 * 1e-300", "print(v)", "v in (1.5, v)", "hasattr(v, 'hex')",
]


@pytest.mark.parametrize("expression", FLOAT_PROGRAMS)
def test_floats_stay_symbolic(expression: str) -> None:
    assert compiled_over(of_number(expression, "v"), [(value,) for value in FLOATS]) <= 3  # signs are decided at times


@pytest.mark.parametrize("expression", [*FLOAT_PROGRAMS, "v ** 0.5", "1 / v", "v ** v", "math.log(v)", "v * 1e308"])
def test_unusual_floats(expression: str) -> None:
    """Zeros, infinities, NaN, numbers near the ends of the range: after numbers of the usual kind, and amid them."""
    values = [2.0, 3.0, 0.0, -0.0, math.inf, 4.0, -math.inf, math.nan, 1e308, -1e308, 5e-324, 5.0, 1e200, 1e17]
    compiled_over(of_number(expression, "v"), [(value,) for value in values], fullgraph=False)


@pytest.mark.parametrize("expression", ["n / 7", "n % 4", "n // 3", "n * n", "n ** 2", "abs(n)", "int(n / 3)", "~n",
                                        "min(n, 0)", "n in range(-3, 9)", "n in range(9, -9, -3)", "len(range(n))",
                                        "len(range(0, n, -2))", "100 // n", "n << 1", "n & 12", "n > 0", "n or 5",
                                        "math.sqrt(n)", "range(n)[0]", "n is 5", "n is 1000", "bool(n)", "f'{n:+d}'"])
def test_negative_numbers_and_zero(expression: str) -> None:
    with pytest.warns(SyntaxWarning) if " is " in expression else contextlib.nullcontext():
        function = of_number(expression)
    values = [-7, -12, 0, 5, 1, 256, 257, -1, -6, 1000, 2**62]
    compiled_over(function, [(value,) for value in values], fullgraph=False)


@pytest.mark.parametrize("start", range(0, 300, 10))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + 10):
        program = Generator(seed).program()
        scope: dict[str, Any] = {}
        exec(program, scope)
        choose = random.Random(seed)
        pairs = [(choose.randint(-20, 40), choose.randint(-20, 40)) for _ in range(6)]
        of_sizes = f"{program}\ndef g(x):\n    return f(x.size(0), x.shape[1])\n"
        exec(of_sizes, scope)
        try:
            compiled_over(scope["f"], pairs, fullgraph=False)
            compiled_over(scope["g"], [(torch.zeros(abs(a) + 2, abs(b) + 2),) for a, b in pairs], dynamic=True,
                          fullgraph=False)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{program}\n{pairs}") from error


class Record:
    """Something to store numbers in."""

    def __init__(self) -> None:
        self.last: Any = None
        self.sizes: list[Any] = []
        self.table: dict[str, Any] = {}


LAST: Any = None


def store_everywhere(x: torch.Tensor, record: Record) -> Any:
    global LAST
    n = x.size(0)
    record.last = n // 2
    record.sizes.append(n)
    record.sizes += [n / 3, (n, n > 8)]
    record.table["n"] = record.table["text"] = f"{n} rows"
    LAST = [min(n, 9), range(n)]
    return x + n, LAST


def close_over(x: torch.Tensor) -> Any:
    n = x.size(0) * 2

    def inner(m: int = n) -> int:
        return m + n

    return inner(), inner(1), functools.partial(max, n)(3), [*(n + i for i in range(3))], (lambda: n)()


def generate(x: torch.Tensor) -> Any:
    def numbers(n: int) -> Any:
        for i in range(3):
            n = yield n * i, range(n)

    generator = numbers(x.size(0))
    return next(generator), generator.send(len(x) + 1), generator


def catch(x: torch.Tensor) -> Any:
    try:
        raise ValueError(x.size(0), f"{x.size(0)} rows")
    except ValueError as error:
        return error.args


def refuse(x: torch.Tensor) -> Any:
    n = x.size(0)
    assert n < 50, f"{n} is too many"
    if n % 2:
        raise RuntimeError(f"odd: {n}")
    return x * n


def divide(x: torch.Tensor) -> Any:
    try:
        return 100 // (x.size(0) - 12)
    except ZeroDivisionError as error:
        return str(error)


def special_methods(x: torch.Tensor) -> Any:
    class Length:
        def __init__(self, value: int) -> None:
            self.value = value

        def __add__(self, other: Any) -> Any:
            return ("add", self.value, other)

        def __radd__(self, other: Any) -> Any:
            return ("radd", other, self.value)

        def __eq__(self, other: object) -> Any:
            return self.value == other

        def __index__(self) -> int:
            return self.value

        def __lt__(self, other: Any) -> Any:
            return self.value < other

    n = x.size(0)
    length = Length(n)
    return length + n, n + length, length == n, n == length, n > length, operator.index(length), n in [length]


def across_break(x: torch.Tensor) -> Any:
    n, m = x.size(0) * 2, x.size(1) / 3
    y = x * n
    fs.graph_break()
    return y + n * m, n, m, f"{n}"


def compare_shapes(x: torch.Tensor) -> Any:
    y = x + 1
    same = x.shape == y.shape, x.shape != y.t().shape, x.shape[0] == y.size(0), x.shape[:-1] == y.shape[:1]
    return same, x.shape[:-1] + (2, -1), len(x), x.numel(), x.shape.numel(), x.dim(), [*x.shape], x.shape in [y.shape]


def rearrange(x: torch.Tensor) -> Any:
    rows, columns = x.shape
    y = x.view(*x.shape[:-1], 2, columns // 2).transpose(0, 1).reshape(rows * 2, -1)
    return y / math.sqrt(columns), y[: rows // 2], y.new_zeros(y.shape[1], rows), torch.arange(rows * columns)


def unpack(x: torch.Tensor) -> Any:
    first, *rest = x.shape
    match x.shape:
        case [1, _]:
            shape = "one"
        case [int(a), int(b)] if a > 1000:
            shape = "many"
        case _:
            shape = "some"
    return first, rest, shape


MIXED = [close_over, generate, catch, special_methods, compare_shapes, rearrange, unpack]


@pytest.mark.parametrize("function", MIXED, ids=lambda function: function.__name__)
def test_programs(function: Any) -> None:
    calls = [(torch.zeros(number, 4),) for number in NUMBERS]
    assert compiled_over(function, calls, dynamic=True) == 1


@pytest.mark.parametrize("function", [refuse, divide, across_break], ids=lambda function: function.__name__)
def test_programs_that_decide(function: Any) -> None:
    compiled_over(function, [(torch.zeros(number, 4),) for number in NUMBERS], dynamic=True, fullgraph=False)


def test_numbers_in_effects() -> None:
    compiled = fs.compile(store_everywhere, backend="eager", fullgraph=True, dynamic=True)
    plain, other = Record(), Record()
    for number in NUMBERS:
        x = torch.ones(number, 2)
        expected = observe(store_everywhere, (x, plain), lambda: vars(plain))
        assert_same_facts(expected, observe(compiled, (x, other), lambda: vars(other)))
    assert len(compiled._firesteel_unit.entries) == 1


def test_logging(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("number_test")

    def f(x: torch.Tensor) -> torch.Tensor:
        n = x.size(0)
        logger.warning("%d rows, %s", n, f"{n / 2} pairs")
        return x + n

    compiled = fs.compile(f, backend="eager", fullgraph=True, dynamic=True)
    for number in NUMBERS:
        compiled(torch.ones(number, 2))
    assert [record.getMessage() for record in caplog.records] == [f"{n} rows, {n / 2} pairs" for n in NUMBERS]
    assert len(compiled._firesteel_unit.entries) == 1


def test_arguments_named_like_builtins() -> None:
    """Generated code uses min, type and the like under their own names."""
    def f(x: torch.Tensor, min: int, type: str, len: int = 3, math: Any = None) -> Any:
        return x.clamp(min, len), x.size(0) // 2, [min, len], type

    calls = [(torch.ones(number, 2), number, "a") for number in NUMBERS]
    assert compiled_over(f, calls, dynamic=True) == 1


DATA = [
    "u", "u + 1", "u * x.size(0)", "~u", "abs(u)", "u / 2", "2 * u // 3", "u % 4", "100 // u", "u ** 2", "u & 3",
    "min(u, 3)", "max(u, x.size(0))", "u == 3", "(u > 3) + 1", "bool(u)", "not u", "int(u / 2)", "math.sqrt(u)",
    "sum([u, 1])", "f'{u} or {u / 2:.1f}'", "print(u)", "[u, (u, 1)]", "(u, 1) == (u, 1)", "u is None", "u == None",
    "isinstance(u, int)", "range(u)", "len(range(u))", "u.real", "x * u", "torch.sym_ite(u > 3, u, 2)", "divmod(u, 3)",
    "round(u / 3)", "v + 1.5", "v * x", "int(v)", "math.floor(v)", "v > 1", "round(v, 1)", "math.exp(v)",
    "v.is_integer()",
]
NEEDS_DATA = ["u > 3 and u", "1 if u > 3 else 2", "u in (1, 2)", "[0] * u", "{u: 1}", "u.bit_length()",
              "sorted([u, 3])", "sum(range(u))", "hash(u)", "'%d' % u"]


def of_data(expression: str) -> Any:
    """A function of a tensor in which u and v are numbers that only its data tells."""
    scope = dict(NAMES)
    exec(f"def f(x):\n    u, v = x.sum().long().item(), x.mean().item()\n    return {expression}", scope)
    return scope["f"]


@pytest.mark.parametrize("expression", [*DATA, *NEEDS_DATA])
def test_numbers_from_data(expression: str) -> None:
    calls = [(torch.full((4,), value),) for value in (1.0, 2.0, 0.5)]
    assert compiled_over(of_data(expression), calls, fullgraph=expression in DATA) == 1


@pytest.mark.parametrize("expression", NEEDS_DATA)
def test_breaks_say_that_data_decides(expression: str) -> None:
    compiled = fs.compile(of_data(expression), backend="eager", fullgraph=True)
    with pytest.raises(GraphBreakError, match="depends on data"):
        compiled(torch.ones(4))
