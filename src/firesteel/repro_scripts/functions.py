"""A function of the user's as the source of a script: its own text and what it needs of the file that it stands in.

Definitions and imports are taken from the file, in its order; what other names stand for is written as it is now.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import symtable
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..torch_compat.custom_operators import custom_operator_function
from .completions import completing, is_operator, operators_called, operators_made
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
    tree = _file(code, globals_)
    top = _top(tree)
    names = code.co_qualname.split(".")
    if "<" not in code.co_qualname and names[0] in top and isinstance(top[names[0]], _DEFINITIONS):
        name, first = code.co_qualname, top[names[0]]
    else:
        name, first = _taken_out(tree, code, name_of_lambda)
    return _collected(tree, name, [first], globals_, free)


def source_of_operators(operators: Collection[str]) -> FunctionSource:
    """The source of operators of the program's, as ``space::name``: what makes them in its main file, or imports."""
    imports: dict[str, None] = {}
    own = set()
    for operator in sorted(operators):
        function = custom_operator_function(operator)
        if function is not None and function.__module__ != "__main__":
            imports[f"import {function.__module__}"] = None
        else:
            own.add(operator)
    main = sys.modules["__main__"]
    if not own or not getattr(main, "__file__", None):
        return FunctionSource(list(imports), [], "", frozenset(), [])
    tree = _parsed(str(main.__file__), vars(main))
    source = _collected(tree, "", completing(tree, (), own), vars(main), {}, own)
    if any(getattr(one, "name", "") == "f" for text in source.definitions for one in ast.parse(text).body):
        raise Unwritable("what makes an operator is called f")
    return replace(source, imports=[*imports, *source.imports])


def _file(code: types.CodeType, globals_: Mapping[str, Any]) -> ast.Module:
    tree = _parsed(code.co_filename, globals_)
    if not tree.body:
        raise Unwritable(f"there is no source of {code.co_qualname}")
    return tree


def _parsed(filename: str, globals_: Mapping[str, Any]) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(filename, dict(globals_))))
    except SyntaxError:
        raise Unwritable(f"{filename} cannot be read") from None


def _top(tree: ast.Module) -> dict[str, ast.stmt]:
    return {name: statement for statement in tree.body for name in bound_names(statement)}


def _collected(tree: ast.Module, name: str, first: list[ast.stmt], globals_: Mapping[str, Any],
               free: Mapping[str, Any], operators: Collection[str] = ()) -> FunctionSource:
    """Statements with all that they need of their file."""
    top = _top(tree)
    statements: dict[ast.stmt, None] = {}
    early: list[str] = []
    late: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()

    def add(statement: ast.stmt) -> None:
        if statement not in statements:
            _without_compile(statement)
            statements[statement] = None
            waiting.extend(read_names(statement))

    for one in first:
        add(one)
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen and wanted not in free:
            seen.add(wanted)
            statement = top.get(wanted)
            if statement is not None and (isinstance(statement, (*_DEFINITIONS, *_IMPORTS)) or is_operator(statement)):
                add(statement)
            elif wanted in globals_:
                text = _early(wanted, globals_[wanted])
                (late if text is None else early).append(wanted if text is None else text)
            elif not hasattr(builtins, wanted) and statement is not None:
                add(statement)
        if not waiting:
            for one in completing(tree, statements, operators):
                add(one)
    ordered = sorted(statements, key=lambda one: one.lineno)
    if not {*operators, *(name for one in ordered for name in operators_called(one))} <= operators_made(tree, ordered):
        ordered = [one for one in tree.body if isinstance(one, _IMPORTS) or one in statements]  # an import makes them
    imports = [ast.unparse(part) for one in ordered if isinstance(one, _IMPORTS) for part in _parted(_only(one, seen))]
    others = [f"{ast.unparse(one)}\n" for one in ordered if not isinstance(one, _IMPORTS)]
    classes = frozenset([one.name for one in ordered if isinstance(one, ast.ClassDef)])
    return FunctionSource([*imports, *early], others, name, classes, late)


def _early(name: str, value: Any) -> str | None:
    """A constant or a module as a line of its own; None for what the script has to make."""
    if isinstance(value, types.ModuleType):
        return f"import {value.__name__} as {name}"
    constant = constant_source(value)
    return None if constant is None else f"{name} = {constant}"


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
    """The names that something reads of what is around it: parameters and variables of its own functions are others."""
    try:
        whole = ast.unparse(statement.value if isinstance(statement, ast.keyword) else statement)
        tables = [symtable.symtable(whole, "script", "exec")]
    except SyntaxError:  # part of a function, such as one with nonlocal
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        return [name.id for name in names if isinstance(name.ctx, ast.Load)]
    found: dict[str, None] = {}
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found.update((one.get_name(), None) for one in table.get_symbols() if one.is_referenced() and (
            table.get_type() == "module" or one.is_global()))
    return list(found)


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
