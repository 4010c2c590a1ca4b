"""Metadata rules of the commonest operators, found by the operator's name.

A rule is called with the operator's arguments and returns what the operator returns, as fake tensors. It states only
what eager does for sound arguments; for everything else it returns ``NotImplemented``, and torch's meta kernel is
asked, which also raises the errors that eager raises. Tensor arguments are always fake when a rule is called.
"""

from __future__ import annotations

from .registry import RULES, Rule

find_rule = RULES.find
"""The rule of an operator, or None."""


def rule_names() -> list[str]:
    """The names of all operators that have a rule."""
    RULES.load()
    return sorted(RULES)


__all__ = ["Rule", "find_rule", "rule_names"]
