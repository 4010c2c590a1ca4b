"""Features of Python."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import Any

import torch
from torch import nn

from ...control import disable
from .registry import example


@example("python.data-structure", args=lambda: ({"a": torch.randn(3), "b": [torch.randn(3), torch.randn(3)]},),
         others=(lambda: ({"a": torch.randn(3), "b": [torch.randn(3), torch.randn(3)]},),))
class ContainersAsInputs(nn.Module):
    """Dictionaries, lists and tuples go in and come out."""

    def forward(self, given: dict[str, Any]) -> dict[str, Any]:
        first, second = given["b"]
        given = {**given, "sum": first + second}
        return {"all": list(given), "sum": given["sum"] + given["a"]}


@example("python.data-structure", args=lambda: (torch.randn(3),), kwargs=lambda: {"scale": torch.randn(3), "on": True})
class KeywordArguments(nn.Module):
    """Keyword arguments, also ones that are not tensors: those are fixed."""

    def forward(self, x: torch.Tensor, *, scale: torch.Tensor, on: bool = False, off: Any = None) -> torch.Tensor:
        return x * scale if on and off is None else x


@dataclasses.dataclass
class _Settings:
    scale: float = 2.0
    shift: float = 1.0


@example("python.object-model", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class ObjectsInside(nn.Module):
    """Objects of the program's own classes, properties and class methods are followed."""

    @classmethod
    def settings(cls) -> _Settings:
        return _Settings(shift=0.5)

    @property
    def scale(self) -> float:
        return self.settings().scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.settings().shift


@example("python.closure", "python.standard-library", args=lambda: (torch.randn(3),),
         others=(lambda: (torch.randn(3),),))
class FunctionsInside(nn.Module):
    """Nested functions, closures, decorators, functools."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def twice(function: Any) -> Any:
            @functools.wraps(function)
            def inner(value: torch.Tensor) -> torch.Tensor:
                return function(function(value))

            return inner

        @twice
        def shifted(value: torch.Tensor) -> torch.Tensor:
            return value.sin() + x

        return functools.reduce(torch.add, [shifted(x), functools.partial(torch.mul, other=2)(x)])


@example("python.context-manager", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class ContextManagers(nn.Module):
    """`with` blocks of torch are part of the program."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with contextlib.nullcontext(), torch.no_grad():
            scale = x.abs().max()
        return x / scale


@example("python.builtin", args=lambda: (torch.randn(3),), error="print", rewrite="functions_inside")
class PrintInForward(nn.Module):
    """Printing is an effect that a graph cannot have."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        print("largest:", x.max())
        return x + 1


@example("python.builtin", args=lambda: (torch.randn(3),), error="id", rewrite="functions_inside", strict_only=True)
class IdentityOfAnObject(nn.Module):
    """Where an object is in memory means nothing in another process."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        return x + id(x)


@example("python.object-model", args=lambda: (torch.randn(3),), error="disable", rewrite="functions_inside",
         strict_only=True)
class FunctionLeftToPython(nn.Module):
    """What is marked to run as plain Python cannot be in a program without Python."""

    @staticmethod
    @disable
    def outside(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.outside(x) * 2
