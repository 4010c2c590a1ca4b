"""The slow version of a guard function: which guard failed, and on what."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..capture.dynamism import changes, in_module, outdated_sizes
from ..capture.entries import Entry, parameters_of
from ..capture.guards import Guard
from ..capture.learned import NOTHING, Learned
from ..capture.source import InstanceDictSource, LocalSource, SizeSource, Source, StrideSource
from ..errors import UserFrame
from ..records import dataclass
from ..shape_markers import class_marked_static
from ..shapes import print_python
from ..torch_compat.subclasses import DisableSubclasses

if TYPE_CHECKING:
    from .units import Unit


LAYOUT = re.compile(r"\.(shape|size\(\d+\)|stride\(\d*\)) ==")


@dataclass(frozen=True)
class FailedGuard:
    """A guard that does not hold, the readable source and what was found there."""

    text: str
    source: str
    found: str
    is_shape: bool = False
    """Whether it is about sizes, strides or relations between numbers."""
    content: str = ""
    """Whether it is about the "length" of a list or another container, or about a "text"."""
    frames: tuple[UserFrame, ...] = ()
    """Where the program came to rely on it, outermost call first."""
    before: str = ""
    """What it was when the program was captured."""
    now: str = ""
    """What it is in this call."""

    def __str__(self) -> str:
        return f"{self.text}" + (f" (found {self.found})" if self.found else "")


class Values:
    """The arguments of a call, and what sources lead to from there, each followed once."""

    def __init__(self, unit: Unit, args: tuple[Any, ...]) -> None:
        self.variables = dict(zip(parameters_of(unit.code, unit.start), args, strict=True))
        self.known: dict[Source, Any] = {}

    def of(self, source: Source) -> Any:
        """Follow a source from the arguments."""
        if isinstance(source, LocalSource):
            return self.variables[source.variable]
        if source not in self.known:
            scope: dict[str, Any] = {}

            def constant(obj: Any) -> str:
                name = f"k{len(scope)}"
                scope[name] = obj
                return name

            if source.base is not None:
                scope["base"] = self.of(source.base)
            self.known[source] = eval(source.code("base", constant), scope)
        return self.known[source]


def first_failure(entry: Entry, unit: Unit, args: tuple[Any, ...]) -> FailedGuard | None:
    """The first guard of an entry that these arguments violate; None when all hold."""
    return _first_failure(entry, Values(unit, args))


def _first_failure(entry: Entry, values: Values) -> FailedGuard | None:
    for guard in (*entry.guards, entry.state_guard):
        failure = _failure(guard, values)
        if failure is not None:
            return failure
    for shape_guard in entry.shape_guards:
        symbols = shape_guard.expr.free_symbols
        sources = {symbol: entry.symbols[symbol] for symbol in symbols}
        numbers = {symbol: values.of(source) for symbol, source in sources.items()}
        if not shape_guard.expr.evaluate(numbers):
            names = {symbol: source.name for symbol, source in sources.items()}
            text = print_python(shape_guard.expr, names)
            where = f", needed at {shape_guard.provenance}" if shape_guard.provenance.frames else ""
            numbers_now = ", ".join(sorted(f"{names[symbol]} = {numbers[symbol]}" for symbol in symbols))
            then = ", ".join(sorted(f"{names[symbol]} = {number}" for symbol, source in sources.items()
                                    if (number := _number_before(entry, source)) is not None))
            return FailedGuard(text, "", numbers_now + where, is_shape=True, frames=shape_guard.provenance.frames,
                               before=then, now=numbers_now)
    return None


def _failure(guard: Guard, values: Values) -> FailedGuard | None:
    name = guard.source.name if guard.source else ""
    scope: dict[str, Any] = {}

    def variable(source: Source) -> str:
        key = f"v{len(scope)}"
        scope[key] = values.of(source)
        return key

    def constant(obj: Any) -> str:
        key = f"k{len(scope)}"
        scope[key] = obj
        return key

    try:
        if eval(guard.code(variable, constant), scope):
            return None
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        return FailedGuard(guard.describe(), name, why, frames=guard.frames, now=f"not to be had: {why}")
    part = _failing_part(guard, values)
    is_shape = guard.kind in ("tensor", "part") and LAYOUT.search(part.template) is not None
    is_text = guard.kind == "constant" and type(scope.get("v0")) is str
    content = "length" if guard.kind == "length" else "text" if is_text else ""
    text = _found(scope["v0"]) if guard.source else ""
    before, now = _both_values(part, values) or ("", text)
    return FailedGuard(part.describe(), name, text, is_shape, content, guard.frames, before, now)


def _number_before(entry: Entry, source: Source) -> Any:
    """What a size, stride or number was when an entry was captured; None where that is not known."""
    if source.name in entry.numbers:
        return entry.numbers[source.name].value
    tensor = entry.tensors.get(source.base.name) if source.base is not None else None
    if tensor is None or not isinstance(source, SizeSource | StrideSource):
        return None
    return (tensor.shape if isinstance(source, SizeSource) else tensor.stride)[source.dim]


def _both_values(guard: Guard, values: Values) -> tuple[str, str] | None:
    """What a condition of the form ``this == that`` compares: what was, and what is there now."""
    scope: dict[str, Any] = {}

    def bound(obj: Any) -> str:
        key = f"b{len(scope)}"
        scope[key] = obj
        return key

    code = guard.code(lambda source: bound(values.of(source)), bound)
    for part in code.split(" and "):
        try:
            if not eval(part, scope):
                return _sides(part, scope)
        except Exception:
            return None  # a text in it has an "and" of its own
    return None


def _sides(condition: str, scope: dict[str, Any]) -> tuple[str, str] | None:
    """What was and what is, of a condition that does not hold."""
    for sign in (" == ", " is not ", " is "):
        left, separator, right = condition.partition(sign)
        if separator:
            before, now = (_found(eval(side, scope)) for side in (right, left))
            return f"not {before}" if sign == " is not " else before, now
    return ("it was not there", "it is there") if " not in " in condition else None


def _failing_part(guard: Guard, values: Values) -> Guard:
    """Of a guard that is a conjunction, the condition that does not hold."""
    parts = guard.template.split(" and ") if guard.kind in ("tensor", "global state") else []
    for part in parts:
        single = dataclasses.replace(guard, template=part, kind="part")
        if _failure(single, values) is not None:
            return single
    return guard


@dataclass(frozen=True)
class Changed:
    """How arguments differ from those that an entry was made for."""

    learned: Learned
    """What the entry was specialised to, when such a size or number is why it does not fit."""
    outdated: set[int]
    """Sizes of its inputs that these do not have now."""


def changed_inputs(entry: Entry, unit: Unit, args: tuple[Any, ...]) -> Changed:
    """What is different now."""
    values = Values(unit, args)

    def now(source: Source) -> Any:
        try:
            return values.of(source)
        except Exception:
            return None  # the path to it is gone

    tensors = {name: tensor for name, seen in entry.tensors.items() if not in_module(seen.source)
               and isinstance(tensor := now(seen.source), torch.Tensor) and tensor.layout is torch.strided
               and not tensor.is_nested}
    outdated = outdated_sizes(entry.tensors, tensors)
    failure = _first_failure(entry, values)
    if failure is None or not (failure.is_shape or failure.source in entry.numbers):
        return Changed(NOTHING, outdated)
    numbers = set()
    for name, seen in entry.numbers.items():
        number = now(seen.source)
        if type(number) is type(seen.value) and number != seen.value and not _in_static_class(seen.source, now):
            numbers.add(name)
    return Changed(changes(entry.tensors, tensors) | Learned(numbers=frozenset(numbers)), outdated)


def _in_static_class(source: Source, now: Callable[[Source], Any]) -> bool:
    """Whether a number is an attribute of an object whose class is marked static."""
    owner = source.base
    if isinstance(owner, InstanceDictSource):
        owner = owner.base
    return owner is not None and class_marked_static(type(now(owner)))


def _found(value: Any) -> str:
    if type(value) is torch.Size:
        value = tuple(value)
    if isinstance(value, torch.Tensor):
        with DisableSubclasses():
            return _found_tensor(value)
    try:
        text = repr(value) if _has_own_text(value) else object.__repr__(value)
    except RuntimeError:  # another thread changes it at this moment
        text = object.__repr__(value)
    return text if len(text) < 120 else text[:117] + "..."


def _found_tensor(value: torch.Tensor) -> str:
    if value.is_nested:  # has neither sizes nor strides to ask for
        return f"a nested tensor, {value.dtype}, requires_grad={value.requires_grad}"
    if value.layout is not torch.strided:
        return (f"a tensor of layout {value.layout}, shape {tuple(value.shape)}, {value.dtype}, "
                f"requires_grad={value.requires_grad}")
    return (f"a tensor of shape {tuple(value.shape)}, {value.dtype}, stride {value.stride()}, "
            f"requires_grad={value.requires_grad}")


def _has_own_text(value: Any, depth: int = 3) -> bool:
    """Whether an object can be shown without running code of the program's."""
    kind = type(value)
    if kind in {list, tuple, set, frozenset}:
        return depth > 0 and all(_has_own_text(item, depth - 1) for item in value)
    if kind is dict:
        return depth > 0 and all(_has_own_text(item, depth - 1) for pair in value.items() for item in pair)
    if isinstance(value, type):
        return type(value).__repr__ is type.__repr__
    return not (kind.__flags__ & (1 << 9) and isinstance(value, (list, tuple, set, frozenset, dict))) and \
        not isinstance(kind.__repr__, types.FunctionType)
