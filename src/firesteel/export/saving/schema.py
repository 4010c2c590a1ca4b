"""What program.json holds: dataclasses, and a reader that checks every field of a parsed JSON text against them.

>>> read(SavedRange, {"expr": "s0", "lower": 2, "upper": None})
SavedRange(expr='s0', lower=2, upper=None)
>>> read(SavedRange, {"expr": "s0", "lower": "two", "upper": None})
Traceback (most recent call last):
    ...
ValueError: lower: expected int or None, found 'two'
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass, field
from typing import Any

Value = Any
"""JSON of any form, which its own reader checks: see `values` and `trees`."""


@dataclass
class SavedSymbol:
    """A number that inputs or data decide."""

    name: str
    kind: str
    hint: int | float | bool | None
    lower: int | None
    upper: int | None
    source: str


@dataclass
class SavedRange:
    """The values that an expression may have; None where there is no bound."""

    expr: str
    lower: int | None
    upper: int | None


@dataclass
class SavedGuard:
    """A condition on sizes, and the line of the user's that it comes from."""

    expr: str
    file: str | None
    line: int | None
    function: str | None
    op: str


@dataclass
class SavedArgument:
    """A node, or a constant: what an input or output of the graph is."""

    kind: str
    name: str
    value: Value = None


@dataclass
class SavedInput:
    """An input of the graph."""

    kind: str
    argument: SavedArgument
    target: str | None
    persistent: bool | None


@dataclass
class SavedOutput:
    """An output of the graph."""

    kind: str
    argument: SavedArgument
    target: str | None


@dataclass
class SavedModule:
    """A module around an operation: unique key, name, class."""

    key: str
    name: str
    type: str


@dataclass
class SavedNode:
    """An operation."""

    op: str
    name: str
    target: str
    args: list[Value]
    kwargs: dict[str, Value]
    value: Value
    """What is known about the result."""
    stack_trace: str | None = None
    modules: list[SavedModule] = field(default_factory=list)


@dataclass
class SavedGraph:
    """Operations in order, and the graphs that some of them own."""

    nodes: list[SavedNode]
    subgraphs: dict[str, SavedGraph]


@dataclass
class SavedTensor:
    """A tensor: the key of its data in the weights, and how the data is seen."""

    name: str
    key: str
    dtype: str
    shape: list[int]
    stride: list[int]
    offset: int
    device: str
    parameter: bool
    requires_grad: bool


@dataclass
class SavedSignature:
    """How a module is called."""

    inputs: list[SavedArgument]
    outputs: list[SavedArgument]
    in_tree: Value
    out_tree: Value
    argument_names: list[str] | None


@dataclass
class SavedCall:
    """A module of the program."""

    name: str
    signature: SavedSignature | None


@dataclass
class SavedProgram:
    """All of it."""

    firesteel: str
    torch: str
    symbols: list[SavedSymbol]
    ranges: list[SavedRange]
    guards: list[SavedGuard]
    inputs: list[SavedInput]
    outputs: list[SavedOutput]
    graph: SavedGraph
    state: list[SavedTensor]
    constants: list[SavedTensor]
    calls: list[SavedCall]
    examples: list[Value] | None


def read(kind: Any, data: Any, where: str = "") -> Any:
    """An object of a dataclass from parsed JSON, or from one of its own whose fields may be anything; ValueError names
    the field that does not fit."""
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _read_choice(kind, data, where)
    if origin is list:
        if not isinstance(data, list):
            raise _unfit(where, "a list", data)
        inner = typing.get_args(kind)[0]
        return data if inner is Any else [read(inner, item, f"{where}[{number}]") for number, item in enumerate(data)]
    if origin is dict:
        if not isinstance(data, dict):
            raise _unfit(where, "an object", data)
        inner = typing.get_args(kind)[1]
        return data if inner is Any else {key: read(inner, item, f"{where}.{key}") for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _read_object(kind, data, where)
    if type(data) is not kind and not (kind is float and type(data) is int):
        raise _unfit(where, kind.__name__, data)
    return data


def _read_choice(kind: Any, data: Any, where: str) -> Any:
    choices = typing.get_args(kind)
    if data is None and type(None) in choices:
        return None
    rich = [choice for choice in choices if typing.get_origin(choice) or dataclasses.is_dataclass(choice)]
    if rich:
        return read(rich[0], data, where)
    if type(data) not in choices:
        names = ["None" if choice is type(None) else choice.__name__ for choice in choices]
        raise _unfit(where, " or ".join(names), data)
    return data


def _read_object(kind: Any, data: Any, where: str) -> Any:
    if isinstance(data, kind):
        data = vars(data)  # it was made of something else than JSON, and is checked like that
    if not isinstance(data, dict):
        raise _unfit(where, "an object", data)
    fields = {}
    for name, inner, needed in _fields(kind):
        if name in data:
            fields[name] = read(inner, data[name], f"{where}.{name}" if where else name)
        elif needed:
            raise ValueError(f"{where or kind.__name__}: there is no {name}")
    return kind(**fields)


@functools.cache
def _fields(kind: Any) -> list[tuple[str, Any, bool]]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return [(part.name, hints[part.name], part.default is missing and part.default_factory is missing)
            for part in dataclasses.fields(kind)]


def _unfit(where: str, expected: str, data: Any) -> ValueError:
    return ValueError(f"{where}: expected {expected}, found {str(repr(data))[:80]}")
