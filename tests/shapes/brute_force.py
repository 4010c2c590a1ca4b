"""Decisions about symbolic sizes against brute force over small integers: wrong answers, completeness and time.

A case is a box of small integers for three symbols, some assumptions that hold somewhere in it, and questions. What
Python computes over all points of the box that satisfy the assumptions is the truth. Symbols are declared with exactly
the box's bounds, or without an upper bound; then an answer that is constant over the box may rightly be unknown.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from firesteel import shapes
from firesteel.shapes.parsing import ParseError, parse

NAMES = ("s0", "s1", "s2")
Point = tuple[int, ...]
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
UNDEFINED = object()

# What tensor programs ask, each with near misses beside it in other draws of the same template.
IDIOMS = (
    "{a}*{b} % {k} == 0",
    "({a} + {j})//{k} >= {j}",
    "({k}*{a})//{k} == {a}",
    "max({j}, {a}) == {a}",
    "{k}*({a}//{k}) <= {a}",
    "min({a}, {b}) <= {a}",
    "{a}//{k}*{k} == {a}",
    "{k}*({a}//{k}) + {a} % {k} == {a}",
    "{b}*({a}//{b}) + {a} % {b} == {a}",
    "{b}*({a}//{b}) <= {a}",
    "{a} % {b} < {b}",
    "({a}*{b} + {c} % {b})//{b} == {a}",
    "({a} + {k} - 1)//{k}*{k} >= {a}",
    "({a} + {b})//{k} >= {a}//{k}",
    "min({a}, {b}) + max({a}, {b}) == {a} + {b}",
    "min({a} + {j}, {b} + {j}) >= min({a}, {b})",
    "{a}*{b}*{c} >= {a}*{c}",
    "{a}*{b} == {c}*{b}",
    "{a}*{b} != 0",
    "{k}*{a}*{b} % ({b}*{k}) == 0",
    "({a} - {j} + 2*{k})//2 + 1 >= {k}",
    "({a}//{k})*{k} == {a} or {a} % {k} != 0",
    "{a} == 1 or {a} >= 2",
    "max({a} - {j}, 0) <= {a}",
    "{a}/{k} >= {j}",
    "{a}*{b}//{k} >= {b}*({a}//{k})",
    "{a} + {b} > {a} and {b} >= 0",
    "({k}*{a} + {b} % {k})//{k} == {a}",
    "({k}*{a} + {b} % {k}) % {k} == {b} % {k}",
)


class Texts:
    """Random Python source: integers, floats and conditions over the symbols."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, *options: Callable[[], str]) -> str:
        return self.rng.choice(options)()

    def name(self) -> str:
        return self.rng.choice(NAMES)

    def number(self, depth: int = 2) -> str:
        """An integer expression."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            return self.name() if rng.random() < 0.8 else str(rng.randint(-4, 9))

        def part() -> str:
            return self.number(depth - 1)

        def divisor() -> str:
            return str(rng.choice([2, 3, 4, 6, 8, -2])) if rng.random() < 0.75 else self.name()

        return self.pick(
            lambda: f"({part()} + {part()})",
            lambda: f"({part()} - {part()})",
            lambda: f"({rng.randint(-4, 4)}*{part()} + {part()})",
            lambda: f"{part()}*{part()}",
            lambda: f"({part()}//{divisor()})",
            lambda: f"({part()} % {divisor()})",
            lambda: f"min({part()}, {part()})",
            lambda: f"max({part()}, {part()})",
            lambda: f"abs({part()})",
            lambda: f"({part()})**{rng.choice([2, 3])}",
            lambda: f"({part()} if {self.comparison(1)} else {part()})",
            lambda: f"math.ceil({part()}/{rng.choice([2, 3, 4])})",
            lambda: f"int({part()}/{rng.choice([2, 4])})",
        )

    def linear(self) -> str:
        """A sum of small multiples of symbols and of divisions, products, min and max of them."""
        rng = self.rng
        k = rng.choice([2, 3, 4, 6, 8])
        a, b = self.name(), self.name()
        atoms = [a, a, a, a, f"{a}*{b}", f"({a}//{k})", f"({a} % {k})", f"(({a} + {b})//{k})", f"min({a}, {b})"]
        atoms += [f"(({b} + 2*{a}) % {k})", f"max({a}, {k})", f"({a}//{b})", f"({a} % {b})", f"{a}*({b}//{k})"]
        terms = [f"{rng.choice([-3, -2, -1, 1, 1, 1, 2, 3])}*{rng.choice(atoms)}" for _ in range(rng.choice([1, 2, 3]))]
        return " + ".join(terms)

    def real(self) -> str:
        """A float expression."""
        first = f"{self.number(1)}/{self.rng.choice(['2', '4', '0.5', self.name()])}"
        return first if self.rng.random() < 0.6 else f"({first} {self.rng.choice('+-*')} {self.number(1)})"

    def comparison(self, depth: int = 2) -> str:
        sign = self.rng.choice(COMPARISONS)
        if self.rng.random() < 0.15:
            return f"{self.real()} {sign} {self.rng.choice([self.number(1), self.real(), '1.5', '2.0'])}"
        if self.rng.random() < 0.5:
            return f"{self.linear()} {sign} {self.rng.randint(-3, 12)}"
        return f"{self.number(depth)} {sign} {self.number(depth - 1)}"

    def condition(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.6:
            return self.comparison()
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        return self.rng.choice([f"({a} and {b})", f"({a} or {b})", f"(not ({a}))"])

    def idiom(self) -> str:
        values = {name: self.name() for name in "abc"}
        return self.rng.choice(IDIOMS).format(k=self.rng.choice([2, 3, 4, 8]), j=self.rng.randint(0, 3), **values)

    def assumption(self) -> str:
        """A condition of the kinds that programs state and guards record."""
        rng = self.rng
        k = rng.choice([2, 3, 4, 6, 8])
        return self.pick(
            lambda: f"{self.name()} % {k} == {rng.choice([0, 0, rng.randrange(k)])}",
            lambda: f"({self.linear()}) % {k} == {rng.choice([0, rng.randrange(k)])}",
            lambda: f"{self.name()} == {self.linear()}",
            lambda: f"{self.name()} == {self.name()}",
            lambda: f"{self.name()} {rng.choice(COMPARISONS)} {rng.randint(0, 6)}",
            lambda: f"{self.linear()} {rng.choice(COMPARISONS)} {self.linear()}",
            lambda: f"{self.name()} {rng.choice(COMPARISONS)} {self.name()} + {rng.randint(-2, 2)}",
            self.condition,
        )


def python_function(text: str) -> Callable[..., Any]:
    """The text as a function of the symbols' values; UNDEFINED where Python raises."""
    import math

    function = eval(f"lambda {', '.join(NAMES)}: {text}", {"math": math})

    def value(point: Point) -> Any:
        try:
            return function(*point)
        except (ZeroDivisionError, OverflowError, ValueError):
            return UNDEFINED

    return value


