"""What a plain run of a program reads: a tracing run finds the code that runs, a walk finds the objects it can reach.

A place is a path of steps from a root of the program (a global, an argument, the function itself), so that it can be
found again in another run, whose objects are others.
"""

from __future__ import annotations

import collections
import dis
import enum
import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

Step = tuple[str, Any]
Path = tuple[Step, ...]

BINARY = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul",
    "&": "and", "|": "or", "^": "xor",
}
COMPARED = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
CONTAINERS = (list, dict, set, collections.deque)
MAX_DEPTH = 7


@dataclass
class Trace:
    """The code that ran, by whose names the walk is guided, and the functions of torch that it called."""

    codes: dict[types.CodeType, None] = field(default_factory=dict)
    functions: dict[str, None] = field(default_factory=dict)
    methods: dict[str, None] = field(default_factory=dict)
    modules: dict[type, None] = field(default_factory=dict)

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """Every name and short text in the code that ran: attributes are read by either."""
        found: set[str] = set()
        for code in self.codes:
            found |= {*code.co_names, *code.co_freevars, *code.co_cellvars}
            found |= {value for value in code.co_consts if isinstance(value, str) and value.isidentifier()}
        return frozenset(found)

    def operators(self) -> list[str]:
        """Special methods that operators in the code may call."""
        found: dict[str, None] = {}
        for code in self.codes:
            for instruction in dis.get_instructions(code):
                if instruction.opname == "BINARY_OP":
                    symbol = instruction.argrepr
                    name = BINARY.get(symbol.rstrip("="), "")
                    if name:
                        found[f"__i{name}__" if symbol.endswith("=") else f"__{name}__"] = None
                elif instruction.opname == "COMPARE_OP" and instruction.argrepr in COMPARED:
                    found[f"__{COMPARED[instruction.argrepr]}__"] = None
                elif instruction.opname == "BINARY_SUBSCR":
                    found["__getitem__"] = None
                elif instruction.opname == "UNARY_NEGATIVE":
                    found["__neg__"] = None
        return list(found)


def traced(trace: Trace, filename: str, function: Callable[[], Any]) -> Any:
    """Call `function` and note what runs: code of the program's file, and what it calls of torch."""

    def is_ours(code: types.CodeType) -> bool:
        # torch's modules are programs like any other: their code is looked into, that of functions is not
        return code.co_filename == filename or "/torch/nn/modules/" in code.co_filename

    def profile(frame: types.FrameType, event: str, argument: Any) -> None:
        if event == "call":
            caller = frame.f_back
            if is_ours(frame.f_code):
                trace.codes[frame.f_code] = None
                owner = frame.f_locals.get("self")
                if isinstance(owner, torch.nn.Module):
                    trace.modules[type(owner)] = None
            elif caller is not None and is_ours(caller.f_code):
                _note_function(trace, frame.f_globals.get(frame.f_code.co_name))
        elif event == "c_call" and is_ours(frame.f_code):
            owner = getattr(argument, "__self__", None)
            if isinstance(owner, torch.Tensor):
                trace.methods[argument.__name__] = None
            else:
                _note_function(trace, argument)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return function()
    finally:
        sys.setprofile(before)


TORCH_SPACES = {"torch": torch, "torch.nn.functional": torch.nn.functional}


def _note_function(trace: Trace, function: Any) -> None:
    name = getattr(function, "__name__", None)
    for space, module in TORCH_SPACES.items():
        if isinstance(name, str) and function is not None and vars(module).get(name) is function:
            trace.functions[f"{space}.{name}"] = None


@dataclass
class Roots:
    """Where paths begin: one run of a program."""

    namespace: dict[str, Any]
    function: Any
    calls: list[tuple[list[Any], dict[str, Any]]]

    def resolve(self, path: Path) -> Any:
        """The object at a path; KeyError, AttributeError and the like when this run has none."""
        value: Any = self
        for step in path:
            value = follow(value, step)
        return value


def follow(value: Any, step: Step) -> Any:
    """Take one step."""
    kind, key = step
    if kind == "global":
        return value.namespace[key]
    if kind == "function":
        return value.function
    if kind == "argument":
        return value.calls[key[0]][0][key[1]]
    if kind == "keyword":
        return value.calls[key[0]][1][key[1]]
    if kind == "item":
        return value[key]
    if kind == "key":
        return list(value)[key]
    if kind == "attribute":
        return vars(value)[key]
    if kind == "slot":
        return getattr(value, key)
    if kind == "member":
        return vars(value)[key]
    if kind == "class":
        return type(value)
    if kind == "base":
        return value.__mro__[key]
    if kind == "cell":
        return value.__closure__[key].cell_contents
    if kind == "default":
        return value.__defaults__[key]
    if kind == "keyword default":
        return value.__kwdefaults__[key]
    if kind == "part":  # of a bound method, a partial or a property
        return getattr(value, key)
    raise AssertionError(kind)


