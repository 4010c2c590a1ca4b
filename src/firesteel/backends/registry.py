"""Backends by name: register, list, look up.

A backend is any callable `(gm, example_inputs) -> callable`. It gets a captured graph and inputs to specialise on and
returns what runs in the graph's place. Other packages offer theirs through the entry point group `firesteel.backends`;
those are looked for when a name is not known, and loaded only when asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from firesteel.errors import BackendError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from torch.fx import GraphModule

    Backend: TypeAlias = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]
else:
    # Spelled without torch.fx, whose import this module does not need at run time.
    Backend = Callable[[Any, Sequence[Any]], Callable[..., Any]]

ENTRY_POINT_GROUP = "firesteel.backends"

OTHER_NAMES = {"inductor": "native"}
"""What torch calls a backend of ours."""

_F = TypeVar("_F", bound=Callable[..., Any])
_backends: dict[str, Backend] = {}


@overload
def register_backend(fn: _F, *, name: str | None = None) -> _F: ...
@overload
def register_backend(fn: None = None, *, name: str | None = None) -> Callable[[_F], _F]: ...
def register_backend(fn: _F | None = None, *, name: str | None = None) -> _F | Callable[[_F], _F]:
    """Give a backend a name, by default its own. Works as a call and as a decorator, with or without arguments.

    A name that is registered again stands for the new backend from then on.

    >>> @register_backend(name="printing")
    ... def print_graph(gm, example_inputs):
    ...     print(gm.code)
    ...     return gm.forward
    >>> lookup_backend("printing") is print_graph
    True
    """
    if fn is None:
        return lambda decorated: register_backend(decorated, name=name)
    if not callable(fn):
        raise TypeError(f"a backend is a callable (gm, example_inputs) -> callable, got {fn!r}")
    name = name or getattr(fn, "__name__", None)
    if not name:
        raise TypeError(f"{fn!r} has no name of its own: use register_backend(fn, name=...)")
    _backends[name] = fn
    return fn


def list_backends() -> list[str]:
    """The names of all backends, those of installed packages included, in alphabetical order.

    >>> "eager" in list_backends()
    True
    """
    return sorted({*_backends, *_entry_points()})


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend of that name. A callable is a backend already and is returned as it is."""
    if not isinstance(backend, str):
        if not callable(backend):
            raise TypeError(f"backend= takes a name or a callable (gm, example_inputs) -> callable, got {backend!r}")
        return backend
    registered = _backends.get(backend) or _backends.get(OTHER_NAMES.get(backend, ""))
    if registered is None:
        registered = _load(backend)
    return registered


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # costs milliseconds that most programs need not spend

    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(name: str) -> Backend:
    point = _entry_points().get(name)
    if point is None:
        names = list_backends()
        close = difflib.get_close_matches(name, names, n=1)
        guess = f"Did you mean {close[0]!r}? " if close else ""
        raise BackendError(
            name,
            "no backend of that name is registered",
            f"{guess}The backends are: {', '.join(names)}. Any callable (gm, example_inputs) -> callable is a backend "
            "too: pass it itself, or give it a name with fs.register_backend.",
        )
    try:
        loaded = point.load()
    except Exception as error:
        package = point.dist.name if point.dist else point.module
        raise BackendError(
            name,
            f"loading {point.value} failed: {type(error).__name__}: {error}",
            f"This backend comes with {package!r}: check its installation.",
        ) from error
    # The module may have registered the backend itself while it was imported.
    return _backends.setdefault(name, loaded)