@dataclass
class Situation:
    """Declared symbols and assumptions, and the points where they hold."""

    env: shapes.ShapeEnv
    points: list[Point]
    bounded: bool
    assumptions: list[str]
    symbols: list[shapes.Symbol]

    def expr(self, text: str) -> shapes.Expr | None:
        """The text as an expression; None where a part of it is a constant division by zero."""
        try:
            return parse(text, dict(zip(NAMES, self.symbols, strict=True)))
        except ParseError as error:
            if "zero" in str(error) or "nan" in str(error).lower() or "one kind" in str(error):
                return None
            raise

    def __str__(self) -> str:
        declared = ", ".join(f"{info.source_name} in [{info.interval.lower}, {info.interval.upper}]"
                             for info in self.env.symbols.values())
        return f"{declared}; {'; '.join(self.assumptions) or 'no assumptions'}"


def random_situation(rng: random.Random, texts: Texts) -> Situation:
    env = shapes.ShapeEnv()
    low, width, bounded = rng.choice([-3, 0, 1, 2, 2, 2]), rng.choice([2, 4, 6]), rng.random() < 0.6
    points: list[Point] = list(itertools.product(range(low, low + width + 1), repeat=len(NAMES)))
    witness = rng.choice(points)
    symbols = []
    for name, value in zip(NAMES, witness, strict=True):
        upper = {"upper": low + width} if bounded else {}
        symbols.append(env.new_symbol(value if rng.random() < 0.6 else None, name, lower=low, **upper))
    situation = Situation(env, points, bounded, [], symbols)
    for _ in range(rng.choice([0, 1, 1, 2, 3, 4])):
        text = texts.assumption()
        function = python_function(text)
        value = function(witness)
        if value is UNDEFINED:
            continue
        if value is False:
            text = f"not ({text})"
            function = python_function(text)
        expr = situation.expr(text)
        if expr is None:
            continue
        situation.points = [point for point in situation.points if function(point) is True]
        situation.assumptions.append(text)
        env.assume(expr)  # a ContradictionError would be a wrong answer: the witness satisfies everything
    return situation


def at_the_edge(text: str, situation: Situation, rng: random.Random) -> str:
    """The number compared with the smallest or largest value that it takes, where the answer turns."""
    function = python_function(text)
    values = [value for point in situation.points if (value := function(point)) is not UNDEFINED]
    if not values:
        return f"{text} >= 0"
    low, high = min(values), max(values)
    options = [f">= {low}", f"<= {high}", f"< {low}", f"> {high}", f"!= {high + 1}", f"== {low - 1}"]
    options += [f">= {low + 1}", f"== {low}", f"!= {high}"]
    return f"{text} {rng.choice(options)}"


@dataclass
class Tally:
    """What came of the questions."""

    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    constant: Counter[str] = field(default_factory=Counter)
    """Questions in bounded boxes with one answer everywhere: a complete procedure would find all of them."""
    missed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    numbers: int = 0
    guard_sets: int = 0
    guards_recorded: int = 0
    guards_kept: int = 0

    @property
    def questions(self) -> int:
        return sum(self.answers.values())


