"""Turns any object graph into a flat list of facts that two runs can be compared by.

A fact is a path such as `result[0].value` and what stands there. An object met a second time is recorded as being the
object at its first path, so that equal facts mean equal aliasing; tensors also tell which of them share storage.
"""

from __future__ import annotations

import enum
import functools
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch

PLAIN = (int, float, complex, str, bytes, type(None), type(Ellipsis), torch.dtype, torch.device, range, slice)
# Lazy iterators whose items are facts when they are part of a result.
ITERATORS = (types.GeneratorType, map, filter, zip, enumerate, reversed)
MAX_ITEMS = 50
# Where an object lies differs from run to run.
ADDRESS = re.compile(" at 0x[0-9a-f]+")
SET_BY_ADDRESS = re.compile(r"\{([^{}:]*(?: at 0x[0-9a-f]+|\bnan\b)[^{}:]*)\}")
# An internal error may hold on to the whole compiler; nobody reads on after this many facts.
MAX_FACTS = 20_000


SPARSE = (torch.sparse_coo, torch.sparse_csr)


@dataclass(frozen=True)
class TensorFact:
    """What can be observed of a tensor; `storage` is the path of the first tensor on the same storage."""

    type: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    requires_grad: bool | None
    """None where autograd refuses to say: a view whose base was changed in a way that is forbidden."""
    is_leaf: bool
    storage: str
    values: torch.Tensor


@dataclass
class Drained:
    """An iterator of a result, run to its end."""

    kind: str
    items: list[Any]
    ended_with: str


Facts = list[tuple[str, Any]]


def drain(value: Any) -> Any:
    """The value with the iterators in it consumed, which is how a caller would look at them."""
    if isinstance(value, ITERATORS):
        items: list[Any] = []
        ended_with = "end"
        try:
            for item in value:
                items.append(drain(item))
                if len(items) >= MAX_ITEMS:
                    ended_with = "limit"
                    break
        except Exception as error:
            ended_with = f"{type(error).__name__}: {error}"
        return Drained(type(value).__name__, items, ended_with)
    # Only exact types are rebuilt, and only when they do hold an iterator, so that identities stay as they are.
    if type(value) is tuple or type(value) is list:
        drained = [drain(item) for item in value]
        if any(new is not old for new, old in zip(drained, value, strict=True)):
            return type(value)(drained)
    elif type(value) is dict:
        pairs = {key: drain(item) for key, item in value.items()}
        if any(pairs[key] is not value[key] for key in value):
            return pairs
    return value


