"""Values that only data decides."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...shapes.dims import Dim
from .registry import example


@example("torch.dynamic-value", args=lambda: (torch.tensor(4),), others=(lambda: (torch.tensor(7),),))
class SizeFromData(nn.Module):
    """A number out of a tensor can be a size, once its range is stated."""

    def forward(self, n: torch.Tensor) -> torch.Tensor:
        size: Any = n.item()
        torch._check(size >= 2)
        torch._check(size <= 10)
        return torch.ones(size) * 2


@example("torch.dynamic-value", args=lambda: (torch.tensor(4), torch.randn(10)),
         others=(lambda: (torch.tensor(9), torch.randn(10)),))
class IndexFromData(nn.Module):
    """A number out of a tensor as a bound of a slice."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        end = n.item()
        torch._check(end >= 2)
        torch._check(end <= x.shape[0])
        return x[:end].sum()


@example("torch.dynamic-value", "torch.cond", args=lambda: (torch.tensor(4), torch.randn(10)),
         others=(lambda: (torch.tensor(12), torch.randn(10)),), strict_only=True)
class ConditionOnData(nn.Module):
    """What to do here depends on a number that is not known while exporting: both ways are kept (strict mode)."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if n.item() // 2 >= 5:
            return x + 2
        return x + 5


@example("torch.dynamic-value", args=lambda: (torch.tensor(4), torch.randn(10)),
         others=(lambda: (torch.tensor(8), torch.randn(10)),))
class ConditionOnDataStated(nn.Module):
    """A check says what the number will be; it is part of the program and raises when it does not hold."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        value = n.item()
        torch._check(value // 2 < 5)
        if value // 2 >= 5:
            return x + 2
        return x + 5


@example("torch.dynamic-value", "torch.operator", args=lambda: (torch.randn(6),),
         others=(lambda: (torch.ones(6),),))
class ElementsByMask(nn.Module):
    """How many elements a mask selects is known when the program runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum() + torch.nonzero(x > 0).shape[0]


@example("torch.dynamic-value", args=lambda: (torch.tensor([2, 3]), torch.randn(5)),
         others=(lambda: (torch.tensor([1, 4]), torch.randn(5)),))
class SplitByData(nn.Module):
    """Several numbers at once."""

    def forward(self, sizes: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        first, second = sizes.tolist()
        torch._check(first >= 0)
        torch._check(second >= 0)
        torch._check(first + second == x.shape[0])
        return x[:first].sum() - x[first:].sum()


@example("torch.dynamic-value", args=lambda: (torch.randn(3),), others=(lambda: (torch.ones(3),),), strict_only=True)
class NumpyInside(nn.Module):
    """NumPy functions of arrays made from tensors are tensor operations of the graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        largest = float(x.detach().numpy().max())
        return x / largest


@example("torch.dynamic-value", "torch.dynamic-shape", args=lambda: (torch.randn(4, 3),),
         others=(lambda: (torch.randn(6, 3),),), dynamic_shapes={"x": {0: Dim("rows", min=2)}})
class NumberAsResult(nn.Module):
    """Sizes can be results."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x.sum(), x.shape[0] + 1
