"""What code of the program reads and changes when it runs as it is while a graph is captured.

``__torch_dispatch__`` of wrapper classes is called by torch, on fake tensors: it is not interpreted. So the state that
it can reach (globals that it names, attributes of modules, cells, class attributes, the objects in them) is guarded,
and looked at before and behind each call. Code that changes any of it, prints, logs or draws numbers must not run while
capturing: what it did is undone, and the program runs as it is. So it does where the state is in something that tells
nobody what it holds: context variables, the environment, iterators, thread-local objects, the clock.
"""

from __future__ import annotations

import collections
import contextvars
import datetime
import enum
import functools
import logging
import os
import random
import re
import sys
import threading
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .signals import GraphBreak
from .source import written_in_python

if TYPE_CHECKING:
    from .tracer import Tracer

CONTAINERS = (list, dict, set, collections.deque)
CONSTANTS = frozenset({int, float, str, bool, bytes, type(None)})
NOT_OF_THE_PROGRAM = frozenset({"torch", "numpy", "builtins", "firesteel", *sys.stdlib_module_names}) - {"__main__"}
IRREVOCABLE = frozenset({"print", "input", "write", "writelines", "warn", "system", "send"})
"""Builtins that do something outside of the process, or that is seen there."""
STATEFUL_MODULES = frozenset({"time", "posix", "nt", "_random", "_socket", "_io", "_locale", "_thread"})
"""Modules in C whose functions answer differently from call to call."""
STATEFUL_FUNCTIONS = frozenset({"getcontext", "now", "utcnow", "today"})
IMMUTABLE = (
    complex, range, slice, type(Ellipsis), type(NotImplemented), frozenset, types.CodeType, re.Pattern, enum.Enum,
    datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, types.GenericAlias, types.UnionType,
    typing.TypeVar, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodWrapperType, type(threading.Lock()),
    type(threading.RLock()), torch.dtype, torch.device, torch.layout, torch.memory_format)
"""What holds nothing that could change; locks do not count."""
IMMUTABLE_MODULES = frozenset({"typing", "typing_extensions", "pathlib", "decimal", "fractions", "uuid", "abc", "_abc",
                               "__future__", "operator", "dataclasses"})
"""Modules whose objects hold nothing that could change."""
_METHODS = (types.FunctionType, staticmethod, classmethod, property)
_LOGGING = logging.Logger.callHandlers.__code__
_IMPORTING = ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")
_GET_LOGGER = logging.getLogger.__code__
_ENVIRONMENT = frozenset(member.__code__ for member in vars(type(os.environ)).values()
                         if isinstance(member, types.FunctionType))
_MOST_ITEMS = 64
_MOST_THINGS = 5000
_STANDARD_LIBRARY = os.path.dirname(os.__file__)


@dataclass(eq=False, repr=False)
class ProgramState:
    """What some classes can reach. It has no text of its own: that would call code of the program's."""

    tables: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    """Globals and attributes of modules, by the dictionary they are in and their name."""
    cells: list[types.CellType] = field(default_factory=list)
    classes: list[type] = field(default_factory=list)
    containers: list[Any] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)
    things: list[Any] = field(default_factory=list)
    """All that was found: alive, so that nothing else gets one of their identities."""
    unknown: str | None = None
    """Something found whose state cannot be compared."""

    def contents(self) -> list[Any]:
        """Shallow copies of everything."""
        return [
            [table.get(name, _ABSENT) for table, name in self.tables],
            [_content(cell) for cell in self.cells],
            [dict(vars(cls)) for cls in self.classes],
            [_copy(container) for container in self.containers],
            [_members(obj) for obj in self.objects],
        ]

    def fingerprint(self) -> tuple[Any, ...]:
        """Equal while nothing has changed."""
        globals_, cells, classes, containers, objects = self.contents()
        return (tuple(map(_key, globals_)), tuple(map(_key, cells)), tuple(map(_keys, classes)),
                tuple(map(_keys, containers)), tuple(map(_keys, objects)))

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
                kind: Any = next(kind for kind in CONTAINERS if isinstance(container, kind))
                kind.clear(container)
                (kind.extend if kind in {list, collections.deque} else kind.update)(container, items)
        for obj, members in zip(self.objects, objects, strict=True):
            now = _members(obj)
            for name in now.keys() - members.keys():
                object.__delattr__(obj, name)
            for name, value in members.items():
                if now.get(name, _ABSENT) is not value:
                    object.__setattr__(obj, name, value)


_ABSENT = object()


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _members(obj: Any) -> dict[str, Any]:
    """The attributes of an instance: its dictionary and its slots."""
    members = dict(vars(obj)) if hasattr(obj, "__dict__") else {}
    for cls in type(obj).__mro__:
        if written_in_python(cls) and "__slots__" in vars(cls):
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType):
                    with suppress(AttributeError):
                        members[name] = member.__get__(obj)
    return members


