"""The table of metadata rules: an operator's name to its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Rule = Callable[..., Any]
AnyRule = TypeVar("AnyRule", bound=Rule)

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[AnyRule], AnyRule]:
    """Register a function as the rule of the operators named, for instance ``@rule("aten.t.default")``."""

    def register(fn: AnyRule) -> AnyRule:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = fn
        return fn

    return register
