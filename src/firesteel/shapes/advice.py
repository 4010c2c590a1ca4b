"""What to do about a question that only data can answer: in the words of the program, and only what works there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping

from firesteel.shapes import relations
from firesteel.shapes.expr import Expr, Symbol
from firesteel.shapes.guards import SymbolInfo
from firesteel.shapes.printing import print_python

_DRAWN = re.compile(r"\w+\(\)")
"""What numbers are called that are drawn: random(), randint()."""
_OPPOSITE = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
_OF_SIZES = frozenset({"len", "size", "numel", "dim"})
"""Calls that say the same when they are repeated; another ``item()`` is another number."""
BOTH = "where both happen, choose with torch.where or fs.cond"


def advice(expr: Expr, unbacked: Iterable[SymbolInfo], named: Mapping[Symbol, str], names: Mapping[Symbol, str],
           line: str) -> str:
    """What settles the question whether, or which number, `expr` is, asked in a line of the program.

    ``named``: the symbols that are variables of the program; ``names``: what all of them are called otherwise.
    """
    symbols = list(unbacked)
    if any(_DRAWN.fullmatch(info.source_name) for info in symbols):
        return ("draw the number outside of the compiled function and pass it in, or draw a tensor and choose with it: "
                "torch.where(torch.rand(()) < 0.5, a, b)")
    unknown = [info.symbol for info in symbols if info.symbol not in named]
    if expr.kind != "bool":
        return _of_number(expr, unknown, {**names, **named}, line)
    if unknown:
        asked = asked_in(line)
        if asked:
            return _one_of(asked)
        if len(unknown) > 1:
            return f"give the numbers names, and state before this line with torch._check what always holds; {BOTH}"
        words = {**names, **named, unknown[0]: "n"}
        return f"if one answer always holds, give the number a name, n = ....item(), and {_checks(expr, words)}; {BOTH}"
    return f"if one answer always holds, state it before this line: {_either(expr, {**names, **named})}; {BOTH}"


def _either(expr: Expr, words: Mapping[Symbol, str]) -> str:
    texts = [f"torch._check({print_python(case, dict(words))})" for case in (expr, relations.not_(expr))]
    return " or ".join(texts)


def _checks(expr: Expr, words: Mapping[Symbol, str]) -> str:
    return f"state it before this line: {_either(expr, words)}"


def _one_of(tests: tuple[str, str]) -> str:
    first, second = tests
    return (f"if one answer always holds, state it before this line: torch._check({first}) or torch._check({second}); "
            f"{BOTH}")


def _of_number(expr: Expr, unknown: list[Symbol], names: Mapping[Symbol, str], line: str) -> str:
    is_loop = line.startswith(("for ", "while ")) or " for " in line or "range(" in line
    loop = "loop over as many rounds as there may be and mask, or use fs.while_loop; " if is_loop else ""
    if not unknown:
        words = print_python(expr, dict(names))
        return f"{loop}if it is always the same number, state that before this line: torch._check({words} == ...)"
    if len(unknown) == 1 and isinstance(expr, Symbol):
        return (f"{loop}if it is always the same number, give it a name and state that before this line: "
                "n = ....item(); torch._check(n == ...)")
    return f"{loop}if it is always the same number, write that number"


def asked_in(line: str) -> tuple[str, str] | None:
    """The condition of a line of the program, and its opposite, where they can be stated again as they are written.

    >>> asked_in("if m.shape[0] > 2: return m")
    ('m.shape[0] > 2', 'm.shape[0] <= 2')
    >>> asked_in("if x.item() > 2:") is None
    True
    """
    text = line.strip()
    text = "if" + text[4:] if text.startswith("elif ") else text
    tree = None
    for attempt in (text, text + " pass"):
        try:
            tree = ast.parse(attempt)
            break
        except (SyntaxError, ValueError):
            continue
    tests = [node.test for node in ast.walk(tree) if isinstance(node, (ast.If, ast.IfExp, ast.Assert))] if tree else []
    if len(tests) != 1 or not isinstance(tests[0], ast.Compare) or len(tests[0].ops) != 1:
        return None
    test = tests[0]
    opposite = _OPPOSITE.get(type(test.ops[0]))
    if opposite is None or any(isinstance(node, ast.Call) and _called(node) not in _OF_SIZES
                               for node in ast.walk(test)):
        return None
    return ast.unparse(test), f"{ast.unparse(test.left)} {opposite} {ast.unparse(test.comparators[0])}"


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
