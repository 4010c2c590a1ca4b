"""The error for questions that only data can answer, with the statements that would answer them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from firesteel.shapes import relations
from firesteel.shapes.advice import advice
from firesteel.shapes.expr import Expr, Symbol
from firesteel.shapes.guards import Provenance, SymbolInfo
from firesteel.shapes.printing import print_python


class UndecidableError(Exception):
    """A value was needed that depends on data, and nothing that is known decides it.

    Attributes:
        expr: the condition, or the number, whose value was needed.
        symbols: the unbacked symbols in it.
        provenance: where it was asked.
        suggestions: `torch._check` calls, each of which would settle the question.
        origins: what each of the symbols is and where it comes from.
        advice: what to do about it, in one line.
    """

    def __init__(
        self,
        expr: Expr,
        symbols: Sequence[SymbolInfo],
        provenance: Provenance,
        names: dict[Symbol, str] | None = None,
    ) -> None:
        self.expr = expr
        self.symbols = list(symbols)
        self.provenance = provenance
        names = dict(names or {})
        named = readable_names(symbols)
        self.advice = advice(expr, symbols, named, names, provenance.line)
        self.is_named = len(named) == len(symbols)
        names.update(named)
        self.suggestions = suggested_checks(expr, names)
        self.origins = [_origin(info, names) for info in self.symbols]
        super().__init__(self._message(names))

    def _message(self, names: dict[Symbol, str]) -> str:
        symbols, words = f"`{self.expr}`", f"`{in_names(self.expr, names)}`"
        what = "could not decide" if self.expr.kind == "bool" else "could not find the value of"
        lines = [
            f"{what} {symbols}{'' if words == symbols else f' ({words})'}, which depends on data: "
            "it is known when the program runs, not while it is captured"
        ]
        lines += [f"  {origin}" for origin in self.origins]
        place = f"  asked at {self.provenance}"
        lines.append(f"{place}: {self.provenance.line}" if self.provenance.line else place)
        if not self.is_named:
            lines.append("  " + self.advice)
            return "\n".join(lines)
        if self.expr.kind == "bool":
            lines.append("  if one answer always holds, state it before that line, with one of")
        else:
            lines.append("  if it is always the same number, state that before that line")
        lines += [f"    {suggestion}" for suggestion in self.suggestions]
        return "\n".join(lines)


def _origin(info: SymbolInfo, names: dict[Symbol, str]) -> str:
    name = names.get(info.symbol, info.source_name)
    also = "" if name == info.source_name else f" (`{name}`)"
    frames = info.provenance.frames
    place = f", from {frames[-1]}" + (f": {info.provenance.line}" if info.provenance.line else "") if frames else ""
    return f"{info.symbol} is {info.source_name}{also}{place}"


def suggested_checks(expr: Expr, names: dict[Symbol, str]) -> list[str]:
    """Statements that settle the question, one for each answer."""
    if expr.kind != "bool":
        return [f"torch._check({in_names(expr, names)} == ...)  # with the number in place of the dots"]
    return [f"torch._check({in_names(case, names)})" for case in (expr, relations.not_(expr))]


def in_names(expr: Expr, names: dict[Symbol, str]) -> str:
    """The expression in the words of the program."""
    return print_python(expr, {symbol: names.get(symbol, symbol.name) for symbol in expr.free_symbols})


def readable_names(symbols: Iterable[SymbolInfo]) -> dict[Symbol, str]:
    """What the user calls these values: the variable that the line of their origin assigns, if it is that simple."""
    readable = {info.symbol: _assigned_name(info) for info in symbols}
    names = list(readable.values())
    # A line such as `a = x.item() + y.item()` has two values and one name, which is neither's.
    return {symbol: name for symbol, name in readable.items() if name and names.count(name) == 1}


def _assigned_name(info: SymbolInfo) -> str:
    try:
        tree = ast.parse(info.provenance.line)
    except (SyntaxError, ValueError):
        return ""
    match tree.body:
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(attr="item")))]:
            return name
    return ""
