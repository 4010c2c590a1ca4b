"""Shape contracts of export against brute force: is a declaration accepted exactly when the program is valid on it?"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from firesteel.errors import FiresteelError
from firesteel.export import Dim, export
from firesteel.export.constraints import ConstraintViolationError
from firesteel.export.errors import InputMismatchError
from firesteel.export.suggested_fixes import refine_dynamic_shapes_from_suggested_fixes

LIMIT = 24
"""The greatest size tried where a range has no end."""


@dataclass
class Pair:
    """A program and what is declared of its inputs."""

    seed: int
    text: str
    module: torch.nn.Module
    roots: dict[str, Dim]
    specs: list[list[Any]]
    """For each input and dimension: a Dim, Dim.AUTO, or a number."""
    example: dict[str, int]

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(len(self.specs))]

    @property
    def dynamic_shapes(self) -> dict[str, Any]:
        return dict(zip(self.names, [tuple(spec) for spec in self.specs], strict=True))


@dataclass
class Outcome:
    """What a pair showed; `problems` is empty when export is exact."""

    accepted: bool = False
    valid: bool = False
    gates: int = 0
    problems: list[str] = field(default_factory=list)


# Making programs


class _Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        r = self.random
        self.roots: dict[str, Dim] = {}
        for name in ("a", "b", "c")[: r.randint(1, 3)]:
            low = r.choice([None, 2, 2, 3, 4])
            high = None if r.random() < 0.25 else (low or 2) + r.randint(1, 6)
            self.roots[name] = Dim(name, min=low, max=high)
        self.bounded = all(dim.max is not None for dim in self.roots.values())
        self.example = {name: r.randint(max(dim.min, 2), min(dim.max or 9, 9)) for name, dim in self.roots.items()}
        self.specs: list[list[Any]] = []
        self.free: list[tuple[int, int]] = []

    def declaration(self) -> Any:
        r = self.random
        root = self.roots[r.choice(list(self.roots))]
        match r.randint(0, 9):
            case 0:
                return 2 * root
            case 1:
                return root + r.randint(1, 2)
            case 2:
                return 2 * root + 1
            case 3:
                return r.randint(2, 6)
            case _:
                return root

    def size(self) -> tuple[str, int]:
        """A size of an input: its text and its value in the example."""
        i = self.random.randrange(len(self.specs))
        j = self.random.randrange(len(self.specs[i]))
        return f"x{i}.shape[{j}]", self.value(self.specs[i][j])

    def value(self, spec: Any) -> int:
        return spec.size_for(self.example[spec.root.name]) if isinstance(spec, Dim) else int(spec)

    def condition(self) -> str:
        """A condition that holds in the example."""
        r = self.random
        (s, m), (t, n) = self.size(), self.size()
        kinds = ["bound", "bound", "equal", "order", "remainder", "quotient", "differs"]
        if self.bounded:
            kinds += ["product", "square"]
        match r.choice(kinds):
            case "bound":
                k = r.randint(0, 4)
                return r.choice([f"{s} >= {m - k}", f"{s} <= {m + k}", f"{s} > {m - k - 1}", f"{s} < {m + k + 1}"])
            case "equal":
                factor = r.choice([1, 1, 2])
                return f"{factor}*{s} == {t} {'+' if factor * m >= n else '-'} {abs(factor * m - n)}"
            case "order":
                return f"{s} {'>=' if m >= n else '<'} {t}"
            case "remainder":
                d = r.randint(2, 4)
                return f"({s} + {t}) % {d} == {(m + n) % d}" if r.random() < 0.3 else f"{s} % {d} == {m % d}"
            case "quotient":
                d = r.randint(2, 3)
                return f"{s} // {d} >= {m // d - r.randint(0, 1)}"
            case "differs":
                return f"{s} != {m + r.choice([-3, -1, 1, 2, 50 if self.bounded else 4])}"
            case "product":
                return f"{s} * {t} {r.choice(['<=', '>=', '=='])} {m * n}"
            case _:
                k = m * m + r.randint(0, 30)
                return f"{s} * {s} <= {k}"

    def step(self) -> list[str]:
        r = self.random
        i, k = r.randrange(len(self.specs)), r.randrange(len(self.specs))
        x, y = f"x{i}", f"x{k}"
        first = self.value(self.specs[i][0])
        match r.randint(0, 8):
            case 0 | 1:
                return [f"assert {self.condition()}"]
            case 2:
                return [f"torch._check({self.condition()})"]
            case 3 | 4:
                return [f"if {self.condition()}:", f"    out = out + {x}.sum()", "    path = path * 2 + 1", "else:",
                        f"    out = out - {x}.mean()", "    path = path * 2"]
            case 5:
                d = r.choice([d for d in range(1, 5) if first % d == 0])
                return [f"out = out + {x}.reshape({d}, -1).sum(0).mean()"]
            case 6:
                rows = f"{_rows(x, self.specs[i])}, {_rows(y, self.specs[k])}"
                if self.value(self.specs[i][0]) == self.value(self.specs[k][0]):
                    return [f"out = out + ({x}.flatten(1).sum(1) * {y}.flatten(1).sum(1)).sum()"
                            if len(self.specs[i]) > 1 and len(self.specs[k]) > 1
                            else f"out = out + torch.stack([{rows}]).sum()"]
                return [f"out = out + torch.cat([{rows}]).mean()"]
            case 7:
                return [f"out = out + {x}.narrow(0, {r.randint(0, 1)}, {r.randint(1, first - 1)}).sum()"]
            case _:
                return [f"out = out + torch.outer({_rows(x, self.specs[i])}, {_rows(y, self.specs[k])}).mean()"]

    def make(self, seed: int) -> Pair:
        r = self.random
        for _ in range(r.randint(1, 3)):
            self.specs.append([self.declaration() for _ in range(r.randint(1, 2))])
        lines = [line for _ in range(r.randint(1, 3)) for line in self.step()]
        names = ", ".join(f"x{i}" for i in range(len(self.specs)))
        text = "\n".join([f"def forward(self, {names}):", "    out, path = x0.sum(), 0", *("    " + ln for ln in lines),
                          "    return out, path"])
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(text, f"<contract {seed}>", "exec"), scope)
        kind = type("Program", (torch.nn.Module,), {"forward": scope["forward"]})
        specs = [[Dim.AUTO if isinstance(spec, Dim) and not spec.is_derived and r.random() < 0.2 else spec
                  for spec in one] for one in self.specs]
        used = {spec.root.name for one in specs for spec in one if isinstance(spec, Dim)}
        self.sizes = [[self.value(spec) for spec in one] for one in self.specs]
        return Pair(seed, text, kind(), {name: dim for name, dim in self.roots.items() if name in used}, specs,
                    self.example)


def _rows(x: str, spec: list[Any]) -> str:
    return x if len(spec) == 1 else f"{x}.sum(1)"


def pair(seed: int) -> Pair:
    """The program and declaration of a seed."""
    maker = _Maker(seed)
    made = maker.make(seed)
    made.example = {**made.example, "sizes": maker.sizes}  # type: ignore[dict-item]
    return made


# Trying all sizes


def run(module: Any, sizes: list[list[int]]) -> Any:
    """The result of a program for some sizes, or the type of its error."""
    generator = torch.Generator().manual_seed(sum(sum(one) for one in sizes))
    inputs = [torch.rand(*one, generator=generator) for one in sizes]
    try:
        return module(*inputs)
    except InputMismatchError:
        raise
    except Exception as error:
        return type(error)


def declared_sizes(case: Pair, specs: list[list[Any]], roots: dict[str, Dim]) -> Iterator[list[list[int]]]:
    """All sizes that fit a declaration; a dimension under AUTO has every size from 2 on."""
    names = list(roots)
    automatic = [(i, j) for i, one in enumerate(specs) for j, spec in enumerate(one) if spec is Dim.AUTO]
    most = (LIMIT, LIMIT, 14, 7, 5, 4)[min(len(names) + len(automatic), 5)]
    ranges = [range(max(dim.min, 2), (most if dim.max is None else dim.max) + 1) for dim in roots.values()]
    ranges += [range(2, most + 1)] * len(automatic)
    for values in itertools.product(*ranges):
        by_name = dict(zip(names, values[: len(names)], strict=True))
        free = dict(zip(automatic, values[len(names):], strict=True))
        yield [[free[i, j] if spec is Dim.AUTO else
                spec.size_for(by_name[spec.root.name]) if isinstance(spec, Dim) else spec
                for j, spec in enumerate(one)] for i, one in enumerate(specs)]


def is_valid_on(case: Pair, sizes: list[list[int]], path: int) -> bool:
    """Whether the program runs on some sizes, on the path of the example."""
    result = run(case.module, sizes)
    return isinstance(result, tuple) and result[1] == path


def roots_of(specs: list[list[Any]]) -> dict[str, Dim]:
    """The named dims of a declaration."""
    return {spec.root.name: spec.root for one in specs for spec in one if isinstance(spec, Dim)}


def check(case: Pair, strict: bool = True) -> Outcome:
    """Compare export with brute force on one pair."""
    outcome = Outcome()
    example: Any = case.example["sizes"]
    inputs = tuple(torch.rand(*one) for one in example)
    path = case.module(*inputs)[1]
    named_only = all(spec is not Dim.AUTO for one in case.specs for spec in one)
    if named_only:
        outcome.valid = all(is_valid_on(case, sizes, path) for sizes in declared_sizes(case, case.specs, case.roots))
    spec = case.dynamic_shapes
    try:
        program = export(case.module, inputs, dynamic_shapes=spec, strict=strict)
        outcome.accepted = True
    except ConstraintViolationError as error:
        if named_only and outcome.valid:
            outcome.problems.append(f"refused although valid: {error}")
        if not error.conflicts or not error.fixes:
            outcome.problems.append(f"no cause or no fix: {error}")
            return outcome
        spec = refine_dynamic_shapes_from_suggested_fixes(str(error), spec)
        try:
            program = export(case.module, inputs, dynamic_shapes=spec, strict=strict)
        except FiresteelError as second:
            outcome.problems.append(f"the fixes {error.fixes} do not help: {second}")
            return outcome
    if outcome.accepted and named_only and not outcome.valid:
        outcome.problems.append("accepted although not valid")
    specs = [list(one) for one in spec.values()]
    module = program.module()
    for sizes in declared_sizes(case, specs, roots_of(specs)):
        outcome.gates += 1
        wanted = is_valid_on(case, sizes, path)
        try:
            result = run(module, sizes)
        except InputMismatchError:
            if wanted:
                outcome.problems.append(f"the program does not take {sizes}, on which it is valid")
                break
            continue
        if not wanted:
            outcome.problems.append(f"the program takes {sizes}, on which it is not valid")
            break
        expected = run(case.module, sizes)
        if not isinstance(result, tuple) or result[1] != path or not torch.allclose(result[0], expected[0]):
            outcome.problems.append(f"another result on {sizes}: {result}, eager {expected}")
            break
    return outcome
