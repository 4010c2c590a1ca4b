"""Programs whose graphs break inside of callees: of every form that Python calls (methods, properties, operators,
hooks, decorators, context managers, generators, sort keys…), nested in each other.
"""

from __future__ import annotations

from ..callees import FORMS, Form
from ..program import Program
from ..values import Dice

SAMPLE = 14
OPERATORS = (
    "t = t * 1.5 + 1", "t = torch.tanh(t)", "t = t - t.mean()", "t = torch.relu(t) + t", "t = t.abs().sqrt()",
    "t = t / t.shape[0]",
)  # fmt: skip
BREAKS = {
    "marked": ["fs.graph_break()"],
    "branch": ["if t.sum() > 0.25:", "    t = torch.cos(t)", "else:", "    t = t - 1"],
    "printed": ["print((t > 0.01).sum())"],  # not 0: numbers less their mean may all be rounding errors
    "opaque": ["t = t + len(hashlib.md5(b'x').digest())"],
}
HEAD = (
    "import collections", "import contextlib", "import contextvars", "import dataclasses", "import functools",
    "import hashlib", "import itertools", "import operator", "import types", "import torch",
    "import torch.utils.checkpoint", "import firesteel as fs", "torch.manual_seed(5)",
    "nets = types.ModuleType('nets')", "counts = []",
)  # fmt: skip


class Writer:
    """Definitions of nested callees, innermost first."""

    def __init__(self, dice: Dice, depth: int) -> None:
        self.dice = dice
        self.depth = depth
        self.lines: list[str] = []
        self.forms: list[str] = []

    def body(self, depth: int) -> list[str]:
        """Statements on `t`, at the innermost depth with a break among them."""
        dice = self.dice
        lines = [dice.choice(OPERATORS) for _ in range(dice.between(1, 2))]
        if dice.chance(0.06):
            lines.append("counts.append(t.shape[0])")
        if depth < self.depth:
            lines.append(f"t = {self.callee(dice.choice(FORMS), depth + 1)}")
        if depth == self.depth or dice.chance(0.25):
            lines += BREAKS[dice.choice(sorted(BREAKS))]
        if depth < self.depth and dice.chance(0.2):
            lines.append(f"t = {self.callee(dice.choice(FORMS), self.depth)}")
        return [*lines, *(dice.choice(OPERATORS) for _ in range(dice.between(1, 2)))]

    def callee(self, form: Form, depth: int) -> str:
        """The expression that calls a new callee with `t`."""
        body = self.body(depth)
        number = len(self.forms)
        self.forms.append(form.name)
        self.lines += form.define(number, body)
        return form.call(number, "t")


def written(definitions: list[str], body: list[str]) -> str:
    """The source of a program."""
    return "\n".join([
        *HEAD, "", *definitions, "", "", "def fn(t):", *(f"    {line}" for line in body), "    return t", "", "",
        "def make():", "    torch.manual_seed(3)",
        "    calls = [(((torch.randn(3) + shift).requires_grad_(),), {}) for shift in (0.0, 1.0, -1.0, 0.5)]",
        "    return fn, calls, lambda index: None, lambda: {}", "",
    ])  # fmt: skip


def generate(seed: int) -> Program:
    """The program of this seed."""
    dice = Dice(seed)
    writer = Writer(dice, dice.weighted(((2, 1), (4, 2), (2, 3))))
    return Program(seed, written(writer.lines, writer.body(0)))


def alone(form: Form, kind: str) -> Program:
    """A form with one break in it, between operators of its own and of its caller's."""
    body = ["t = t * 1.5 + 1", *BREAKS[kind], "t = torch.tanh(t)"]
    caller = ["t = torch.relu(t) + t", f"t = {form.call(0, 't')}", "t = t - t.mean()"]
    return Program(0, written(form.define(0, body), caller))
