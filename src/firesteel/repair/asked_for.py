"""What a script asks the compiler for: backends, options, settings. A smaller script has to ask for the same."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from ..repro_scripts.functions import bound_names, read_names

_IMPORTS = (ast.Import, ast.ImportFrom)
_COMPILING = frozenset({"compile", "check"})


@dataclass(frozen=True)
class Asked:
    """What a script asks for."""

    compilations: frozenset[str]
    """The options of each call that compiles, with the definitions that they name."""
    settings: frozenset[str]

    def is_no_other_than(self, whole: Asked) -> bool:
        """Whether a part of a script that asks for ``whole`` asks for the same."""
        return self.settings == whole.settings and self.compilations <= whole.compilations \
            and bool(self.compilations) == bool(whole.compilations)


def asked_for(tree: ast.Module) -> Asked:
    """What a script asks for."""
    top = _top(tree)
    return Asked(frozenset("\n".join([*map(ast.unparse, _definitions(keywords, top)), *sorted(
        ast.unparse(keyword) for keyword in keywords)]) for keywords in _compilations(tree)),
        frozenset(map(ast.unparse, _settings(tree))))


def protected(tree: ast.Module) -> set[int]:
    """The nodes that say what is asked for, by their identity."""
    top = _top(tree)
    roots: list[ast.AST] = list(_settings(tree))
    for keywords in _compilations(tree):
        roots += [*keywords, *_definitions(keywords, top)]
    return {id(node) for root in roots for node in ast.walk(root)}


def asking_the_same(text: str, original: str) -> str | None:
    """The script of a graph, compiled as the script it comes from compiles; None where that asks for several things,
    or for something that it defines in a place where it cannot be taken from."""
    tree, whole = ast.parse(text), ast.parse(original)
    top = _top(whole)
    known = {tuple(sorted(map(ast.unparse, keywords))): keywords for keywords in _compilations(whole)}
    if not known or list(known) == [()]:
        return text
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_compiling(node.func)]
    if len(known) > 1 or len(checks) != 1:
        return None
    (keywords,) = known.values()
    checks[0].keywords = [*keywords, *[one for one in checks[0].keywords if one.arg not in
                                       {keyword.arg for keyword in keywords}]]
    bound = {name for statement in tree.body for name in bound_names(statement)}
    definitions = [one for one in _definitions(keywords, top, imports=True)
                   if not isinstance(one, _IMPORTS) or not bound.issuperset(bound_names(one))]
    named = {name for one in definitions if not isinstance(one, _IMPORTS) for name in bound_names(one)}
    free = {name for keyword in keywords for name in read_names(keyword)}
    if named & bound or not free <= {*bound, *named, *top, *dir(builtins)}:
        return None
    place = max(at for at, statement in enumerate(tree.body) if isinstance(statement, _IMPORTS)) + 1
    tree.body[place:place] = definitions
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _top(tree: ast.Module) -> dict[str, ast.stmt]:
    return {name: statement for statement in tree.body for name in bound_names(statement)}


def _is_compiling(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in _COMPILING \
        or isinstance(function, ast.Name) and function.id in _COMPILING


def _compilations(tree: ast.Module) -> Iterator[list[ast.keyword]]:
    """The keywords of each call that compiles, and of each decorator."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_compiling(node.func):
            yield node.keywords
        for decorator in getattr(node, "decorator_list", ()):
            if _is_compiling(decorator):
                yield []


def _definitions(keywords: list[ast.keyword], top: dict[str, ast.stmt], imports: bool = False) -> list[ast.stmt]:
    """The statements of a script that options need, in its order; where a backend is named, those that register it."""
    names = {keyword.value.value for keyword in keywords if isinstance(keyword.value, ast.Constant)}
    found: dict[int, ast.stmt] = {
        id(statement): statement for statement in top.values() if isinstance(statement, ast.FunctionDef)
        and any("register_backend" in ast.unparse(one) and (statement.name in names or any(
            repr(name) in ast.unparse(one) for name in names)) for one in statement.decorator_list)}
    waiting = [name for part in (*keywords, *found.values()) for name in read_names(part)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in top:
            continue
        seen.add(name)
        needed = top[name]
        if imports or not isinstance(needed, _IMPORTS):
            found[id(needed)] = needed
            waiting += read_names(needed)
    return sorted(found.values(), key=lambda one: one.lineno)


def _settings(tree: ast.Module) -> Iterator[ast.AST]:
    """What changes settings: ``fs.config.name = value``, ``fs.config.patch(...)``, ``fs.set_stance(...)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            is_setting = any(isinstance(one, ast.Attribute) and _is_config(one.value) for one in node.targets)
        else:
            is_setting = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
                and (node.func.attr == "set_stance" or node.func.attr == "patch" and _is_config(node.func.value))
        if is_setting:
            yield node


def _is_config(expression: ast.expr) -> bool:
    return ast.unparse(expression).rpartition(".")[2] == "config"
