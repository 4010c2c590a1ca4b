"""Makes a failing program small: removes statements and simplifies expressions while the failure stays."""

from __future__ import annotations

import ast
import builtins
import copy
import itertools
from collections.abc import Callable, Iterator

from .program import Program

Predicate = Callable[[Program], bool]
Edit = Callable[[ast.Module], None]
BLOCKS = ("body", "orelse", "finalbody")
MAX_ATTEMPTS = 800


def shrink(program: Program, still_fails: Predicate, max_attempts: int = MAX_ATTEMPTS) -> Program:
    """The smallest program found for which `still_fails` holds, by delta debugging on the syntax tree.

    An exception from `still_fails` counts as "does not fail": the program was cut where it must not be.
    """
    search = _Search(program, still_fails, max_attempts)
    size = None
    while size != len(_source(search.tree)):
        size = len(_source(search.tree))
        search.remove_statements()
        # What `observe` and `nonlocal` mention keeps the external state alive.
        search.try_all(lambda tree: _droppings(tree, (ast.Dict, ast.Nonlocal)))
        search.remove_statements()
        search.try_all(_unwrappings)
        search.try_all(lambda tree: _droppings(tree, (ast.expr, ast.stmt)))
        search.try_all(_simplifications)
    return Program(program.seed, _source(search.tree))


class _Search:
    """The smallest tree so far."""

    def __init__(self, program: Program, still_fails: Predicate, max_attempts: int) -> None:
        self.tree = ast.parse(program.source)
        self._seed = program.seed
        self._still_fails = still_fails
        self._attempts_left = max_attempts

    def attempt(self, edit: Edit) -> bool:
        """Keep the edit if the program still fails with it."""
        candidate = copy.deepcopy(self.tree)
        edit(candidate)
        if self._attempts_left <= 0 or not _is_closed(candidate):
            return False
        self._attempts_left -= 1
        try:
            fails = self._still_fails(Program(self._seed, _source(candidate)))
        except Exception:
            fails = False
        if fails:
            self.tree = candidate
        return fails

    def try_all(self, edits: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try the edits one by one; they are listed anew after each success, past those tried in vain."""
        position = 0
        while self._attempts_left > 0:
            edit = next(itertools.islice(edits(self.tree), position, None), None)
            if edit is None:
                return
            if not self.attempt(edit):
                position += 1

    def remove_statements(self) -> None:
        """Remove runs of statements from each block, long runs first, uses before what they use."""
        index = 0
        while index < len(_blocks(self.tree)):
            width = max(1, len(_blocks(self.tree)[index]) // 2)
            while width:
                start = len(_blocks(self.tree)[index]) - width if index < len(_blocks(self.tree)) else -1
                while start >= 0 and self._attempts_left > 0:
                    if self.attempt(_remove(index, start, width)) and index >= len(_blocks(self.tree)):
                        return
                    start -= width
                width //= 2
            index += 1


def _source(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _is_closed(tree: ast.Module) -> bool:
    """Whether each name that is read is bound somewhere: a cheap look before the program is run."""
    bound, read = set(dir(builtins)), {"make", "fn", "calls", "before", "observe"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return read <= bound


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    """Every list of statements, in an order that only depends on the tree."""
    return [
        block
        for node in ast.walk(tree)
        for name in BLOCKS
        if isinstance(block := getattr(node, name, None), list) and block and isinstance(block[0], ast.stmt)
    ]


def _remove(index: int, start: int, width: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        block = _blocks(tree)[index]
        del block[start : start + width]
        for node in ast.walk(tree):
            # An empty `else` is none at all, an empty body needs a statement.
            if getattr(node, "body", None) == [] and not isinstance(node, ast.Module):
                node.body = [ast.Pass()]  # type: ignore[attr-defined]
            if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
                node.finalbody = [ast.Pass()]

    return edit


def _unwrappings(tree: ast.Module) -> Iterator[Edit]:
    """Replace a compound statement by one of its blocks."""
    for index, block in enumerate(_blocks(tree)):
        for position, statement in enumerate(block):
            if isinstance(statement, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                for name in BLOCKS:
                    if getattr(statement, name, None):
                        yield _unwrap(index, position, name)


def _unwrap(index: int, position: int, name: str) -> Edit:
    def edit(tree: ast.Module) -> None:
        block = _blocks(tree)[index]
        block[position : position + 1] = getattr(block[position], name)

    return edit


def _droppings(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> Iterator[Edit]:
    """Leave out an element of a display, an argument of a call or a name that a statement declares."""
    for index, node in enumerate(ast.walk(tree)):
        for name in ("elts", "keys", "args", "keywords", "names"):
            members = getattr(node, name, None)
            if isinstance(members, list) and isinstance(node, kinds):
                for position in range(len(members)):
                    yield _drop(index, name, position)


def _drop(index: int, name: str, position: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        node = list(ast.walk(tree))[index]
        del getattr(node, name)[position]
        if isinstance(node, ast.Dict):
            del node.values[position]
        elif isinstance(node, (ast.Nonlocal, ast.Global, ast.Import)) and not node.names:
            for block in _blocks(tree):
                block[:] = [ast.Pass() if statement is node else statement for statement in block]

    return edit


def _simplifications(tree: ast.Module) -> Iterator[Edit]:
    """Replace an expression by one of the expressions in it."""
    for index, (_, _, _, expression) in enumerate(_expressions(tree)):
        for child in range(len(_operands(expression))):
            yield _replace(index, child)


def _expressions(tree: ast.Module) -> list[tuple[ast.AST, str, int | None, ast.expr]]:
    """Every expression that is read, with the place it stands in."""
    found: list[tuple[ast.AST, str, int | None, ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.JoinedStr, ast.FormattedValue, ast.pattern)):
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and isinstance(getattr(value, "ctx", ast.Load()), ast.Load):
                found.append((node, name, None, value))
            elif isinstance(value, list):
                found += [(node, name, at, item) for at, item in enumerate(value) if isinstance(item, ast.expr)]
    return [place for place in found if isinstance(getattr(place[3], "ctx", ast.Load()), ast.Load)]


def _operands(expression: ast.expr) -> list[ast.expr]:
    return [
        child
        for child in ast.iter_child_nodes(expression)
        if isinstance(child, ast.expr) and not isinstance(child, (ast.FormattedValue, ast.Starred))
    ]


def _replace(index: int, child: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        parent, name, at, expression = _expressions(tree)[index]
        operand = _operands(expression)[child]
        if at is None:
            setattr(parent, name, operand)
        else:
            getattr(parent, name)[at] = operand

    return edit