class Snapshot:
    """Collects the facts of several roots that may share objects."""

    def __init__(self) -> None:
        self.facts: Facts = []
        self._seen: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        # Keeps every object alive so that ids stay unique.
        self._alive: list[Any] = []

    def add(self, path: str, value: Any) -> None:
        if len(self.facts) >= MAX_FACTS:
            return
        if isinstance(value, PLAIN) and type(value).__module__ in ("builtins", "torch"):
            fact = without_addresses(value) if type(value) is str else value
            self.facts.append((path, (type(value).__name__, fact)))
        elif type(value) is tuple or type(value) is frozenset:
            # Python may or may not share equal immutable objects, so their identity is no fact.
            self._children(path, value)
        elif id(value) in self._seen:
            self.facts.append((path, ("is", self._seen[id(value)])))
        else:
            self._seen[id(value)] = path
            self._alive.append(value)
            self._children(path, value)

    def path_of(self, value: Any) -> str | None:
        """Where an object was first found, if it was."""
        return self._seen.get(id(value))

    def _children(self, path: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.layout in SPARSE:
            self.facts.append((path, ("layout", str(value.layout))))
            self._tensor(path, value.detach().to_dense())
            return
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
            return
        self.facts.append((path, ("type", _type_name(type(value)))))
        for name, child in _parts(value, self._seen):
            self.add(path + name, child)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        pointer = value.untyped_storage()._cdata
        # what has no elements shares none
        storage = self._storages.setdefault(pointer, path) if value.numel() else path
        self._alive.append(value.untyped_storage())
        fact = TensorFact(
            _type_name(type(value)),
            value.dtype,
            tuple(value.shape),
            tuple(value.stride()),
            int(value.storage_offset()),
            requires_grad(value),
            requires_grad(value) is not None and value.is_leaf,
            storage,
            value.data.clone(),
        )
        self.facts.append((path, fact))
        if fact.is_leaf and value.grad is not None:
            self.add(path + ".grad", value.grad)


def requires_grad(tensor: torch.Tensor) -> bool | None:
    """Whether a tensor requires grad; None where autograd refuses to say."""
    try:
        return tensor.requires_grad if tensor.is_leaf else True
    except RuntimeError:
        return None


def _type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _array_parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What NumPy says of an array, or of a scalar, and its elements."""
    yield ".dtype", str(value.dtype)
    yield ".shape", value.shape
    if isinstance(value, numpy.ndarray):
        # of one element, or none, a stride says nothing
        steps = zip(value.strides, value.shape, strict=True)
        yield ".strides", [step for step, size in steps if size > 1 and value.size]
        yield ".writeable", value.flags.writeable
    if value.dtype.kind in "biufc" and value.dtype.itemsize <= 16:
        yield ".elements", torch.from_numpy(numpy.array(value, order="C"))


def _parts(value: Any, seen: dict[int, str]) -> Iterator[tuple[str, Any]]:
    """What an object consists of, in an order that does not depend on addresses; `seen` are paths of objects found."""
    if isinstance(value, type):
        yield ".name", _type_name(value)
        for name, item in vars(value).items():
            if isinstance(item, (*PLAIN, list, dict, torch.Tensor)) and not name.startswith("__"):
                yield f".{name}", item
        return
    if isinstance(value, types.FunctionType):
        yield from _function_parts(value)
        return
    if isinstance(value, types.ModuleType):
        yield ".name", value.__name__
        return
    if isinstance(value, functools.partial):
        yield ".func", value.func
        yield ".args", value.args
        yield ".keywords", value.keywords
        return
    if isinstance(value, types.MethodType):
        yield ".func", value.__func__
        yield ".self", value.__self__
        return
    if isinstance(value, enum.Enum):
        yield ".name", value.name
        return
    if isinstance(value, torch.Generator):
        yield ".state", value.get_state()
        return
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        yield from _array_parts(value)
        return
    if isinstance(value, BaseException):
        yield from exception_parts(value)
    for base in (int, float, str, bytes):  # a subclass of the program's
        if isinstance(value, base):
            yield ".plain", base.__new__(base, value) if base is not str else str.__str__(value)
    if isinstance(value, dict):
        if isinstance(value, defaultdict) and value.default_factory is not None:
            yield ".default_factory", value.default_factory
        # what it holds, whatever a class of the program's says about that
        items = OrderedDict.items if isinstance(value, OrderedDict) else dict.items
        for index, (key, item) in enumerate(items(value)):
            if isinstance(key, PLAIN):
                yield f"[{key!r} at {index}]", item
            else:
                yield f".key{index}", key
                yield f".item{index}", item
    elif isinstance(value, (set, frozenset)):
        # Python promises no order for sets; a program that depends on it shows it in other values.
        # Two that print alike are told apart by where they were found before.
        for index, item in enumerate(sorted(members(value), key=lambda item: (
                *_address_free(item), seen.get(id(item), "")))):
            yield f".member{index}", item
    elif isinstance(value, (list, tuple, deque)):
        for index, item in enumerate(members(value)):
            yield f"[{index}]", item
        if isinstance(value, deque):
            yield ".maxlen", value.maxlen
    yield from _attributes(value)


def members(value: Any) -> Iterator[Any]:
    """The items of a sequence or set as its builtin base gives them."""
    base = next(base for base in type(value).__mro__ if base in (list, tuple, deque, set, frozenset))
    return iter(base.__iter__(value))


def _address_free(value: Any) -> tuple[str, str]:
    """What tells the members of a set apart in every run: how they print, then what they hold."""
    text = without_addresses(repr(value)), without_addresses(repr(getattr(value, "__dict__", None)))
    if type(value) is not torch.Tensor or value.layout is not torch.strided:
        return text
    return text[0], f"{value.storage_offset():9}"


def without_addresses(text: str) -> str:
    """The text in any run: without addresses, and without the order of sets whose elements are hashed by theirs."""
    if "{" in text:
        text = SET_BY_ADDRESS.sub(lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", text)
    return ADDRESS.sub("", text) if " at 0x" in text else text


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    try:
        attributes = object.__getattribute__(value, "__dict__")  # past what a class of the program's says about that
    except AttributeError:
        return
    if not isinstance(attributes, dict):
        return
    for name, item in attributes.items():
        if isinstance(value, torch.nn.Module) and name.startswith("_") and not item:
            continue  # empty hook tables
        if name == "_compiled_call_impl":
            continue  # what `Module.compile()` leaves there
        yield f".{name}", item


def _function_parts(value: types.FunctionType) -> Iterator[tuple[str, Any]]:
    yield ".name", value.__qualname__
    yield ".defaults", value.__defaults__
    yield ".kwdefaults", value.__kwdefaults__
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        try:
            yield f".cell_{name}", cell.cell_contents
        except ValueError:
            yield f".cell_{name}", "<empty>"


def exception_parts(error: BaseException) -> Iterator[tuple[str, Any]]:
    """An exception's arguments and the exceptions behind it."""
    yield ".args", error.args
    yield ".cause", error.__cause__
    yield ".context", error.__context__
    yield ".suppress_context", error.__suppress_context__
    yield ".notes", getattr(error, "__notes__", None)
