"""Lost guards: everything that a call can see is changed in turn, and the compiled function is called again.

What then differs from eager, though compiling anew gives the right result, was not guarded.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..control import reset
from ..errors import AccuracyError
from ..torch_compat.module_tables import own_buffers, own_modules, own_parameters
from .checking import Check

DEPTH = 4
MOST_PLACES = 80
_PLAIN = (bool, int, float, str, type(None))
_CONTAINERS = (list, tuple, dict)


@dataclass(frozen=True)
class Change:
    """Another value at a place: ``text`` is the statement that makes the change."""

    place: str
    text: str
    before: str


@dataclass(frozen=True)
class Stale:
    """A change that compiled code did not notice."""

    change: Change
    difference: str


def others(value: Any) -> Iterator[str]:
    """What a value can become, as source; ``{}`` stands for the value itself."""
    if type(value) is bool:
        yield f"{not value}"
    elif type(value) is int:
        yield f"{value + 1}"
        yield f"{float(value)!r}"
    elif type(value) is float:
        yield repr(value * 1.5 + 0.25) if math.isfinite(value) else "1.5"
    elif type(value) is str:
        for word in ("sum", "mean", "none", "reflect", "tanh"):
            if word != value:
                yield repr(word)
                return
    elif value is None:
        yield "2"
    elif type(value) in (list, tuple) and value:
        yield "{}[::-1]"
        yield "{} + {}[:1]"
    elif type(value) is dict and value:
        yield "dict(reversed({}.items()))"
    elif isinstance(value, torch.nn.Module):
        if not any(True for _ in value.children()):
            yield "torch.nn.Identity()"
    elif isinstance(value, torch.Tensor):
        yield from _other_tensors(value)


def _other_tensors(value: torch.Tensor) -> Iterator[str]:
    parameter = isinstance(value, torch.nn.Parameter)
    if value.is_floating_point():
        if not parameter:
            yield "{}.detach().double()" if value.dtype is not torch.float64 else "{}.detach().float()"
            yield f"{{}}.detach().clone().requires_grad_({not value.requires_grad})"
            yield "{}.detach() * 2"
        else:
            yield "torch.nn.Parameter({}.detach() * 2)"
    elif value.dtype is not torch.bool:
        yield "{}.to(torch.int32)" if value.dtype is torch.int64 else "{}.to(torch.int64)"
    if value.dim() and not parameter:
        yield "torch.cat([{}, {}]).detach()"
        yield "{}[:1].detach().clone()"
    if value.dim() == 2 and not parameter:
        yield "{}.detach().t().contiguous().t()"


def places(function: Any, args: list[Any], kwargs: dict[str, Any], target: str) -> Iterator[tuple[str, Any]]:
    """What a call can see: arguments, the function's own state, globals and free variables, with an expression."""
    roots: list[tuple[str, Any, int]] = [(f"args[{at}]", value, 0) for at, value in enumerate(args)]
    roots += [(f"kwargs[{key!r}]", value, 0) for key, value in kwargs.items()]
    owner = function if isinstance(function, torch.nn.Module) else getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        name = target if owner is function else target.rpartition(".")[0]
        roots.append((name, owner, 0))
    plain = getattr(type(function), "forward", None) if isinstance(function, torch.nn.Module) else \
        getattr(function, "__func__", function)
    if isinstance(plain, types.FunctionType):
        roots += [(name, plain.__globals__[name], 0) for name in plain.__code__.co_names
                  if name in plain.__globals__ and not isinstance(plain.__globals__[name], (types.ModuleType, type))]
    seen: set[int] = set()
    count = 0
    while roots:
        name, value, depth = roots.pop(0)
        if count >= MOST_PLACES:
            return
        if isinstance(value, types.FunctionType) and depth == 0 or type(value) not in _PLAIN and id(value) in seen:
            continue
        seen.add(id(value))
        count += 1
        yield name, value
        if depth < DEPTH:
            roots += [(inner, part, depth + 1) for inner, part in _parts(name, value)]


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if type(value) in (list, tuple):
        yield from ((f"{name}[{at}]", part) for at, part in enumerate(value[:8]))
    elif type(value) is dict:
        yield from ((f"{name}[{key!r}]", part) for key, part in list(value.items())[:12] if type(key) in (str, int))
    elif isinstance(value, torch.nn.Module):
        for key, part in own_modules(value).items():
            yield (f"{name}.{key}" if key.isidentifier() else f"{name}[{key}]"), part
        yield from ((f"{name}.{key}", part) for key, part in (own_parameters(value) | own_buffers(value)).items())
        yield from ((f"{name}.{key}", part) for key, part in vars(value).items() if not key.startswith("_"))
    elif dataclasses.is_dataclass(value) or _is_users(type(value)):
        yield from ((f"{name}.{key}", part) for key, part in getattr(value, "__dict__", {}).items()
                    if not key.startswith("_"))


def _is_users(kind: type) -> bool:
    module = getattr(kind, "__module__", "")
    return not module.startswith(("torch", "builtins", "firesteel", "numpy", "collections", "typing"))


def changes(function: Any, args: list[Any], kwargs: dict[str, Any], target: str) -> Iterator[Change]:
    """All changes, the likeliest first: numbers and texts before tensors."""
    found = list(places(function, args, kwargs, target))
    found.sort(key=lambda place: 0 if type(place[1]) in _PLAIN else 1)
    for name, value in found:
        if name.startswith("("):
            continue
        for other in others(value):
            short = f"{value!r:.40}" if type(value) in _PLAIN else type(value).__name__
            yield Change(name, f"{name} = {other.format(name, name)}", short)


def look_for_stale(namespace: dict[str, Any], target: str, options: dict[str, Any], first: int,
                   report: Callable[[Any], None]) -> Stale | None:
    """Make one change after the other, from ``first`` on, each for a function compiled anew, and call again.

    Reports the number of each change and how many there are. Graphs run operator by operator: guards are the same.
    """
    options = {**options, "backend": "eager"}
    listed = list(changes(eval(target, namespace), namespace["args"], namespace["kwargs"], target))
    for number, change in enumerate(listed[first:], first):
        report(("change", number, len(listed)))
        before = eval(change.place, namespace)
        found = _is_stale(namespace, target, options, change)
        if found is not None:
            return found
        try:
            exec(f"{change.place} = _before", namespace, {"_before": before}) if "[" in change.place \
                or "." in change.place else namespace.update({change.place: before})
        except Exception:
            return None  # it cannot be undone
    return None


def _is_stale(namespace: dict[str, Any], target: str, options: dict[str, Any], change: Change) -> Stale | None:
    args, kwargs = namespace["args"], namespace["kwargs"]
    reset()
    checked = Check(eval(target, namespace), dict(options))
    try:
        checked(*args, **kwargs)
        exec(change.text, namespace)
        checked(*args, **kwargs)
    except AccuracyError as error:
        reset()
        try:
            Check(eval(target, namespace), dict(options))(*args, **kwargs)
        except Exception:
            return None  # wrong, and not stale
        return Stale(change, str(error.reason))
    except Exception:
        return None  # the program's own: it cannot be changed like that
    return None
