"""Custom operators with a backward of their own for random programs, defined once, and what the programs share."""

from __future__ import annotations

from typing import Any

import torch
from tests.capture.subclass_classes import Labelled, Two
from torch.utils._python_dispatch import TorchDispatchMode


@torch.library.custom_op("firesteel_fuzz::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """A custom operator that saves nothing."""
    return x * factor


@scaled.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


def _keep_factor(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.factor = inputs[1]


def _scaled_backward(ctx: Any, grad: torch.Tensor) -> Any:
    return grad * ctx.factor * 2, None


scaled.register_autograd(_scaled_backward, setup_context=_keep_factor)


@torch.library.custom_op("firesteel_fuzz::squared", mutates_args=())
def squared(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One that saves its argument and one of its two results."""
    return x * x, x.sign()


@squared.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


def _keep_both(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0], output[1])


def _squared_backward(ctx: Any, grad: torch.Tensor, _: torch.Tensor) -> Any:
    x, sign = ctx.saved_tensors
    return grad * x * 3 * sign


squared.register_autograd(_squared_backward, setup_context=_keep_both)


@torch.library.custom_op("firesteel_fuzz::changing", mutates_args=())
def changing(x: torch.Tensor) -> torch.Tensor:
    """One whose backward changes what it saved."""
    return x + 1


@changing.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _keep_argument(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def _changing_backward(ctx: Any, grad: torch.Tensor) -> Any:
    (x,) = ctx.saved_tensors
    x.data.mul_(2)
    return grad * x


changing.register_autograd(_changing_backward, setup_context=_keep_argument)


@torch.library.custom_op("firesteel_fuzz::increment_", mutates_args=("x",))
def increment_(x: torch.Tensor) -> None:
    """One that changes its argument and cannot be differentiated."""
    x.add_(1)


class Doubled(TorchDispatchMode):
    """Doubles products, which none of the operators that only move data are."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.ops.aten.mul.Tensor else result


def strange(like: torch.Tensor, kind: str) -> torch.Tensor:
    """A gradient that is no plain tensor in memory."""
    ones = torch.full_like(like, 0.5, memory_format=torch.contiguous_format).detach()
    if kind == "sparse":
        return ones.to_sparse()
    if kind == "negated":
        return torch._neg_view(ones)
    if kind == "zeros":
        return torch._efficientzerotensor(ones.shape, dtype=ones.dtype)
    if kind == "wrapped":
        return Two(ones, ones * 2)
    return ones.as_subclass(Labelled)


def hook(tensor: torch.Tensor, called: Any) -> None:
    """Register a hook. Of a view whose base was changed in place, torch must be asked for the history first, or it
    reads memory that it no longer has."""
    if tensor.grad_fn is not None or tensor.is_leaf:
        tensor.register_hook(called)


def dense(value: Any) -> Any:
    """What a program says about a gradient: its values, and whether it can be differentiated, but not its strides."""
    if isinstance(value, Two):
        return [dense(value.a), dense(value.b)]
    if isinstance(value, torch.Tensor) and value.is_sparse:
        return dense(value.to_dense())
    if isinstance(value, torch.Tensor):
        return value.requires_grad, value.detach().clone(memory_format=torch.contiguous_format)
    if isinstance(value, (tuple, list)):
        return [dense(item) for item in value]
    return value


def starts(result: Any) -> list[torch.Tensor]:
    """The tensors of a result that can be differentiated, each once."""
    found: list[torch.Tensor] = []
    for item in result if isinstance(result, (tuple, list)) else [result]:
        if isinstance(item, torch.Tensor) and item.requires_grad and not any(item is other for other in found):
            found.append(item)
    return found


def gradients(found: Any, tensors: list[torch.Tensor]) -> Any:
    """What is in ``.grad``. Of a backward pass that was refused nobody knows how far it came."""
    if "refused" in repr(found):
        for tensor in tensors:
            tensor.grad = None
        return "some"
    return [dense(tensor.grad) for tensor in tensors]


def attempt(what: Any) -> Any:
    """The value of a call, or what autograd refuses it with."""
    try:
        return what()
    except RuntimeError as error:
        text = str(error)
        reasons = ("second time", "modified by an inplace operation", "detached in-place",
                   "does not require grad", "once_differentiable", "not have been used", "no grad", "no_grad", "view")
        return next((f"refused: {reason}" for reason in reasons if reason in text), "refused")
