"""Sizes that are not fixed."""

from __future__ import annotations

import torch
from torch import nn

from ...shapes.dims import Dim
from .registry import example

_ROWS = {"x": {0: Dim("rows", min=2, max=64)}}


@example("torch.dynamic-shape", args=lambda: (torch.randn(4, 3),), others=(lambda: (torch.randn(9, 3),),),
         dynamic_shapes=_ROWS)
class SizeInArithmetic(nn.Module):
    """A size can be computed with, and decide the shape of new tensors."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        return torch.cat([x, torch.zeros(2 * rows - 1, 3)]) / rows


@example("torch.dynamic-shape", args=lambda: (torch.randn(6, 4),), others=(lambda: (torch.randn(10, 4),),),
         dynamic_shapes=_ROWS)
class SizeInAView(nn.Module):
    """Views and slices by sizes that are not fixed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 2)[: x.shape[0], ::2].reshape(x.shape[0], 1)


@example("torch.dynamic-shape", "python.assert", args=lambda: (torch.randn(4, 3),),
         others=(lambda: (torch.randn(9, 3),),),
         dynamic_shapes=_ROWS)
class AssertOnASize(nn.Module):
    """An assertion that the declared range implies costs nothing; another one would narrow the range."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] >= 2, "at least two rows"
        return x + 1


@example("torch.dynamic-shape", args=lambda: (torch.randn(4, 3),), dynamic_shapes=_ROWS,
         error="rows", rewrite="size_in_a_branch_apart")
class SizeInABranch(nn.Module):
    """A condition on a size is decided while exporting, so it must hold for all sizes that were declared."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 10:
            return x.sin()
        return x.cos()


@example("torch.dynamic-shape", args=lambda: (torch.randn(4, 3),), others=(lambda: (torch.randn(10, 3),),),
         dynamic_shapes={"x": {0: Dim("rows", min=2, max=10)}})
class SizeInABranchApart(nn.Module):
    """The same with a range in which the condition has one answer. `cond` keeps both branches."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 10:
            return x.sin()
        return x.cos()


@example("torch.dynamic-shape", args=lambda: (torch.randn(4), torch.randn(8)),
         others=(lambda: (torch.randn(5), torch.randn(10)),),
         dynamic_shapes={"x": {0: Dim("n", min=2)}, "y": {0: 2 * Dim("n", min=2)}})
class SizesThatBelongTogether(nn.Module):
    """One size is a multiple of another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x]) + y


@example("torch.dynamic-shape", args=lambda: (torch.randn(4, 3),), others=(lambda: (torch.randn(9, 3),),),
         dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}})
class SizesFoundByTracing(nn.Module):
    """`Dim.AUTO` leaves open what the program does not fix: here the second size must be 3."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x)


@example("torch.dynamic-shape", "python.builtin", args=lambda: (torch.randn(5, 2),),
         others=(lambda: (torch.randn(8, 2),),),
         dynamic_shapes=_ROWS)
class SizesInBuiltins(nn.Module):
    """min, max, division and slices of Python on sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = x.shape[0] // 2
        return x[: max(half, 1)] + x.shape[0] % 2 + min(x.shape[0], 64)
