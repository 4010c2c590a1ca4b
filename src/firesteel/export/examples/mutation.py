"""Programs that change what they are given."""

from __future__ import annotations

import torch
from torch import nn

from .registry import example


@example("torch.mutation", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class BufferThatCounts(nn.Module):
    """Buffers that are written in place are written by the program too."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x * self.count


@example("torch.mutation", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class BufferThatIsAssigned(nn.Module):
    """Assigning a tensor to a buffer copies it there."""

    mean: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x
        return x - self.mean


@example("torch.mutation", args=lambda: (torch.randn(3),), others=(lambda: (torch.randn(3),),))
class InputThatIsChanged(nn.Module):
    """Inputs that are written in place are written by the program too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.sin()


@example("torch.mutation", "python.object-model", args=lambda: (torch.randn(3),), error="calls",
         rewrite="buffer_that_counts")
class AttributeThatCounts(nn.Module):
    """A number in an attribute is Python's: a program without Python cannot count with it. A buffer can."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


@example("torch.mutation", args=lambda: (torch.randn(3, 3),), others=(lambda: (torch.randn(3, 3),),))
class WriteToAView(nn.Module):
    """Writing to a part of a tensor."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y[0, 1:] = 3
        y.diagonal().zero_()
        return y
