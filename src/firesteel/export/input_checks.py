"""Checks of calls against the shape contract of a program: one fast test, and a slow search for what to say.

    def fits(x, y):
        return isinstance(x, Tensor) and x.dtype is float32 and x.dim() == 2 and x.size(1) == 4 and ... and 2 <= s0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import UserFrame
from ..shapes import Expr, Symbol
from ..shapes.polynomials import parts
from ..shapes.printing import print_python
from ..shapes.symnode import expr_of
from .errors import InputMismatchError
from .lifting import PLAIN, same_constant
from .pre_dispatch import is_opaque
from .program import ExportedProgram
from .ranges import ValueRanges
from .signature import ConstantArgument, InputKind


@dataclass(frozen=True)
class Condition:
    """One condition in two forms: text over the inputs' names, and what to say when it does not hold."""

    text: str
    complaint: Callable[[dict[str, Any]], str]
    frames: tuple[UserFrame, ...] = ()
    """Where the program relies on it, outermost call first."""


@dataclass
class InputChecks:
    """All conditions on the inputs of a program, in an order in which each may rely on those before it."""

    names: list[str]
    conditions: list[Condition] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=lambda: {"math": math})

    def function(self) -> Callable[..., bool]:
        """``fits(*flat_inputs)``."""
        lines = [f"def fits({', '.join(self.names)}):"]
        lines += [f"    if not ({condition.text}): return False" for condition in self.conditions]
        lines.append("    return True")
        scope = dict(self.scope)
        exec(compile("\n".join(lines), "<firesteel input checks>", "exec", dont_inherit=True), scope)
        fits: Callable[..., bool] = scope["fits"]
        return fits

    def complain(self, values: Sequence[Any]) -> None:
        """Raise an error that says what is wrong with the inputs."""
        local = dict(zip(self.names, values, strict=True))
        scope = {**self.scope, **local}
        for condition in self.conditions:
            if not eval(condition.text, scope):
                raise InputMismatchError(condition.complaint(scope), None, condition.frames)


