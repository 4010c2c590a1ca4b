"""Metadata rules of the commonest operators, found by the operator's name.

A rule is called with the operator's arguments and returns what the operator returns, as fake tensors. It states only
what eager does for sound arguments; for everything else it returns ``NotImplemented``, and torch's meta kernel is
asked, which also raises the errors that eager raises. Tensor arguments are always fake when a rule is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Rule = Callable[..., Any]
AnyRule = TypeVar("AnyRule", bound=Rule)

_rules: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[AnyRule], AnyRule]:
    """Register a function as the rule of the operators named, for instance ``@rule("aten.t.default")``."""

    def register(fn: AnyRule) -> AnyRule:
        for name in names:
            assert name not in _rules, f"two rules for {name}"
            _rules[name] = fn
        return fn

    return register


@functools.cache
def _load() -> None:
    """Import the rule files, which register themselves. One of them may have been imported for itself before."""
    from . import (  # noqa: F401
        attention,
        backward,
        convolution,
        creation,
        data_dependent,
        gpu_attention,
        images,
        in_place,
        indexing,
        linalg,
        losses,
        matmul,
        nn,
        optimizers,
        pointwise,
        recurrent,
        reduction,
        views,
    )


def find_rule(name: str) -> Rule | None:
    """The rule of an operator, or None."""
    found = _rules.get(name)
    if found is None:
        from . import pointwise  # noqa: F401  (the commonest operators)

        found = _rules.get(name)
        if found is None:
            _load()
            found = _rules.get(name)
    return found


def rule_names() -> list[str]:
    """The names of all operators that have a rule."""
    _load()
    return sorted(_rules)
