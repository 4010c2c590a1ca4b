"""A function of the user's as the source of a script: its own text and what it needs of the file that it stands in.

Definitions and imports are taken from the file, in its order; what other names stand for is written as it is now.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .values import Unwritable, Values, constant_source

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class FunctionSource:
    """A function as part of a script."""

    imports: list[str]
    """Imports and constants."""
    definitions: list[str]
    """Classes and functions."""
    name: str
    """What it is called there."""
    classes: frozenset[str]
    """The classes that the script defines."""
    late: list[str]
    """Names of globals whose values have to be made by the script."""


def source_of(code: types.CodeType, globals_: Mapping[str, Any], free: Mapping[str, Any],
              name_of_lambda: str = "f") -> FunctionSource:
    """The source of a function; raises `Unwritable` where there is none. ``free``: what its free variables hold."""
    text = "".join(linecache.getlines(code.co_filename, dict(globals_)))
    try:
        tree = ast.parse(text)
    except SyntaxError:
        raise Unwritable(f"{code.co_filename} cannot be read") from None
    if not text:
        raise Unwritable(f"there is no source of {code.co_qualname}")
    top = {name: statement for statement in tree.body for name in bound_names(statement)}
    names = code.co_qualname.split(".")
    statements: dict[ast.stmt, None] = {}
    if "<" not in code.co_qualname and names[0] in top and isinstance(top[names[0]], _DEFINITIONS):
        name, first = code.co_qualname, top[names[0]]
    else:
        name, first = _taken_out(tree, code, name_of_lambda)
    _without_compile(first)
    statements[first] = None
    early: list[str] = []
    late: list[str] = []
    waiting = list(read_names(first))
    seen: set[str] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted in seen or wanted in free:
            continue
        seen.add(wanted)
        statement = top.get(wanted)
        if isinstance(statement, (*_DEFINITIONS, *_IMPORTS)):
            if statement not in statements and statement is not first:
                _without_compile(statement)
                statements[statement] = None
                waiting += read_names(statement)
        elif wanted in globals_:
            constant = constant_source(globals_[wanted])
            if constant is not None:
                early.append(f"{wanted} = {constant}")
            elif isinstance(globals_[wanted], types.ModuleType):
                early.append(f"import {globals_[wanted].__name__} as {wanted}")
            else:
                late.append(wanted)
        elif not hasattr(builtins, wanted) and statement is not None:
            statements[statement] = None
            waiting += read_names(statement)
    ordered = sorted(statements, key=lambda one: one.lineno)
    imports = [ast.unparse(part) for one in ordered if isinstance(one, _IMPORTS) for part in _parted(_only(one, seen))]
    others = [f"{ast.unparse(one)}\n" for one in ordered if not isinstance(one, _IMPORTS)]
    classes = frozenset([one.name for one in ordered if isinstance(one, ast.ClassDef)])
    return FunctionSource([*imports, *early], others, name, classes, late)


def beside(source: FunctionSource, other: FunctionSource) -> FunctionSource:
    """A function's source with that of another one, which its script needs too, before it."""
    if source.name == other.name and source.definitions[-1:] != other.definitions[-1:]:
        raise Unwritable(f"two functions are called {source.name}")
    return FunctionSource(list(dict.fromkeys([*other.imports, *source.imports])),
                          list(dict.fromkeys([*other.definitions, *source.definitions])), source.name,
                          source.classes | other.classes, list(dict.fromkeys([*other.late, *source.late])))


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a file gives a meaning."""
    if isinstance(statement, _DEFINITIONS):
        yield statement.name
    elif isinstance(statement, _IMPORTS):
        for item in statement.names:
            yield item.asname or item.name.partition(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def read_names(statement: ast.AST) -> list[str]:
    """The names that something reads."""
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]


def _only(statement: ast.Import | ast.ImportFrom, wanted: set[str]) -> ast.Import | ast.ImportFrom:
    """An import with those of its names that are wanted."""
    kept = [item for item in statement.names if (item.asname or item.name.partition(".")[0]) in wanted]
    return type(statement)(**{**dict(ast.iter_fields(statement)), "names": kept or statement.names})


def _parted(statement: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
    """One import a line."""
    return [statement] if isinstance(statement, ast.ImportFrom) else [ast.Import([item]) for item in statement.names]


def _without_compile(statement: ast.stmt) -> None:
    """Take decorators away that compile, from a definition and what is in it."""
    for node in ast.walk(statement):
        if isinstance(node, _DEFINITIONS):
            node.decorator_list = [one for one in node.decorator_list if "compile" not in ast.unparse(one)]


def _taken_out(tree: ast.Module, code: types.CodeType, name_of_lambda: str) -> tuple[str, ast.stmt]:
    """A function that is defined inside of another one, or a lambda, as a function of the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *[one.lineno for one in node.decorator_list]])
            if first == code.co_firstlineno:
                return node.name, node
    lambdas = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
               and len(node.args.args) == code.co_argcount]
    if len(lambdas) != 1:
        raise Unwritable(f"the source of {code.co_qualname} is not found")
    assigned = ast.Assign([ast.Name(name_of_lambda, ast.Store())], lambdas[0], lineno=code.co_firstlineno)
    return name_of_lambda, ast.fix_missing_locations(assigned)


def values_for(source: FunctionSource, exact: bool) -> Values:
    """What writes the values of a script with this source."""
    values = Values(exact, lambda kind: kind.__qualname__.partition(".")[0] in source.classes)
    values.names |= {"torch", "fs", "f", "math", source.name.partition(".")[0], *source.classes}
    return values
