"""The slow version of a guard function: which guard failed, and on what."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..capture.capture import Entry, parameters_of
from ..capture.guards import Guard
from ..capture.source import LocalSource, Source

if TYPE_CHECKING:
    from .units import Unit


@dataclass(frozen=True)
class FailedGuard:
    """A guard that does not hold, the readable source and what was found there."""

    text: str
    source: str
    found: str

    def __str__(self) -> str:
        return f"{self.text}" + (f" (found {self.found})" if self.found else "")


def evaluate(source: Source, values: dict[str, Any]) -> Any:
    """Follow a source from the arguments."""
    if isinstance(source, LocalSource):
        return values[source.variable]
    scope: dict[str, Any] = {}

    def constant(obj: Any) -> str:
        name = f"k{len(scope)}"
        scope[name] = obj
        return name

    if source.base is not None:
        scope["base"] = evaluate(source.base, values)
    return eval(source.code("base", constant), scope)


def first_failure(entry: Entry, unit: Unit, args: tuple[Any, ...]) -> FailedGuard | None:
    """The first guard of an entry that these arguments violate; None when all hold."""
    values = dict(zip(parameters_of(unit.code, unit.start), args, strict=True))
    for guard in (*entry.guards, entry.state_guard):
        failure = _failure(guard, values)
        if failure is not None:
            return failure
    for shape_guard in entry.shape_guards:
        numbers = {symbol: evaluate(entry.symbols[symbol], values) for symbol in shape_guard.expr.free_symbols}
        if not shape_guard.expr.evaluate(numbers):
            return FailedGuard(str(shape_guard.expr), "", "")
    return None


def _failure(guard: Guard, values: dict[str, Any]) -> FailedGuard | None:
    name = guard.source.name if guard.source else ""
    scope: dict[str, Any] = {}

    def variable(source: Source) -> str:
        key = f"v{len(scope)}"
        scope[key] = evaluate(source, values)
        return key

    def constant(obj: Any) -> str:
        key = f"k{len(scope)}"
        scope[key] = obj
        return key

    try:
        if eval(guard.code(variable, constant), scope):
            return None
    except Exception as error:
        return FailedGuard(guard.describe(), name, f"{type(error).__name__}: {error}")
    return FailedGuard(_failing_part(guard, values).describe(), name, _found(scope["v0"]) if guard.source else "")


def _failing_part(guard: Guard, values: dict[str, Any]) -> Guard:
    """Of a guard that is a conjunction, the condition that does not hold."""
    parts = guard.template.split(" and ") if guard.kind in ("tensor", "global state") else []
    for part in parts:
        single = dataclasses.replace(guard, template=part, kind="part")
        if _failure(single, values) is not None:
            return single
    return guard


def changed_numbers(entry: Entry, unit: Unit, args: tuple[Any, ...]) -> set[str]:
    """The numbers an entry was specialised to that are different now, when such a number is why it does not fit."""
    failure = first_failure(entry, unit, args)
    if failure is None or failure.source not in entry.numbers:
        return set()
    values = dict(zip(parameters_of(unit.code, unit.start), args, strict=True))
    changed = set()
    for name, seen in entry.numbers.items():
        try:
            now = evaluate(seen.source, values)
        except Exception:
            continue  # the path to it is gone
        if type(now) is type(seen.value) and now != seen.value:
            changed.add(name)
    return changed


def _found(value: Any) -> str:
    import torch

    if isinstance(value, torch.Tensor):
        return (f"a tensor of shape {tuple(value.shape)}, {value.dtype}, stride {value.stride()}, "
                f"requires_grad={value.requires_grad}")
    text = repr(value)
    return text if len(text) < 120 else text[:117] + "..."
