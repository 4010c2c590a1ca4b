"""Counts compilations: what the guard tests look at beside results."""

from __future__ import annotations

import collections
import copy
import math
from collections.abc import Callable
from typing import Any

import torch

import firesteel as fs


def same(left: Any, right: Any) -> bool:
    """Equal in value and type; NaN equals NaN, 0.0 differs from -0.0."""
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        facts = [(t.dtype, t.shape, t.stride(), t.requires_grad) for t in (left, right)]
        values = [torch.nan_to_num(t.detach().resolve_conj().resolve_neg()) for t in (left, right)]
        return facts[0] == facts[1] and torch.equal(*values)
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, (list, tuple, collections.deque)):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if type(left).__eq__ is object.__eq__ and hasattr(left, "__dict__"):
        return same(left.__dict__, right.__dict__)
    return bool(left == right)


class Probe:
    """A compiled function beside the plain one. A call compares both and returns how many entries were compiled.

    With `copies` each gets its own copy of the arguments (made in one go, so that aliasing among them stays), and the
    state of the arguments afterwards is compared as well.
    """

    def __init__(self, function: Callable[..., Any], *, copies: bool = False, **options: Any) -> None:
        self.plain = function
        self.compiled = fs.compile(function, backend=options.pop("backend", "eager"), **options)
        self.copies = copies

    @property
    def compiler(self) -> Any:
        return self.compiled._firesteel_unit.compiler

    @property
    def units(self) -> list[Any]:
        found = [unit for units in self.compiler.units.values() for unit in units]
        return [part for unit in found for part in (unit, *unit.continuations.values())]

    @property
    def entries(self) -> int:
        return sum(len(unit.entries) for unit in self.units)

    def __call__(self, *args: Any, **kwargs: Any) -> int:
        before = self.entries
        if self.copies:
            plain_args, plain_kwargs = copy.deepcopy((args, kwargs))
            args, kwargs = copy.deepcopy((args, kwargs))
        else:
            plain_args, plain_kwargs = args, kwargs
        expected = outcome(self.plain, plain_args, plain_kwargs)
        actual = outcome(self.compiled, args, kwargs)
        assert same(expected, actual), f"expected {expected}, got {actual}"
        if self.copies:
            assert same(list(plain_args), list(args)), f"arguments afterwards: expected {plain_args}, got {args}"
        return self.entries - before


def outcome(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


NAN = math.nan


class Point:
    """An instance with every kind of member."""

    scale = 2

    def __init__(self, value: Any = 1) -> None:
        self.value = value

    def shifted(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.value

    @property
    def double(self) -> Any:
        return self.value * 2

    @staticmethod
    def fixed(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @classmethod
    def of_class(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.scale