def ask(situation: Situation, text: str, kind: str, tally: Tally) -> None:
    """Decide the condition and compare with brute force."""
    expr = situation.expr(text)
    if expr is None:
        return
    function = python_function(text)
    values = [value for point in situation.points if (value := function(point)) is not UNDEFINED]
    start = time.perf_counter()
    decided = situation.env.decide(expr)
    tally.seconds += time.perf_counter() - start
    possible = set(values)
    tally.answers[{True: "true", False: "false", None: "unknown"}[decided]] += 1
    if decided is not None and possible - {decided}:
        tally.wrong.append(f"{text}: {decided} [{situation}]")
    if situation.bounded and len(possible) == 1:
        tally.constant[kind] += 1
        if decided is None:
            tally.missed.append(f"{kind}: {text} is {values[0]} [{situation}]")
    check_rewrites(situation, text, expr, function, tally)


def check_rewrites(
    situation: Situation, text: str, expr: shapes.Expr, function: Callable[..., Any], tally: Tally
) -> None:
    """Simplified and replaced forms have the same value; the interval holds it."""
    env = situation.env
    forms = {"simplify": env.simplify(expr), "replace": env.replace(expr)}
    interval = env.interval(expr)
    tally.numbers += 1
    for point in situation.points:
        value = function(point)
        if value is UNDEFINED:
            continue
        values = dict(zip(situation.symbols, point, strict=True))
        if value not in interval:
            tally.wrong.append(f"{text} is {value} at {point}, outside {interval} [{situation}]")
            return
        for name, form in forms.items():
            if (found := form.evaluate(values)) != value and not (found != found and value != value):
                tally.wrong.append(f"{name}({text}) = {form} is {found} at {point}, not {value} [{situation}]")
                return


def check_guards(rng: random.Random, texts: Texts, tally: Tally) -> None:
    """Ask questions on hints: the guards and promised bounds must hold exactly where all answers are the same."""
    env = shapes.ShapeEnv()
    low = rng.choice([0, 1, 2, 2, 2])
    high = 7
    witness = tuple(rng.randint(low, high) for _ in NAMES)
    upper = {"upper": high} if rng.random() < 0.3 else {}
    symbols = [env.new_symbol(value, name, lower=low, **upper) for name, value in zip(NAMES, witness, strict=True)]
    situation = Situation(env, [], bool(upper), [], symbols)
    asked: list[tuple[Callable[..., Any], Any]] = []
    for _ in range(rng.randint(1, 6)):
        text = texts.pick(texts.assumption, texts.condition, texts.idiom, lambda: texts.number(1), texts.linear)
        function = python_function(text)
        expr = situation.expr(text)
        if expr is None or (value := function(witness)) is UNDEFINED:
            continue
        situation.assumptions.append(text)
        answer = env.evaluate(expr)
        if answer != value:
            tally.wrong.append(f"evaluate({text}) = {answer}, not {value} [{situation}]")
        asked.append((function, value))
    code = [shapes.print_python(guard.expr, {s: s.name for s in symbols})
            for guard in [*env.assumptions(), *env.guards]]
    passes = _guard_function(code)
    tally.guard_sets += 1
    tally.guards_recorded += len(asked)
    tally.guards_kept += len(env.guards)
    for point in itertools.product(range(0, high + 3), repeat=len(NAMES)):
        promised = all(low <= value <= (high if upper else value) for value in point)
        answers = [function(point) for function, _ in asked] if promised else []
        if UNDEFINED in answers:
            continue
        same = promised and all(a == b for a, (_, b) in zip(answers, asked, strict=True))
        passed = passes(point)
        if passed is None and any(word in line for line in code for word in (" or ", " if ")):
            continue  # it raises only when conditions are looked at in another order than the program did: a miss
        if passed is not same:
            tally.wrong.append(f"guards {code} are {passed} at {point}, where answers "
                               f"{'stay' if same else 'change'} [{situation}]")
            return


def _guard_function(code: Sequence[str]) -> Callable[[Point], bool | None]:
    import math

    lines = "".join(f"    if not ({line}): return False\n" for line in code)
    namespace: dict[str, Any] = {"math": math}
    exec(f"def passes({', '.join(NAMES)}):\n{lines}    return True", namespace)

    def passes(point: Point) -> bool | None:
        try:
            return bool(namespace["passes"](*point))
        except ArithmeticError:
            return None

    return passes


def run(count: int, seed: int) -> Tally:
    """At least `count` questions."""
    rng = random.Random(seed)
    texts = Texts(rng)
    tally = Tally()
    while tally.questions < count:
        try:
            situation = random_situation(rng, texts)
        except shapes.ContradictionError as error:
            tally.wrong.append(f"a contradiction where there is none: {error}")
            continue
        for _ in range(2):
            ask(situation, texts.idiom(), "idiom", tally)
            ask(situation, texts.condition(), "random", tally)
            number = texts.linear() if rng.random() < 0.6 else texts.number()
            ask(situation, at_the_edge(number, situation, rng), "edge", tally)
        check_guards(rng, texts, tally)
    return tally
