"""What code of the program reads and changes when it runs as it is while a graph is captured.

``__torch_dispatch__`` of wrapper classes is called by torch, on fake tensors: it is not interpreted. So the state that
it can reach (globals that it names, cells, class attributes, the objects in them) is guarded, and looked at before and
behind each call. Code that changes any of it, prints, logs or draws numbers must not run while capturing: what it did
is undone, and the program runs as it is.
"""

from __future__ import annotations

import collections
import logging
import random
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .signals import GraphBreak
from .source import written_in_python

if TYPE_CHECKING:
    from .tracer import Tracer

CONTAINERS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
CONSTANTS = (int, float, str, bool, bytes, type(None))
NOT_OF_THE_PROGRAM = frozenset({"torch", "numpy", "builtins", *sys.stdlib_module_names}) - {"__main__"}
IRREVOCABLE = frozenset({"print", "input", "write", "writelines", "warn", "system", "send"})
"""Builtins that do something outside of the process, or that is seen there."""
_LOGGING = logging.Logger.callHandlers.__code__
_MOST_ITEMS = 64


@dataclass
class ProgramState:
    """What some classes can reach."""

    tables: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    """Globals, by the dictionary they are in and their name."""
    cells: list[types.CellType] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)
    containers: list[Any] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)

    def contents(self) -> list[Any]:
        """Shallow copies of everything."""
        return [
            [table.get(name, _ABSENT) for table, name in self.tables],
            [_content(cell) for cell in self.cells],
            [dict(vars(cls)) for cls in self.classes],
            [_copy(container) for container in self.containers],
            [dict(vars(obj)) for obj in self.objects],
        ]

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal while nothing has changed; large containers are compared by their lengths."""
        globals_, cells, classes, containers, objects = self.contents()
        return (tuple(map(_key, globals_)), tuple(map(_key, cells)),
                tuple([tuple([_key(value) for value in table.values()]) for table in classes]),
                tuple([len(items) if len(items) > _MOST_ITEMS else _keys(items) for items in containers]),
                tuple([tuple([_key(value) for value in table.values()]) for table in objects]))

    def restore(self, before: list[Any]) -> None:
        """Put everything back."""
        globals_, cells, classes, containers, objects = before
        for (table, name), value in zip(self.tables, globals_, strict=True):
            if value is not _ABSENT and table.get(name, _ABSENT) is not value:
                table[name] = value
        for cell, value in zip(self.cells, cells, strict=True):
            if value is not _ABSENT:
                cell.cell_contents = value
        for cls, members in zip(self.classes, classes, strict=True):
            for name in [name for name in vars(cls) if name not in members]:
                delattr(cls, name)
            for name, value in members.items():
                if vars(cls).get(name) is not value:
                    setattr(cls, name, value)
        for container, items in zip(self.containers, containers, strict=True):
            if _keys(container) != _keys(items):
                container.clear()
                (container.extend if isinstance(container, (list, collections.deque)) else container.update)(items)
        for obj, members in zip(self.objects, objects, strict=True):
            vars(obj).clear()
            vars(obj).update(members)


_ABSENT = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _key(value: Any) -> Any:
    """Equal for what is the same: constants by value, everything else by identity."""
    return (type(value), value) if type(value) in CONSTANTS else id(value)


def _keys(items: Any) -> tuple[Any, ...]:
    if isinstance(items, dict):
        return tuple([(_key(name), _key(value)) for name, value in items.items()])
    return tuple([_key(item) for item in items])


def _of_program(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] not in NOT_OF_THE_PROGRAM


def state_of(cls: type) -> ProgramState:
    """What the methods of a class can reach."""
    state = ProgramState()
    seen: set[int] = set()
    queue: list[Any] = [cls]
    while queue:
        thing = queue.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, type):
            for base in thing.__mro__:
                if _of_program(base.__module__) and written_in_python(base):
                    if base not in state.classes:
                        state.classes.append(base)
                    queue.extend(vars(base).values())
        elif isinstance(thing, (staticmethod, classmethod)):
            queue.append(thing.__func__)
        elif isinstance(thing, property):
            queue.extend([thing.fget, thing.fset])
        elif isinstance(thing, types.FunctionType) and _of_program(thing.__module__):
            queue.extend(_read_by(thing, state))
        elif type(thing) in CONTAINERS:
            state.containers.append(thing)
            if len(thing) <= _MOST_ITEMS:
                queue.extend(thing.values() if isinstance(thing, dict) else thing)
        elif written_in_python(type(thing)) and _of_program(type(thing).__module__) and hasattr(thing, "__dict__") \
                and not isinstance(thing, types.ModuleType):
            state.objects.append(thing)
            queue.extend([type(thing), *vars(thing).values()])
    return state


def _read_by(function: types.FunctionType, state: ProgramState) -> Iterator[Any]:
    """What a function refers to."""
    codes = [function.__code__]
    table = function.__globals__
    while codes:
        code = codes.pop()
        codes.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
        for name in code.co_names:
            if name in table and not isinstance(table[name], types.ModuleType):
                state.tables.append((table, name))
                yield table[name]
    for cell in function.__closure__ or ():
        state.cells.append(cell)
        yield _content(cell)
    yield from function.__defaults__ or ()
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield wrapped


class _Watch:
    """Stops code that does something irrevocable before it does it."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            concerns = arg.__name__ in IRREVOCABLE or isinstance(getattr(arg, "__self__", None), random.Random)
            if concerns and _of_program(frame.f_globals.get("__name__")):
                self.stop(arg.__name__)
        elif event == "call" and frame.f_code is _LOGGING:
            self.stop("logging")

    def stop(self, what: str) -> None:
        self.reason = what
        sys.setprofile(None)
        raise GraphBreak(f"{what} inside of a __torch_dispatch__")


@contextmanager
def watched(tx: Tracer, classes: list[type], objects: list[Any]) -> Iterator[None]:
    """Around code of these classes, with fake objects of theirs: nothing that it does may be seen behind it."""
    states = [state for cls in classes if (state := _known(tx, cls)) is not None]
    before = [state.contents() for state in states]
    prints = [state.fingerprint() for state in states]
    own = [(obj, dict(vars(obj))) for obj in objects]
    watch, outer = _Watch(), sys.getprofile()
    if states:
        sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(outer)
        changed = [state for state, print_ in zip(states, prints, strict=True) if state.fingerprint() != print_]
        for state, contents in zip(states, before, strict=True):
            if state in changed:
                state.restore(contents)
    if watch.reason:
        raise GraphBreak(f"{watch.reason} inside of a __torch_dispatch__")
    if changed:
        raise GraphBreak(f"the __torch_dispatch__ of {classes[0].__name__} changes something besides its result")
    for obj, members in own:
        if any(vars(obj).get(name) is not value for name, value in members.items()) or len(members) != len(vars(obj)):
            raise GraphBreak(f"the __torch_dispatch__ of {type(obj).__name__} changes attributes of a tensor")


def _known(tx: Tracer, cls: type) -> ProgramState | None:
    """The state that a class can reach, guarded; None for classes of torch's own."""
    if not any(_of_program(base.__module__) for base in cls.__mro__):
        return None
    known = tx.torch_functions.states
    if cls not in known:
        state = known[cls] = state_of(cls)
        tx.guard(None, "program state", "{k[0]}() == {k[1]}", (state.fingerprint, state.fingerprint()))
    return known[cls]
