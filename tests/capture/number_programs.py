"""Random programs over integers: arithmetic, comparisons, branches, small loops.

A program is the source of a function ``f(a, b)`` of two numbers. It may raise (a division by zero), which is part of
what it does.
"""

from __future__ import annotations

import random

INTS = (-5, -2, -1, 0, 1, 2, 3, 4, 7, 10, 64)


class Generator:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["a", "b"]
        self.lines: list[str] = []

    def program(self) -> str:
        """The source text."""
        self.block("    ", self.random.randint(2, 6), depth=0)
        return "\n".join(["def f(a, b):", *self.lines, f"    return ({', '.join(self.names)},)"]) + "\n"

    def block(self, indent: str, count: int, depth: int) -> None:
        """Some statements; what is first assigned in a branch is not known after it."""
        for _ in range(count):
            kind = self.random.random()
            if depth < 2 and kind < 0.2:
                self.branch(indent, depth)
            elif depth < 2 and kind < 0.27:
                self.loop(indent, depth)
            elif kind < 0.4:
                name = self.random.choice(self.names)
                sign = self.random.choice(["+", "-", "*", "//", "%"])
                self.lines.append(f"{indent}{name} {sign}= {self.expression(2)}")
            else:
                name = f"v{len(self.names)}"
                self.lines.append(f"{indent}{name} = {self.expression(3)}")
                if depth == 0:
                    self.names.append(name)

    def branch(self, indent: str, depth: int) -> None:
        """``if ... else``."""
        self.lines.append(f"{indent}if {self.condition(2)}:")
        self.block(indent + "    ", self.random.randint(1, 2), depth + 1)
        if self.random.random() < 0.6:
            self.lines.append(f"{indent}else:")
            self.block(indent + "    ", self.random.randint(1, 2), depth + 1)

    def loop(self, indent: str, depth: int) -> None:
        """A loop of few rounds; the numbers are cut, so that they do not grow beyond measure."""
        rounds = self.random.choice(["range(3)", f"range({self.name()} % 4)", f"({self.name()}, 2, {self.name()})"])
        self.lines.append(f"{indent}for i{depth} in {rounds}:")
        name = self.name()
        self.lines.append(f"{indent}    {name} = ({name} + {self.expression(1)}) % 1009")

    def name(self) -> str:
        return self.random.choice(self.names)

    def atom(self) -> str:
        return self.name() if self.random.random() < 0.7 else str(self.random.choice(INTS))

    def expression(self, depth: int) -> str:
        """An expression, mostly of integers."""
        if depth == 0 or self.random.random() < 0.1:
            return self.atom()
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        kind = self.random.random()
        if kind < 0.5:
            return f"({one} {self.random.choice(['+', '-', '*', '//', '%', '+', '-'])} {two})"
        if kind < 0.58:
            return f"{self.random.choice(['min', 'max'])}({one}, {two})"
        if kind < 0.64:
            return f"{self.random.choice(['abs', '-', '+', 'int', 'round'])}({one})"
        if kind < 0.70:
            return f"({one} if {self.condition(1)} else {two})"
        if kind < 0.75:
            return f"int({self.condition(1)})"
        if kind < 0.80:
            return f"({self.condition(1)} + {one})"
        if kind < 0.84:
            return f"(({one}) % 50) ** {self.random.choice([0, 1, 2, 3])}"
        if kind < 0.88:
            return f"int(({one}) % 1000 / {self.random.choice(INTS)})"
        if kind < 0.92:
            return f"(({one}) {self.random.choice(['&', '|', '^'])} ({two}))"
        if kind < 0.95:
            return f"(({one}) {self.random.choice(['<<', '>>'])} {self.random.choice([0, 1, 3])})"
        return f"sum(({one}, {two}, {self.atom()}))"

    def condition(self, depth: int) -> str:
        """A truth value."""
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        kind = self.random.random()
        if kind < 0.6 or depth <= 1:
            return f"({one} {self.random.choice(['<', '<=', '>', '>=', '==', '!='])} {two})"
        if kind < 0.7:
            return f"({one} < {two} <= {self.atom()})"
        if kind < 0.8:
            return f"(not {self.condition(depth - 1)})"
        if kind < 0.9:
            return f"({self.condition(depth - 1)} {self.random.choice(['and', 'or'])} {self.condition(depth - 1)})"
        return f"({one} in ({two}, {self.atom()}, 3))"
