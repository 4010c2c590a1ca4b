"""Makes a failing script small: cuts its function short, makes values inputs, removes statements, simplifies the rest.

Everything is a guess that is tried: what still fails in the same way is kept. The result is 1-minimal where the time
suffices: nothing more can go on its own.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterator, Mapping

from . import edits
from .asked_for import asked_for
from .edits import Edit

Predicate = Callable[[str], bool]
Sources = Callable[[str], Mapping[str, str]]
"""For a script the values that the variables of its function have, as source."""


class Shrinker:
    """The smallest script so far."""

    def __init__(self, text: str, still_fails: Predicate, sources: Sources, is_over: Callable[[], bool]) -> None:
        self.tree = ast.parse(text)
        self._asked = asked_for(self.tree)
        self._is_seeded = edits.is_seeded(self.tree)
        self._still_fails = still_fails
        self._sources = sources
        self._is_over = is_over
        self.attempts = 0

    @property
    def text(self) -> str:
        """The script."""
        return edits.source(self.tree)

    def shrink(self) -> str:
        """The smallest script that fails in the same way, as far as the time allows."""
        self._drop_docstrings()
        size = None
        while size != len(self.text) and not self._is_over():
            size = len(self.text)
            self.cut_behind()
            self.attempt(edits.tidy)
            self.cut_before()
            self.attempt(edits.tidy)
            self.make_inputs()
            self.attempt(edits.tidy)
            self.attempt(edits.small_sizes)
            self.remove_statements()
            self.try_all(edits.unwrappings)
            self.shrink_sizes()
            self.try_all(edits.parameter_droppings)
            self.try_all(edits.droppings)
            self.try_all(edits.simplifications)
            self.attempt(edits.tidy)
            self.remove_statements()
        return self.text

    def attempt(self, edit: Edit) -> bool:
        """Keep an edit if the script still fails with it."""
        candidate = copy.deepcopy(self.tree)
        try:
            edit(candidate)
            text = edits.source(candidate)
            candidate = ast.parse(text)
        except Exception:
            return False  # not a program
        if self._is_over() or not edits.is_closed(candidate) or text == self.text:
            return False
        if not asked_for(candidate).is_no_other_than(self._asked) or self._is_seeded and not edits.is_seeded(candidate):
            return False
        self.attempts += 1
        if self._still_fails(text):
            self.tree = candidate
            return True
        return False

    def try_all(self, possible: Callable[[ast.Module], Iterator[Edit]]) -> None:
        """Try edits one by one; they are listed anew after each success, past those tried in vain."""
        position = 0
        while not self._is_over():
            edit = next(itertools.islice(possible(self.tree), position, None), None)
            if edit is None:
                return
            if not self.attempt(edit):
                position += 1

    def remove_statements(self) -> None:
        """Remove runs of statements from each block, long runs first, uses before what they use."""
        index = 0
        while index < len(edits.blocks(self.tree)) and not self._is_over():
            width = max(1, len(edits.blocks(self.tree)[index]) // 2)
            while width:
                known = edits.blocks(self.tree)
                start = len(known[index]) - width if index < len(known) else -1
                while start >= 0 and not self._is_over():
                    if self.attempt(edits.remove(index, start, width)) and index >= len(edits.blocks(self.tree)):
                        return
                    start -= width
                width //= 2
            index += 1

    def _drop_docstrings(self) -> None:
        for block in edits.blocks(self.tree):
            if len(block) > 1 and isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant):
                del block[0]

    # The function whose call fails

    def cut_behind(self) -> None:
        """Return early: the shortest beginning of the function that still fails."""
        found = edits.called_function(self.tree)
        if found is None:
            return
        body = found[0].body
        places = [at for at, statement in enumerate(body[:-1]) if _target(statement) is not None]
        low, high = 0, len(places)
        while low < high and not self._is_over():
            middle = (low + high) // 2
            if self.attempt(_return_at(places[middle])):
                high = middle
            else:
                low = middle + 1

    def cut_before(self) -> None:
        """Begin late: what is used of the statements left out becomes inputs."""
        found = edits.called_function(self.tree)
        if found is None or len(found[0].body) < 3:
            return
        known = self._sources(self.text)
        low, high = 0, len(found[0].body) - 1
        while low < high and not self._is_over():
            middle = (low + high + 1) // 2
            edit = _begin_at(middle, known)
            # what was cut before must be cut off from the tree as it was
            if edit is not None and self.attempt(edit):
                rest = edits.called_function(self.tree)
                assert rest is not None
                low, high = 0, min(high - middle, len(rest[0].body) - 1)
            else:
                high = middle - 1

    def make_inputs(self) -> None:
        """Make single values inputs of the function."""
        found = edits.called_function(self.tree)
        if found is None:
            return
        known = self._sources(self.text)
        position = len(found[0].body) - 2
        while position >= 0 and not self._is_over():
            found = edits.called_function(self.tree)
            assert found is not None
            if position < len(found[0].body) - 1:
                name = _target(found[0].body[position])
                if name in known:
                    self.attempt(_input_instead(position, str(name), known[str(name)]))
            position -= 1

    def shrink_sizes(self) -> None:
        """Make sizes smaller, the same number everywhere at once."""
        for old in edits.numbers(self.tree):
            for new in (1, 2) if old < 8 else (1, 4):
                if new < old and self.attempt(edits.renumber(old, new)):
                    break


def _target(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return None


def _return_at(place: int) -> Edit:
    def edit(tree: ast.Module) -> None:
        found = edits.called_function(tree)
        assert found is not None
        name = _target(found[0].body[place])
        assert name is not None
        found[0].body[place + 1:] = [ast.Return(ast.Name(name, ast.Load()))]

    return edit


def _begin_at(place: int, known: Mapping[str, str]) -> Edit | None:
    def edit(tree: ast.Module) -> None:
        found = edits.called_function(tree)
        assert found is not None
        function = found[0]
        gone = {name for statement in function.body[:place] for name in _bound(statement)}
        rest = function.body[place:]
        used = [node.id for statement in rest for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        function.body[:] = rest
        for name in dict.fromkeys(used):
            if name in gone:
                _add_input(tree, name, known[name])

    return edit


def _bound(statement: ast.stmt) -> list[str]:
    return [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _input_instead(place: int, name: str, value: str) -> Edit:
    def edit(tree: ast.Module) -> None:
        found = edits.called_function(tree)
        assert found is not None
        del found[0].body[place]
        _add_input(tree, name, value)

    return edit


def _add_input(tree: ast.Module, name: str, value: str) -> None:
    found = edits.called_function(tree)
    assert found is not None
    function, call = found
    if any(parameter.arg == name for parameter in function.args.args):
        return
    function.args.args.append(ast.arg(name))
    call.args.append(ast.Name(name, ast.Load()))
    at = next(at for at, statement in enumerate(tree.body) if call in ast.walk(statement))
    tree.body[at:at] = ast.parse(f"{name} = {value}").body
