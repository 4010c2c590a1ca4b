"""The collection of examples and how to find them."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

_FILES = ("branches", "sizes", "data", "mutation", "python", "operators")
_found: dict[str, Example] = {}


@dataclass(frozen=True)
class Example:
    """A program, inputs for it, and what becomes of it."""

    name: str
    module: Callable[[], nn.Module]
    tags: tuple[str, ...]
    args: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]] = dict
    dynamic_shapes: Any = None
    others: tuple[Callable[[], tuple[Any, ...]], ...] = ()
    """Further inputs on which the exported program equals the module."""
    error: str = ""
    """Part of the message, for programs that cannot be exported."""
    rewrite: str = ""
    """The name of the example that does the same and can be exported."""
    strict_only: bool = False
    """Whether Python has to be read for it: running it once with strict=False is not enough."""

    @property
    def supported(self) -> bool:
        """Whether it can be exported."""
        return not self.error

    @property
    def description(self) -> str:
        """What it shows."""
        return inspect.cleandoc(self.module.__doc__ or "")

    @property
    def program(self) -> str:
        """A program of its own that exports it, or prints why that cannot be done."""
        from .standalone import standalone

        return standalone(self)


def example(*tags: str, args: Callable[[], tuple[Any, ...]], **options: Any) -> Callable[[type], type]:
    """Put a module class among the examples, under its name in lower case."""

    def add(kind: type) -> type:
        name = "".join("_" + c.lower() if c.isupper() else c for c in kind.__name__).lstrip("_")
        _found[name] = Example(name, kind, tags, args, **options)
        return kind

    return add


@functools.cache
def _load() -> dict[str, Example]:
    for name in _FILES:
        importlib.import_module(f"{__package__}.{name}")
    return dict(sorted(_found.items()))


def every() -> list[Example]:
    """All examples."""
    return list(_load().values())


def get(name: str) -> Example:
    """The example of a name."""
    example = _load().get(name)
    if example is None:
        raise KeyError(f"there is no example {name}; firesteel.export.examples.search(text) finds some")
    return example


def search(text: str) -> list[Example]:
    """The examples that have a tag, or a text in their name or description."""
    text = text.lower()
    return [example for example in every()
            if text in example.tags or text in example.name or text in example.description.lower()]


def tags() -> list[str]:
    """All tags."""
    return sorted({tag for example in every() for tag in example.tags})
