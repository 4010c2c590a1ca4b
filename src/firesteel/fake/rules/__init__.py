"""Metadata rules of the commonest operators, found by the operator's name.

A rule is called with the operator's arguments and returns what the operator returns, as fake tensors. It states only
what eager does for sound arguments; for everything else it returns ``NotImplemented``, and torch's meta kernel is
asked, which also raises the errors that eager raises. Tensor arguments are always fake when a rule is called.
"""

from __future__ import annotations

import functools

from .registry import RULES, Rule


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
    found = RULES.get(name)
    if found is None:
        from . import pointwise  # noqa: F401  (the commonest operators)

        found = RULES.get(name)
        if found is None:
            _load()
            found = RULES.get(name)
    return found


def rule_names() -> list[str]:
    """The names of all operators that have a rule."""
    _load()
    return sorted(RULES)


__all__ = ["Rule", "find_rule", "rule_names"]
