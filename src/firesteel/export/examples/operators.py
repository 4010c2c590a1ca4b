"""Operators: torch's, your own, and autograd."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from .registry import example


@functools.cache
def _scaled_sine() -> Any:
    @torch.library.custom_op("firesteel_examples::scaled_sine", mutates_args=())
    def scaled_sine(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.from_numpy(__import__("numpy").sin(x.numpy()) * scale)

    @scaled_sine.register_fake
    def _(x: torch.Tensor, scale: float) -> torch.Tensor:
        return torch.empty_like(x)

    return scaled_sine


@example("torch.operator", "escape-hatch", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class OperatorOfYourOwn(nn.Module):
    """Any Python or C++ code, registered with torch.library, is one operator of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.operator = _scaled_sine()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(x, 0.5) + 1


class _Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * ctx.saved_tensors[0]


@example("torch.operator", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class GradientOfYourOwn(nn.Module):
    """Of a torch.autograd.Function the forward part is exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Clipped.apply(x) * 2


@example("torch.operator", args=lambda: (torch.randn(4, 3), torch.randn(3)),
         others=(lambda: (torch.randn(4, 3), torch.randn(3)),))
class RowsOneByOne(nn.Module):
    """Parts of a tensor, taken apart in Python and put together again."""

    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.dot(x, y) for x in xs.unbind()])


@example("torch.operator", args=lambda: (torch.randn(2, 4, 8),), others=(lambda: (torch.randn(2, 4, 8),),))
class AttentionAndNorm(nn.Module):
    """Layers of torch.nn become their operators."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.attention(x, x, x, need_weights=False)[0])


@example("torch.operator", "torch.mutation", args=lambda: (torch.randn(8, 3),), error="backward")
class GradientsInside(nn.Module):
    """Programs that compute gradients are trained after exporting: `program.module()` is differentiable."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss = self.lin(x).sum()
        loss.backward()
        return loss
