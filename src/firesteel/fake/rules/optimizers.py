"""Operators that update lists of parameters in place: they change no metadata and return nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...devices import kind_of
from ..dims import shape_of
from ..tensor import FakeTensor
from .registry import rule


@rule(*(f"aten._fused_{name}_.{overload}" for name in ("adam", "adamw", "sgd", "adagrad")
        for overload in ("default", "tensor_lr")))
def fused(*lists: Sequence[FakeTensor], **settings: Any) -> None:
    """One step of an optimizer for all parameters."""


@rule(*(f"aten._foreach_{name}_.Tensor" for name in ("addcdiv", "addcmul")))
def product_with_each(tensors: Sequence[FakeTensor], first: Sequence[FakeTensor], second: Sequence[FakeTensor],
                      scalars: FakeTensor) -> Any:
    """The scalars are read from a vector on the CPU."""
    sound = kind_of(scalars).is_host and scalars.ndim == 1 and shape_of(scalars) == (len(tensors),) and all(
        shape_of(a) == shape_of(b) == shape_of(c) and a.dtype.is_floating_point and a.dtype is b.dtype is c.dtype
        for a, b, c in zip(tensors, first, second, strict=True))
    return None if sound else NotImplemented
