"""Classes that several test files use."""

from __future__ import annotations

import abc
import functools
from typing import Any


class Account:
    kind = "plain"
    log: list[str] = []

    def __init__(self, value: Any = 1) -> None:
        self.value = value
        self._level = 3

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, new: int) -> None:
        self._level = new * 2

    @level.deleter
    def level(self) -> None:
        self._level = -1

    @classmethod
    def make(cls, value: Any) -> Account:
        return cls(value)

    @staticmethod
    def double(value: Any) -> Any:
        return value * 2

    @functools.cached_property
    def expensive(self) -> Any:
        return self.value * 10


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> Any: ...

    def double(self) -> Any:
        return self.area() * 2


class Square(Shape):
    def __init__(self, side: Any) -> None:
        self.side = side

    def area(self) -> Any:
        return self.side * self.side
