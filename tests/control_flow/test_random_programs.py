"""Random small programs of control flow operators and Python branches, compiled, against eager."""

from __future__ import annotations

import random

import pytest
import torch

import firesteel as fs
from firesteel import config


class Maker:
    """Writes the text of a function of tensors of shape (3, 3)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expression(self, names: list[str]) -> str:
        a, b = self.random.choice(names), self.random.choice(names)
        return self.random.choice([f"{a} + {b}", f"({a} * 0.5).sin()", f"torch.tanh({a} @ w)", f"{a} - {b} * 0.25",
                                   f"torch.where({a} > 0, {a}, {b} * 0.1)", f"{a}.flip(0).t()", f"torch.relu({a}) + w"])

    def block(self, names: list[str], indent: str, depth: int, size: int) -> list[str]:
        """Statements that assign new names, all of shape (3, 3); ``names`` grows."""
        lines = []
        for _ in range(size):
            kind = self.random.choice(["plain", "plain", "cond", "scan", "map", "loop", "if"]) if depth else "plain"
            made = getattr(self, kind)(names, indent, depth)
            lines += made
        return lines

    def function(self, arguments: list[str], names: list[str], indent: str, depth: int,
                 returned: str) -> tuple[str, list[str]]:
        """A function; arguments that begin with "m" are of shape (3, 3) as well."""
        name = f"f{self.name()}"
        inner = [*names, *(argument for argument in arguments if argument[0] == "m")]
        body = self.block(inner, indent + "    ", depth - 1, self.random.randint(1, 2))
        return name, [f"{indent}def {name}({', '.join(arguments)}):", *body,
                      f"{indent}    return {returned.format(inner[-1])}"]

    def plain(self, names: list[str], indent: str, depth: int) -> list[str]:
        name = self.name()
        line = f"{indent}{name} = {self.expression(names)}"
        names.append(name)
        return [line]

    def condition(self, names: list[str]) -> str:
        return f"{self.random.choice(names)}.sum() > {self.random.choice(['0', '0.5', '-1'])}"

    def cond(self, names: list[str], indent: str, depth: int) -> list[str]:
        argument, name = "m" + self.name(), self.name()
        end = "({0} * 1.0).contiguous()"
        first, lines = self.function([argument], names, indent, depth, end)
        second, more = self.function([argument], names, indent, depth, end)
        call = f"{indent}{name} = fs.cond({self.condition(names)}, {first}, {second}, ({self.random.choice(names)},))"
        names.append(name)
        return [*lines, *more, call]

    def scan(self, names: list[str], indent: str, depth: int) -> list[str]:
        carry, x, last, ys = "m" + self.name(), self.name(), self.name(), self.name()
        body, lines = self.function([carry, x], names, indent, depth, f"({{0}} * 0.5) + {x}, {carry}.sum(0) * {x}")
        xs, first = self.random.choice(names), self.random.choice(names)
        reverse = self.random.choice([True, False])
        call = f"{indent}{last}, {ys} = fs.scan({body}, {first}, {xs}, reverse={reverse})"
        names += [last, ys]
        return [*lines, call]

    def map(self, names: list[str], indent: str, depth: int) -> list[str]:
        x, name = self.name(), self.name()
        body, lines = self.function([x], names, indent, depth, f"{{0}}.sum(0) + {x}")
        call = f"{indent}{name} = fs.map({body}, {self.random.choice(names)})"
        names.append(name)
        return [*lines, call]

    def loop(self, names: list[str], indent: str, depth: int) -> list[str]:
        i, x, name = self.name(), "m" + self.name(), self.name()
        body, lines = self.function([i, x], names, indent, depth, f"{i} + 1, torch.tanh({{0}} + {x})")
        call = (f"{indent}_, {name} = fs.while_loop(lambda i, x: i < {self.random.randint(0, 3)}, {body}, "
                f"(torch.zeros(()), {self.random.choice(names)}))")
        names.append(name)
        return [*lines, call]

    def __getattr__(self, name: str):
        if name == "if":
            return self.branch
        raise AttributeError(name)

    def branch(self, names: list[str], indent: str, depth: int) -> list[str]:
        name = self.name()
        ways = []
        for _ in range(2):
            inner = list(names)
            body = self.block(inner, indent + "    ", depth - 1, self.random.randint(0, 2))
            ways.append([*body, f"{indent}    {name} = {inner[-1]} * 1.0"])
        line = f"{indent}if {self.condition(names)}:"
        names.append(name)
        return [line, *ways[0], f"{indent}else:", *ways[1], f"{indent}{name} = {name}.contiguous()"]


def program(seed: int) -> str:
    maker = Maker(seed)
    names = ["x", "y"]
    lines = maker.block(names, "    ", 2, 4)
    return "\n".join(["def f(x, y, w):", *lines, f"    return {names[-1]} + 0.0, {names[-2]} * 1.0"])


@pytest.mark.parametrize("seed", range(10))
def test_random_program(seed):
    text = program(seed)
    scope = {"fs": fs, "torch": torch}
    exec(text, scope)
    f = scope["f"]
    backend = ["native", "aot_eager", "eager"][seed % 3]
    with config.patch(raise_on_internal_error=True):
        compiled = fs.compile(f, backend=backend, options={"capture_branches": True})
        generator = torch.Generator().manual_seed(seed)
        for sign in (1.0, -1.0):
            inputs = [(torch.randn(3, 3, generator=generator, dtype=torch.float64) + 0.3 * sign) for _ in range(3)]
            for needs in (False, True):
                given = [value.clone().requires_grad_(needs) for value in inputs]
                expected, found = f(*given), compiled(*given)
                torch.testing.assert_close(found, expected)
                if needs and any(part.requires_grad for part in expected):
                    gradients = [torch.autograd.grad(sum((part.sin().sum() for part in parts if part.requires_grad)),
                                                     given, allow_unused=True) for parts in (found, expected)]
                    for one, other in zip(*gradients, strict=True):
                        torch.testing.assert_close(one, torch.zeros_like(one) if other is None and one is not None
                                                   else other)