def show(path: Path) -> str:
    """A path as text."""
    text = ""
    for kind, key in path:
        if kind in ("item", "key"):
            text += f"[{key!r}]"
        elif kind in ("argument", "keyword"):
            text += f"call {key[0]} {key[1]}"
        elif kind in ("global", "function"):
            text += str(key)
        else:
            text += f".{key if kind in ('attribute', 'slot', 'member', 'part') else f'<{kind} {key}>'}"
    return text


class Walk:
    """Every place that the program can reach, each object once, in an order that does not depend on addresses."""

    def __init__(self, roots: Roots, trace: Trace, module: str) -> None:
        self.roots = roots
        self.names = trace.names
        self.module = module
        self._seen: dict[int, Any] = {}

    def places(self) -> Iterator[tuple[Path, Any]]:
        queue: collections.deque[tuple[Path, Any]] = collections.deque()
        queue.append(((("function", "fn"),), self.roots.function))
        for name, value in self.roots.namespace.items():
            if name in self.names and name != "make":
                queue.append(((("global", name),), value))
        for index, (args, kwargs) in enumerate(self.roots.calls):
            queue.extend(((("argument", (index, position)),), value) for position, value in enumerate(args))
            queue.extend(((("keyword", (index, name)),), value) for name, value in kwargs.items())
        while queue:
            path, value = queue.popleft()
            yield path, value
            if id(value) in self._seen or len(path) >= MAX_DEPTH:
                continue
            self._seen[id(value)] = value
            queue.extend(((*path, step), child) for step, child in self.children(value))

    def children(self, value: Any) -> Iterator[tuple[Step, Any]]:
        if isinstance(value, (list, tuple, collections.deque)):
            for index, item in enumerate(value):
                yield ("item", index), item
        if isinstance(value, dict):
            for index, (key, item) in enumerate(value.items()):
                if isinstance(key, (str, int)):
                    yield ("item", key), item
                else:
                    yield ("key", index), key
        if isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, types.MethodType):
            yield ("part", "__self__"), value.__self__
            yield ("part", "__func__"), value.__func__
        elif isinstance(value, functools.partial):
            yield ("part", "func"), value.func
            yield ("part", "args"), value.args
            yield ("part", "keywords"), value.keywords
        elif isinstance(value, (staticmethod, classmethod)):
            yield ("part", "__func__"), value.__func__
        elif isinstance(value, property):
            if value.fget is not None:
                yield ("part", "fget"), value.fget
        elif isinstance(value, type):
            if value.__module__ == self.module:
                for name, member in vars(value).items():
                    if name in self.names or (name.startswith("__") and isinstance(member, types.FunctionType)):
                        yield ("member", name), member
                for index, base in enumerate(value.__mro__[1:]):
                    if base.__module__ == self.module:
                        yield ("base", index + 1), base
        elif isinstance(value, types.ModuleType):
            if not _is_library(value.__name__):
                for name, member in vars(value).items():
                    if name in self.names:
                        yield ("attribute", name), member
        elif not isinstance(value, torch.Tensor):
            yield from self._instance(value)

    def _function(self, value: types.FunctionType) -> Iterator[tuple[Step, Any]]:
        if value.__code__.co_filename.startswith("<fuzz"):
            for index, cell in enumerate(value.__closure__ or ()):
                try:
                    yield ("cell", index), cell.cell_contents
                except ValueError:
                    pass  # empty
            for index, default in enumerate(value.__defaults__ or ()):
                yield ("default", index), default
            for name, default in (value.__kwdefaults__ or {}).items():
                yield ("keyword default", name), default
            for name, item in vars(value).items():
                yield ("attribute", name), item

    def _instance(self, value: Any) -> Iterator[tuple[Step, Any]]:
        kind = type(value)
        mine = kind.__module__ == self.module
        if not mine and not isinstance(value, (torch.nn.Module, types.SimpleNamespace, enum.Enum)):
            return
        for name, item in getattr(value, "__dict__", {}).items():
            if name in self.names or name in ("_parameters", "_buffers", "_modules", "training", "_value_"):
                yield ("attribute", name), item
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if isinstance(member, types.MemberDescriptorType) and name in self.names and hasattr(value, name):
                    yield ("slot", name), getattr(value, name)
        if mine:
            yield ("class", kind.__name__), kind


def _is_library(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and (getattr(module, "__file__", None) is not None or name in sys.builtin_module_names)