def input_checks(program: ExportedProgram, paths: Sequence[str]) -> InputChecks:
    """The checks of a program's user inputs; ``paths`` say where each is in a call."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    checks = InputChecks([f"_{position}" for position in range(len(specs))])
    checks.scope["Tensor"] = torch.Tensor
    sizes: list[tuple[str, str, Any]] = []
    for name, path, spec in zip(checks.names, paths, specs, strict=True):
        value = placeholders[spec.arg.name].meta["val"]
        if isinstance(spec.arg, ConstantArgument) and is_opaque(value) and placeholders[spec.arg.name].users:
            _check_class(checks, name, path, type(value))
        elif isinstance(spec.arg, ConstantArgument):
            _check_constant(checks, name, path, spec.arg.value)
        elif isinstance(value, torch.Tensor):
            _check_tensor(checks, name, path, value)
            sizes += [(f"{name}.size({dim})", f"{path}.shape[{dim}]", size) for dim, size in enumerate(value.shape)]
        else:
            _check_number(checks, name, path, isinstance(value, torch.SymFloat))
            sizes.append((name, path, value))
    _check_sizes(checks, sizes, program)
    return checks


def _check_number(checks: InputChecks, name: str, path: str, is_float: bool) -> None:
    condition, wanted = f"type({name}) is int", "an integer"
    if is_float:  # zeros, infinities and NaN have rules of their own, which the program was not traced for
        condition, wanted = f"type({name}) is float and {name} - {name} == 0.0 != {name}", "a finite float other than 0"
    checks.conditions.append(Condition(
        condition, lambda scope: f"the input {path} must be {wanted}, but is {scope[name]!r}"))


def _check_class(checks: InputChecks, name: str, path: str, kind: type) -> None:
    """An object that operators take may be another one of its class."""
    checks.scope[f"{name}_type"] = kind
    checks.conditions.append(Condition(
        f"type({name}) is {name}_type",
        lambda scope: f"the input {path} must be a {kind.__qualname__}, but is a {type(scope[name]).__qualname__}"))


def _check_constant(checks: InputChecks, name: str, path: str, value: Any) -> None:
    checks.scope[f"{name}_value"] = value
    kind = f"{name}_type"
    checks.scope[kind] = type(value)
    condition = f"type({name}) is {kind} and {name} == {name}_value"
    if not isinstance(value, PLAIN):
        checks.scope["same_constant"] = same_constant
        condition = f"same_constant({name}, {name}_value)"
    checks.conditions.append(Condition(
        condition,
        lambda scope: f"the input {path} must be {value!r}, as it was when the program was exported, but is "
                      f"{scope[name]!r}"))


def _check_tensor(checks: InputChecks, name: str, path: str, fake: torch.Tensor) -> None:
    checks.scope[f"{name}_dtype"] = fake.dtype
    checks.conditions.append(Condition(
        f"isinstance({name}, Tensor)",
        lambda scope: f"the input {path} must be a tensor, but is a {type(scope[name]).__qualname__}"))
    wanted = "1 dimension" if fake.dim() == 1 else f"{fake.dim()} dimensions"
    checks.conditions.append(Condition(
        f"{name}.dim() == {fake.dim()}",
        lambda scope: f"the input {path} must have {wanted}, but has {scope[name].dim()}: it is of "
                      f"shape {tuple(scope[name].shape)}"))
    checks.conditions.append(Condition(
        f"{name}.dtype is {name}_dtype",
        lambda scope: f"the input {path} must be of dtype {fake.dtype}, but is of {scope[name].dtype}"))


def _check_sizes(checks: InputChecks, sizes: list[tuple[str, str, Any]], program: ExportedProgram) -> None:
    texts: dict[Symbol, str] = {}
    where: dict[Symbol, str] = {}
    open_sizes: list[tuple[str, str, Expr]] = []
    for text, path, size in sizes:
        if type(size) is int:
            _demand_size(checks, f"{text} == {size}", text, path, str(size))
            continue
        expr = expr_of(size)
        if isinstance(expr, Symbol) and expr not in texts:
            texts[expr], where[expr] = text, path
        else:
            open_sizes.append((text, path, expr))
    for text, path, expr in open_sizes:
        unknown = [symbol for symbol in expr.free_symbols if symbol not in texts]
        if len(unknown) == 1:
            _solve(checks, texts, where, unknown[0], text, path, expr)
    for text, path, expr in open_sizes:
        if all(symbol in texts for symbol in expr.free_symbols):
            value = print_python(expr, texts)
            _demand_size(checks, f"{text} == {value}", text, path, str(expr), value if expr.free_symbols else "")
    for expr, bounds in program.range_constraints.items():
        if isinstance(expr, Expr) and expr.free_symbols and all(symbol in texts for symbol in expr.free_symbols):
            _demand_range(checks, expr, bounds, texts, where)
    for guard in program.guards:
        if guard.expr.free_symbols and all(symbol in texts for symbol in guard.expr.free_symbols):
            _demand_guard(checks, guard, texts, where)


def _solve(checks: InputChecks, texts: dict[Symbol, str], where: dict[Symbol, str], unknown: Symbol, text: str,
           path: str, expr: Expr) -> None:
    """A size ``4*s0 + 1`` says what s0 is, if it is of that form at all."""
    constant, terms = parts(expr)
    if len(terms) != 1 or terms[0][0] is not unknown:
        return
    factor = terms[0][1]
    if factor < 1:
        return
    if factor > 1:
        _demand_size(checks, f"({text} - {constant}) % {factor} == 0", text, path, f"of the form {expr}")
    texts[unknown], where[unknown] = f"(({text} - {constant}) // {factor})", path


def _demand_size(checks: InputChecks, condition: str, text: str, path: str, wanted: str, value: str = "") -> None:
    def message(scope: Mapping[str, Any]) -> str:
        which = f", which is {eval(value, dict(scope))}" if value else ""
        return f"the input {path} must be {wanted}{which}, but is {eval(text, dict(scope))}"

    checks.conditions.append(Condition(condition, message))


def _demand_range(checks: InputChecks, expr: Expr, bounds: ValueRanges, texts: dict[Symbol, str],
                  where: dict[Symbol, str]) -> None:
    text = print_python(expr, texts)
    tests = [f"{text} >= {bounds.lower}"] if bounds.lower not in (None, 0) else []
    tests += [f"{text} <= {bounds.upper}"] if bounds.upper is not None else []
    names = ", ".join(where[symbol] for symbol in sorted(expr.free_symbols, key=str))
    for test in tests:
        sign = test.removeprefix(text).strip()
        checks.conditions.append(Condition(
            test, lambda scope, sign=sign: f"{expr} must be {sign}, but is {eval(text, dict(scope))} "  # type: ignore[misc]
            f"(from {names})"))


def _demand_guard(checks: InputChecks, guard: Any, texts: dict[Symbol, str], where: dict[Symbol, str]) -> None:
    symbols = sorted(guard.expr.free_symbols, key=str)
    def complaint(scope: dict[str, Any]) -> str:
        values = ", ".join(f"{symbol} = {where[symbol]} = {eval(texts[symbol], dict(scope))}" for symbol in symbols)
        return f"{guard.expr} does not hold for {values}"

    checks.conditions.append(Condition(f"({print_python(guard.expr, texts)})", complaint, guard.provenance.frames))
