"""Random models for `random_training`: rows of blocks with the things that meet wrappers of `torch.distributed`.

Each kind of block is a class in `BLOCKS`; all take and return tensors of the same shape, ``[rows, 6, WIDTH]``.
"""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.utils.checkpoint import checkpoint

import firesteel as fs

WIDTH = 8


class Part(nn.Module):
    """A block of a model."""

    number = 0

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Any] = []
        """What forward has seen, as Python objects."""

    def parallel_plan(self) -> dict[str, Any]:
        """How its layers are spread over processes, for those that can be."""
        return {}


class Linears(Part):
    """Two linear layers; with a residual, or without bias."""

    def __init__(self, bias: bool = True, residual: bool = False, between: str = "gelu") -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias), nn.Linear(2 * WIDTH, WIDTH, bias)
        self.residual, self.between = residual, getattr(torch.nn.functional, between)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Up and down."""
        y = self.down(self.between(self.up(x)))
        return x + y if self.residual else y

    def parallel_plan(self) -> dict[str, Any]:
        """By columns, then by rows."""
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

        return {"up": ColwiseParallel(), "down": RowwiseParallel()}


class Attention(Part):
    """Attention with two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.all, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what is attended to."""
        q, k, v = self.all(self.norm(x)).unflatten(-1, (2, -1)).transpose(1, 2).chunk(3, -1)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Normed(Part):
    """Batch norm, whose buffers DDP sends to all processes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Over rows and width."""
        return self.norm(x)


class Counting(Part):
    """Counts its calls in a buffer and in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.scale = nn.Parameter(torch.ones(WIDTH))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scaled by what was counted."""
        if self.training:
            self.count += 1  # type: ignore[operator, assignment]
            self.calls += 1
            self.noted.append(tuple(x.shape[1:]))
        return x * self.scale + self.count * 0.01


class Dropped(Part):
    """Random numbers."""

    def __init__(self, rate: float = 0.3) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(WIDTH, WIDTH), nn.Dropout(rate)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A layer, and what is left of it."""
        return self.drop(self.layer(x)).tanh()


class Breaking(Part):
    """The graph ends in the middle, on a decision about data or on request."""

    def __init__(self, how: str = "asked") -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.how = how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer, then the other."""
        y = self.one(x).relu()
        if self.how == "asked":
            fs.graph_break()
        elif self.how == "data":
            if y.sum() > 1e9:
                return y
        elif self.how == "item":
            self.noted.append(y.numel() > int(y.argmax().item() * 0))
        elif self.how == "caught":
            try:
                raise ValueError("on the way")
            except ValueError as error:
                self.noted.append(str(error))
        return self.other(y)


class Sometimes(Part):
    """Parameters that some steps do not use."""

    def __init__(self, never: bool = False) -> None:
        super().__init__()
        self.always, self.even, self.odd = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.never = never

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One of two layers."""
        y = self.always(x)
        return y + (self.odd if self.number % 2 and not self.never else self.even)(x)


class Tied(Part):
    """A weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.other.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Twice the same weight."""
        return self.other(self.one(x).sigmoid()) + nn.functional.linear(x, self.one.weight)


class Frozen(Part):
    """Parameters that are not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed, self.free = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fixed.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Both."""
        return self.free(self.fixed(x).relu())


