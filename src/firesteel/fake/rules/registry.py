"""The table of metadata rules: an operator's name to its rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...registry import Registry

Rule = Callable[..., Any]

RULES: Registry[str, Rule] = Registry("rule", __package__, first=("pointwise",))
rule = RULES.register
"""Registers a function as the rule of the operators named, for instance ``@rule("aten.t.default")``."""