def _key(value: Any) -> Any:
    """Equal for what is the same: constants by value, everything else by identity."""
    if type(value) is float and (value == 0 or value != value):  # two zeros are equal, and nan does not equal itself
        return (float, str(value))
    return (type(value), value) if type(value) in CONSTANTS else id(value)


def _keys(items: Any) -> tuple[Any, ...]:
    if isinstance(items, dict):
        if len(items) > _MOST_ITEMS:
            return tuple(map(id, items.keys())), tuple(map(id, items.values()))
        return tuple([(_key(name), _key(value)) for name, value in items.items()])
    if len(items) > _MOST_ITEMS:
        return tuple(map(id, items))
    return tuple([_key(item) for item in items])


@functools.lru_cache(1000)
def _is_of_program(package: str) -> bool:
    if package not in NOT_OF_THE_PROGRAM:
        return True
    file = getattr(sys.modules.get(package), "__file__", None)  # a program may have a module named ``code``
    return package in sys.stdlib_module_names and isinstance(file, str) and not file.startswith(_STANDARD_LIBRARY)


def _of_program(module: Any) -> bool:
    return isinstance(module, str) and _is_of_program(module.partition(".")[0])


def _of_torch(thing: Any) -> bool:
    return (getattr(type(thing), "__module__", None) or "").partition(".")[0] in ("torch", "numpy")


class _Search:
    """Finds everything that methods of a class can reach."""

    def __init__(self, cls: type) -> None:
        self.state = ProgramState()
        self.seen: set[int] = set()
        self.queue: list[Any] = [cls]
        self.names: set[str] = set()
        """All names and strings in code: what may be read of a module."""
        self.modules: list[types.ModuleType] = []
        self.numpy = ""
        """The module of NumPy's that was found: its random numbers are state."""

    def run(self) -> ProgramState:
        read: set[tuple[int, str]] = set()
        while self.queue or self.modules:
            while self.queue:
                self.visit(self.queue.pop())
                if len(self.seen) > _MOST_THINGS:
                    self.state.unknown = self.state.unknown or "more than can be compared"
                    return self.state
            more = False
            for module in self.modules:
                for name in self.names & vars(module).keys():
                    if (id(module), name) not in read:
                        read.add((id(module), name))
                        self.read_of_module(module, name)
                        more = True
            if not more:
                break
        if self.numpy == "numpy.random" or self.numpy and "random" in self.names:
            self.state.unknown = self.state.unknown or "numpy.random"
        return self.state

    def read_of_module(self, module: types.ModuleType, name: str) -> None:
        value = vars(module)[name]
        of_program = _of_program(module.__name__)
        if isinstance(value, types.ModuleType):
            if of_program:
                self.state.tables.append((vars(module), name))
            self.queue.append(value)
        elif of_program or type(value) in CONSTANTS or \
                type(value) in frozenset(CONTAINERS) and len(value) <= _MOST_ITEMS:
            if name.startswith("__") and name.endswith("__"):
                return
            self.state.tables.append((vars(module), name))
            self.queue.append(value)

    def visit(self, thing: Any) -> None:
        if id(thing) in self.seen or type(thing) in CONSTANTS or thing is _ABSENT:
            return
        self.seen.add(id(thing))
        self.state.things.append(thing)
        state, queue = self.state, self.queue
        if isinstance(thing, type):
            for base in thing.__mro__:
                if _of_program(base.__module__) and written_in_python(base):
                    if base not in state.classes:
                        state.classes.append(base)
                    queue.extend(member for name, member in vars(base).items()
                                 if not _is_bookkeeping(name) or isinstance(member, _METHODS))
        elif isinstance(thing, (staticmethod, classmethod)):
            queue.append(thing.__func__)
        elif isinstance(thing, property):
            queue.extend([thing.fget, thing.fset])
        elif isinstance(thing, types.MethodType):
            queue.extend([thing.__self__, thing.__func__])
        elif isinstance(thing, types.FunctionType):
            if _of_program(thing.__module__):
                self.read(thing)
        elif isinstance(thing, functools.partial):
            queue.extend([thing.func, *thing.args, thing.keywords, vars(thing)])
        elif isinstance(thing, types.BuiltinFunctionType):
            if not isinstance(thing.__self__, (types.ModuleType, type)):
                queue.append(thing.__self__)
        elif isinstance(thing, types.ModuleType):
            if thing.__name__ == "numpy" or thing.__name__ == "numpy.random":
                self.numpy = self.numpy or thing.__name__
            elif not _of_torch(thing) and thing.__name__.partition(".")[0] not in ("torch", "numpy"):
                self.modules.append(thing)
        elif isinstance(thing, (tuple, frozenset)):
            queue.extend(thing)
        elif isinstance(thing, CONTAINERS):
            state.containers.append(thing)
            queue.extend([*thing, *thing.values()] if isinstance(thing, dict) else thing)
            if hasattr(thing, "__dict__"):
                self.visit_object(thing)
        elif isinstance(thing, logging.Logger):  # loggers know all others
            state.objects.append(thing)
            queue.extend([thing.parent, *thing.handlers])
        elif isinstance(thing, (torch.Tensor, torch.Generator, torch.nn.Module)) or not _is_stateless(thing):
            self.visit_object(thing)

    def visit_object(self, thing: Any) -> None:
        """An instance, whose attributes are its state; or something whose state is unknown."""
        kind = type(thing)
        if isinstance(thing, torch.Tensor):
            return  # the graph holds it, and reads it when it runs
        if written_in_python(kind) or kind is types.SimpleNamespace:
            self.state.objects.append(thing)
            self.queue.extend([kind, *_members(thing).values()])
        elif not isinstance(thing, CONTAINERS):
            self.state.unknown = self.state.unknown or f"a {kind.__module__}.{kind.__name__}"

    def read(self, function: types.FunctionType) -> None:
        """What a function refers to."""
        table, state = function.__globals__, self.state
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            self.names.update(code.co_names)
            strings = [constant for constant in code.co_consts if isinstance(constant, str)]
            self.names.update(strings)
            codes.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
            for name in (*code.co_names, *strings):  # as in globals()["name"]
                if name in table:
                    if not isinstance(table[name], types.ModuleType) or _of_program(table[name].__name__):
                        state.tables.append((table, name))
                    self.queue.append(table[name])
                elif name in code.co_names:  # imported in the function
                    self.queue.extend(module for each in (name, f"{table.get('__package__')}.{name}")
                                      if (module := sys.modules.get(each)) is not None)
        for cell in function.__closure__ or ():
            state.cells.append(cell)
            self.queue.append(_content(cell))
        self.queue.extend([*(function.__defaults__ or ()), function.__kwdefaults__])
        if vars(function):
            state.objects.append(function)
            self.queue.extend(vars(function).values())


