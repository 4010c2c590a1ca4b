"""Nested tensors of the jagged layout: one dense tensor of all rows, and the offsets where each sequence begins.

Graphs take and return these parts, and make the nested tensor between:

    def f(x):                   x = jagged(x_values, x_offsets)
        return x.sin() * 2      mul = x.sin() * 2
                                return values_of(mul)

On fake tensors, torch's own class decides what ``x.sin()`` means for the parts, and that is recorded. Two nested
tensors have the same ragged size exactly when their offsets are one object, in eager as here: so results get the very
offsets that the program has. Autograd works on the nested tensor, whose gradient is one with other values.
"""

from __future__ import annotations

from typing import Any

import torch

from ..records import dataclass
from ..torch_compat import nested, subclasses


@dataclass(frozen=True)
class JaggedSpec:
    """All of a nested tensor but its parts."""

    ragged_dim: int
    names: tuple[str, ...]
    """The parts that it has."""


def is_jagged(tensor: Any) -> bool:
    """Whether a tensor is a nested one of the jagged layout."""
    return type(tensor) is nested.JAGGED_CLASS


def jagged_spec(tensor: Any) -> JaggedSpec:
    """What is needed to make a nested tensor again from its parts."""
    return JaggedSpec(nested.ragged_dim(tensor),
                      tuple(name for name in nested.PARTS if nested.part_of(tensor, name) is not None))


def is_jagged_like(tensor: Any, spec: JaggedSpec) -> bool:
    """Whether a nested tensor is made of parts in the same way."""
    return jagged_spec(tensor) == spec


def inner_parts(tensor: Any) -> list[torch.Tensor]:
    """The tensors inside."""
    return [part for name in nested.PARTS if (part := nested.part_of(tensor, name)) is not None]


def values_of(tensor: Any) -> torch.Tensor:
    """All rows of a nested tensor, with its history."""
    if not tensor.requires_grad:
        return nested.part_of(tensor, "_values")  # type: ignore[return-value]
    subclasses.hooks_for_gradients(tensor)
    with torch.enable_grad():
        return _Values.apply(tensor)  # type: ignore[no-any-return, no-untyped-call]


class MakeJagged:
    """The operation that makes a nested tensor of its parts. It has the history of the values."""

    def __init__(self, spec: JaggedSpec) -> None:
        self.spec = spec
        self.__name__ = self.__qualname__ = "jagged"
        self.__module__ = __name__

    def __call__(self, values: torch.Tensor, *rest: torch.Tensor) -> Any:
        if not values.requires_grad:
            return _made(self.spec, values, rest)
        with torch.enable_grad():
            return _Make.apply(self.spec, values, *rest)  # type: ignore[no-untyped-call]


def _made(spec: JaggedSpec, values: torch.Tensor, rest: Any) -> Any:
    return nested.make_jagged(values, dict(zip(spec.names[1:], rest, strict=True)), spec.ragged_dim)


class _Make(torch.autograd.Function):
    """From values to a nested tensor."""

    @staticmethod
    def forward(ctx: Any, spec: JaggedSpec, values: Any, *rest: Any) -> Any:
        ctx.count = len(rest)
        ctx.set_materialize_grads(False)
        return _made(spec, values.detach(), rest)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        values = None if gradient is None else nested.part_of(gradient, "_values")
        return None, values, *[None] * ctx.count


class _Values(torch.autograd.Function):
    """From a nested tensor to its values."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        ctx.spec = jagged_spec(tensor)
        ctx.rest = [nested.part_of(tensor, name) for name in ctx.spec.names[1:]]
        ctx.set_materialize_grads(False)
        values = nested.part_of(tensor, "_values")
        assert values is not None
        return values.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None if gradient is None else _made(ctx.spec, gradient, ctx.rest)


def view_from_jagged(values: torch.Tensor, offsets: torch.Tensor, lengths: torch.Tensor | None, dim: int,
                     shortest: torch.Tensor | None, longest: torch.Tensor | None) -> Any:
    """Graph operation: a nested tensor that is a view of its values."""
    return nested.view_from_jagged(values, offsets, nested.dummy_of_class(), lengths, dim, shortest, longest)


def from_padded(padded: torch.Tensor, offsets: torch.Tensor, dim: int, shortest: torch.Tensor | None,
                longest: torch.Tensor | None, rows: Any) -> Any:
    """Graph operation: a nested tensor of what is no padding."""
    return nested.from_padded(padded, offsets, nested.dummy_of_class(), dim, shortest, longest, rows)


def know_lengths(tensor: Any, shortest: torch.Tensor, longest: torch.Tensor) -> Any:
    """Graph operation: what is said of the lengths of a nested tensor, and of all made from it."""
    nested.set_lengths(tensor, shortest, longest)
    return tensor


def ragged_size(tensor: Any, dim: int) -> Any:
    """Graph operation: the size in a ragged dimension, which is no number."""
    return nested.sizes_of(tensor)[dim]
