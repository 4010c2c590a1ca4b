"""Makes a failing program small: removes statements and simplifies expressions while the failure stays."""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator

from firesteel.repair.edits import Edit, blocks, drop, is_closed, remove, simplifications, source, unwrappings

from .program import Program

Predicate = Callable[[Program], bool]
WANTED = ("make", "fn", "calls", "before", "observe")
MAX_ATTEMPTS = 800


def shrink(program: Program, still_fails: Predicate, max_attempts: int = MAX_ATTEMPTS) -> Program:
    """The smallest program found for which `still_fails` holds, by delta debugging on the syntax tree.

    An exception from `still_fails` counts as "does not fail": the program was cut where it must not be.
    """
    search = _Search(program, still_fails, max_attempts)
    size = None
    while size != len(source(search.tree)):
        size = len(source(search.tree))
        search.remove_statements()
        # What `observe` and `nonlocal` mention keeps the external state alive.
        search.try_all(lambda tree: _droppings(tree, (ast.Dict, ast.Nonlocal)))
        search.remove_statements()
        search.try_all(unwrappings)
        search.try_all(lambda tree: _droppings(tree, (ast.expr, ast.stmt)))
        search.try_all(simplifications)
    return Program(program.seed, source(search.tree))


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
        if self._attempts_left <= 0 or not is_closed(candidate, WANTED):
            return False
        self._attempts_left -= 1
        try:
            fails = self._still_fails(Program(self._seed, source(candidate)))
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
        while index < len(blocks(self.tree)):
            width = max(1, len(blocks(self.tree)[index]) // 2)
            while width:
                start = len(blocks(self.tree)[index]) - width if index < len(blocks(self.tree)) else -1
                while start >= 0 and self._attempts_left > 0:
                    if self.attempt(remove(index, start, width)) and index >= len(blocks(self.tree)):
                        return
                    start -= width
                width //= 2
            index += 1


def _droppings(tree: ast.Module, kinds: tuple[type[ast.AST], ...]) -> Iterator[Edit]:
    """Leave out an element of a display, an argument of a call or a name that a statement declares."""
    for index, node in enumerate(ast.walk(tree)):
        for name in ("elts", "keys", "args", "keywords", "names"):
            members = getattr(node, name, None)
            if isinstance(members, list) and isinstance(node, kinds):
                for position in range(len(members)):
                    yield drop(index, name, position)
