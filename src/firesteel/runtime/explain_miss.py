"""The slow version of a guard function: which guard failed, and on what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..capture.capture import Entry, parameters_of
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
    for guard in entry.guards:
        scope: dict[str, Any] = {}

        def variable(source: Source, scope: dict[str, Any] = scope) -> str:
            name = f"v{len(scope)}"
            scope[name] = evaluate(source, values)
            return name

        def constant(obj: Any, scope: dict[str, Any] = scope) -> str:
            name = f"k{len(scope)}"
            scope[name] = obj
            return name

        try:
            holds = eval(guard.code(variable, constant), scope)
        except Exception as error:
            name = guard.source.name if guard.source else ""
            return FailedGuard(guard.describe(), name, f"{type(error).__name__}: {error}")
        if not holds:
            return FailedGuard(guard.describe(), guard.source.name if guard.source else "", _found(scope.get("v0")))
    for shape_guard in entry.shape_guards:
        numbers = {symbol: evaluate(entry.symbols[symbol], values) for symbol in shape_guard.expr.free_symbols}
        if not shape_guard.expr.evaluate(numbers):
            return FailedGuard(str(shape_guard.expr), "", "")
    if entry.function(*args) is not unit.miss:
        return None
    return FailedGuard("PyTorch's global state (grad mode, autocast, default dtype, threads, ...) is the same", "", "")


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
