"""Conditions and loops."""

from __future__ import annotations

import torch
from torch import nn

from ... import control_flow
from ...shapes.dims import Dim
from .registry import example


@example("python.control-flow", "torch.cond", args=lambda: (torch.ones(3, 2),), others=(lambda: (-torch.ones(3, 2),),),
         strict_only=True)
class IfOnATensor(nn.Module):
    """An `if` on the value of a tensor whose branches only compute becomes a `cond` (strict mode)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return torch.sin(x)
        return torch.cos(x)


@example("python.control-flow", "torch.cond", args=lambda: (torch.ones(3),), error="changes list object",
         rewrite="if_on_a_tensor")
class IfWithAnEffect(nn.Module):
    """A branch that changes something other than its own values cannot become a `cond`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            self.seen.append("positive")
            return torch.sin(x)
        return torch.cos(x)


@example("torch.cond", args=lambda: (torch.randn(3, 12),), others=(lambda: (torch.randn(3, 12),),))
class CondOnATensor(nn.Module):
    """Both branches of a `cond` are in the program; the value of a tensor decides which one runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return control_flow.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))


@example("torch.cond", "torch.dynamic-shape", args=lambda: (torch.randn(12, 3),),
         others=(lambda: (torch.randn(5, 3),),), dynamic_shapes={"x": {0: Dim("rows", min=2, max=64)}})
class CondOnASize(nn.Module):
    """A size that is not fixed can decide too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return control_flow.cond(x.shape[0] > 10, lambda x: x.cos(), lambda x: x.sin(), (x,))


@example("torch.cond", "python.closure", args=lambda: (torch.randn(4),), others=(lambda: (torch.randn(4),),))
class BranchWithClosure(nn.Module):
    """Branches may use variables and parameters from around them."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shift = x * 2

        def true_branch(x: torch.Tensor) -> torch.Tensor:
            return x * self.weight + shift

        def false_branch(x: torch.Tensor) -> torch.Tensor:
            return x - shift

        return control_flow.cond(x.sum() > 0, true_branch, false_branch, (x,))


@example("torch.cond", args=lambda: (torch.randn(4),), error="shape", rewrite="cond_on_a_tensor")
class BranchesOfDifferentSizes(nn.Module):
    """Branches of a `cond` return tensors of the same shape and dtype."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return control_flow.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x[:2].cos(), (x,))


@example("torch.map", "torch.dynamic-shape", args=lambda: (torch.randn(4, 3), torch.randn(3)),
         others=(lambda: (torch.randn(7, 3), torch.randn(3)),),
         dynamic_shapes={"xs": {0: Dim("rows", min=2)}, "y": None})
class MapOverRows(nn.Module):
    """`map` runs a function on every row, however many there are."""

    def forward(self, xs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return control_flow.map(lambda x, y: x.sin() + y, xs, y)


@example("torch.while_loop", args=lambda: (torch.tensor(5), torch.ones(3)),
         others=(lambda: (torch.tensor(0), torch.ones(3)), lambda: (torch.tensor(9), torch.ones(3))))
class LoopUntil(nn.Module):
    """A loop whose number of turns depends on data."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        def go_on(n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return n > 0

        def turn(n: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return n - 1, x * 1.5

        return control_flow.while_loop(go_on, turn, (n, x))[1]


@example("torch.while_loop", "python.control-flow", args=lambda: (torch.tensor(3), torch.ones(3)),
         error="n > 0", rewrite="loop_until")
class WhileOnATensor(nn.Module):
    """A Python loop that a tensor ends is not a graph; `while_loop` is."""

    def forward(self, n: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        while n > 0:
            n = n - 1
            x = x * 1.5
        return x


@example("torch.scan", args=lambda: (torch.zeros(2), torch.randn(5, 2)),
         others=(lambda: (torch.ones(2), torch.randn(5, 2)),))
class ScanOverSteps(nn.Module):
    """`scan` carries a state from step to step and collects what each step gives."""

    def forward(self, state: torch.Tensor, xs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def step(state: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            new = 0.5 * state + x
            return new, new.sin()

        return control_flow.scan(step, state, xs)


@example("python.control-flow", args=lambda: (torch.randn(3, 2),), others=(lambda: (torch.randn(3, 2),),))
class LoopOverAList(nn.Module):
    """Loops over Python objects are unrolled."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, layer in enumerate(self.layers):
            x = layer(x) if number % 2 == 0 else layer(x).relu()
        return x


@example("python.control-flow", args=lambda: (torch.randn(3, 2, 2),), others=(lambda: (torch.randn(3, 2, 2),),))
class IfOnTheRank(nn.Module):
    """Conditions on what is fixed, such as the number of dimensions, are decided while exporting."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 3:
            return x + torch.ones(1, 1, 1)
        return x