class Checkpointed(Part):
    """Computed once more in backward."""

    def __init__(self, reentrant: bool = False, drops: bool = False) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.drop = nn.Dropout(0.3 if drops else 0.0)
        self.reentrant = reentrant

    def _inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.other(self.one(x).relu()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Under a checkpoint."""
        if self.reentrant and not x.requires_grad:
            return self._inner(x)
        return x + checkpoint(self._inner, x, use_reentrant=self.reentrant)


class Several(Part):
    """Passes several things on, some of which nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def inner(self, x: torch.Tensor) -> dict[str, Any]:
        """A dictionary of results."""
        return {name: layer(x) for name, layer in zip("abc", self.layers, strict=True)}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What two of them give."""
        found = self.inner(x)
        return found["a"] * found["b"].softmax(-1) + found["c"].detach()


class Written(Part):
    """Writes to what it has computed, and to a slice of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """In place."""
        y = self.layer(x).clone()
        y[:, 0] = 0
        y.add_(x).mul_(0.5)
        y[..., 1:3] += 1
        return y


class Recurrent(Part):
    """A loop over positions."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One state after the other."""
        state, states = x.new_zeros(x.size(0), WIDTH), []
        for part in x.unbind(1):
            state = self.cell(part, state)
            states.append(state)
        return torch.stack(states, 1)


class Function(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """The product."""
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of both."""
        x, weight = ctx.saved_tensors
        return grads[0] * weight, (grads[0] * x).sum((0, 1))


class Own(Part):
    """A parameter that goes through a function with its own backward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scaled."""
        return Function.apply(x, self.weight)


class Hooked(Part):
    """Hooks on tensors and modules."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.layer.register_forward_hook(lambda module, args, result: result * 1.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A gradient is halved."""
        y = self.layer(x)
        if y.requires_grad:
            y.register_hook(lambda grad: grad * 0.5)
        return y


class Summed(Part):
    """What all processes have is averaged, with gradients."""

    def __init__(self, how: str = "reduced") -> None:
        super().__init__()
        self.layer, self.how = nn.Linear(WIDTH, WIDTH), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Averages over processes; rows may differ from one to the other."""
        y = self.layer(x)
        middle = y.mean(0)
        if self.how == "reduced":
            return y - collectives.all_reduce(middle, "sum", dist.group.WORLD) / dist.get_world_size()
        if self.how == "gathered":
            return y + collectives.all_gather_tensor(middle, 0, dist.group.WORLD).mean(0)
        with torch.no_grad():
            work = dist.all_reduce(total := middle.detach().clone(), async_op=True)
            z = y.tanh()
            work.wait()
        return y * total.sigmoid() + z


BLOCKS: dict[str, type[Part]] = {cls.__name__.lower(): cls for cls in (
    Linears, Attention, Normed, Counting, Dropped, Breaking, Sometimes, Tied, Frozen, Checkpointed, Several, Written,
    Recurrent, Own, Hooked, Summed)}


def draw_model(dice: random.Random, kind: str) -> list[tuple[str, dict[str, Any]]]:
    """Blocks and their options."""
    names = sorted(BLOCKS)
    parts: list[tuple[str, dict[str, Any]]] = []
    for _ in range(dice.randrange(2, 5)):
        name = dice.choice([*names, "linears", "linears"] + (["linears"] * 10 if kind in ("tp", "both") else []))
        options: dict[str, Any] = {}
        if name == "linears":
            options = {"bias": dice.random() < 0.7, "residual": dice.random() < 0.5,
                       "between": dice.choice(["gelu", "relu", "silu"])}
        elif name == "breaking":
            options = {"how": dice.choice(["asked", "data", "item", "caught"])}
        elif name == "summed":
            options = {"how": dice.choice(["reduced", "gathered", "begun"])}
        elif name == "sometimes":
            options = {"never": dice.random() < 0.3}
        elif name == "checkpointed":
            options = {"reentrant": dice.random() < 0.3 and kind != "ddp", "drops": dice.random() < 0.4}
        parts.append((name, options))
    if not any(name in ("linears", "attention") for name, _ in parts):
        parts.insert(dice.randrange(len(parts) + 1), ("linears", {}))
    return parts


class Model(nn.Module):
    """A row of blocks, with a layer in front and one behind."""

    def __init__(self, parts: list[tuple[str, dict[str, Any]]], gives: str = "tensor") -> None:
        super().__init__()
        self.front = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList([BLOCKS[name](**options) for name, options in parts])
        self.behind = nn.Linear(WIDTH, WIDTH)
        self.number = 0
        self.gives = gives

    def forward(self, x: torch.Tensor) -> Any:
        """Through all of them."""
        x = self.front(x)
        for block in self.blocks:
            block.number = self.number
            x = block(x)
        y = self.behind(x)
        if self.gives == "pair":
            return y, x.detach()
        return {"result": y, "count": x.size(0), "more": [y.mean()]} if self.gives == "dict" else y