def _is_bookkeeping(name: str) -> bool:
    """Whether Python itself, or a decorator, keeps something about a class under a name."""
    return name.startswith("__") and name.endswith("__") or name.startswith("_abc_")


def _is_stateless(thing: Any) -> bool:
    """Whether an object holds nothing that could change and be seen."""
    module = type(thing).__module__ or ""
    return isinstance(thing, IMMUTABLE) or _of_torch(thing) and not _is_array(thing) or \
        module in IMMUTABLE_MODULES


def _is_array(thing: Any) -> bool:
    """Whether something of NumPy's can change: arrays, and what draws random numbers."""
    module = type(thing).__module__
    return module.startswith("numpy.random") or module.partition(".")[0] == "numpy" and getattr(thing, "ndim", 0) != 0


def state_of(cls: type) -> ProgramState:
    """What the methods of a class can reach."""
    return _Search(cls).run()


class _Watch:
    """Stops code that does something irrevocable, or asks for what nobody can compare, before it does it."""

    def __init__(self) -> None:
        self.reason = ""

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            if (arg.__name__ in IRREVOCABLE or _is_stateful(arg)) and _is_called_by_program(frame):
                self.stop(arg.__name__)
        elif event == "call":
            if frame.f_code is _LOGGING or frame.f_code is _GET_LOGGER and _is_called_by_program(frame):
                self.stop("logging")
            elif frame.f_code in _ENVIRONMENT and _is_called_by_program(frame):
                self.stop("os.environ")

    def stop(self, what: str) -> None:
        self.reason = what
        sys.setprofile(None)
        raise GraphBreak(f"{what} inside of a __torch_dispatch__")


def _is_stateful(function: Any) -> bool:
    """Whether a function in C may answer otherwise in the next call."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        return owner.__name__ in STATEFUL_MODULES and function.__name__ != "fspath" or \
            function.__name__ in STATEFUL_FUNCTIONS
    return isinstance(owner, (random.Random, contextvars.ContextVar)) or \
        isinstance(owner, type) and function.__name__ in STATEFUL_FUNCTIONS


def _is_called_by_program(frame: types.FrameType | None) -> bool:
    """Whether code of the program calls something, itself or through the standard library.

    Not while a module is imported, which happens once, nor where a warning is shown: those that the program issues are
    stopped before, others are torch's.
    """
    by_program = False
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if frame.f_code.co_filename in _IMPORTING or module in ("warnings", "_py_warnings"):
            return False
        package = module.partition(".")[0] if isinstance(module, str) else "firesteel"
        if package == "firesteel":
            break
        if _is_of_program(package):
            by_program = True
        elif package in ("torch", "numpy") and not by_program:
            return False
        frame = frame.f_back
    return by_program


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
        if state.unknown is None:
            tx.guard(None, "program state", "{k[0]}() == {k[1]}", (state.fingerprint, state.fingerprint()))
    if known[cls].unknown is not None:
        raise GraphBreak(f"code of {cls.__name__}, which can reach {known[cls].unknown}")
    return known[cls]  # type: ignore[no-any-return]
