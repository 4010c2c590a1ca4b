"""What a program to be exported is: a module, example inputs, what varies, and further inputs to run it on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Program:
    """One program. Inputs are copied before every use, so that programs may change them."""

    name: str
    kind: str
    make: Callable[[], nn.Module]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: Callable[[Any], Any] | None
    """From the class `Dim`, ours or torch's, to ``dynamic_shapes``."""
    further: Sequence[Call]
    """Further inputs on which the program must equal eager."""
    refuses: Sequence[Call]
    """Inputs that the exported program must not take."""
    after: Callable[[Any, Any], Any] | None
    """What is done to the exported program, with the export module (ours or torch's) first; another program or None."""
    check_guards: bool
    train: bool
    gradients: bool
    saves: bool
    """Whether a round trip through a file is part of the bar."""
    exporter: str
    """``export`` or ``draft_export``."""

    def model(self) -> nn.Module:
        """The module, with the same weights every time."""
        torch.manual_seed(3)
        return self.make().train(self.train)


PROGRAMS: dict[str, Program] = {}


def rand(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers that depend on the shape and the seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + 31 * len(shape) + seed))


def ints(*shape: int, high: int = 10) -> torch.Tensor:
    """Integers from 0 on."""
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(sum(shape)))


def _call(given: Any) -> Call:
    if isinstance(given, dict):
        return (), given
    if len(given) == 2 and isinstance(given[0], tuple) and type(given[1]) is dict and all(
            isinstance(key, str) for key in given[1]):
        return given
    return given, {}


def program(kind: str, *args: Any, kwargs: dict[str, Any] | None = None, shapes: Callable[[Any], Any] | None = None,
            further: Sequence[Any] = (), refuses: Sequence[Any] = (), after: Callable[[Any, Any], Any] | None = None,
            check_guards: bool = True, train: bool = False, gradients: bool = False, saves: bool = True,
            exporter: str = "export") -> Callable[[Any], Any]:
    """Register a module class, or a function that is to be the forward of one (its first parameter is ``self``)."""

    def register(what: Any) -> Any:
        make = what if isinstance(what, type) else type(what.__name__, (nn.Module,), {"forward": what})
        name = what.__name__
        assert name not in PROGRAMS, name
        PROGRAMS[name] = Program(name, kind, make, args, kwargs or {}, shapes, [_call(one) for one in further],
                                 [_call(one) for one in refuses], after, check_guards, train, gradients, saves,
                                 exporter)
        return what

    return register
