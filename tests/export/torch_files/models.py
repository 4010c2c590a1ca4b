"""The modules whose programs `torch.export.save` wrote to ``data``.

    python -m tests.export.torch_files.models       # writes the files again, with the torch that is installed
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

DATA = Path(__file__).parent / "data"


class State(nn.Module):
    """Buffers that change, one that is not saved, a constant, tied and viewed weights."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.tied = self.lin.weight
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("offset", torch.arange(4.0), persistent=False)
        self.register_buffer("part", torch.arange(8.0)[2:6])
        self.constant = torch.arange(4)

    def forward(self, x: torch.Tensor) -> Any:
        self.count.add_(1)
        return self.lin(x) @ self.tied + self.offset + self.part, self.count * self.constant


class Sizes(nn.Module):
    """Sizes that vary, and relations between them."""

    def forward(self, x: torch.Tensor, other: dict[str, torch.Tensor]) -> Any:
        first, second = torch.split(x, [1, 3], dim=1)
        halves = other["y"].reshape(-1, 2)
        return {"sum": first + second, "halves": halves, "rows": x.shape[0] * 2 + 1, "pad": x.new_zeros(x.shape[0] + 1)}


class Data(nn.Module):
    """Numbers and sizes that data decides."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        number = n.item()
        torch._check(number >= 2)
        torch._check(number <= 6)
        return torch.ones(number + 1), x[x > 0].sum(), x.narrow(0, 0, number), number


class Branches(nn.Module):
    """cond and while_loop, with weights used inside."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        chosen = torch.cond(x.sum() > 0, lambda x: self.lin(x), lambda x: x - 1, (x,))
        count, grown = torch._higher_order_ops.while_loop(
            lambda n, x: n > 0, lambda n, x: (n - 1, x * 2), (n, chosen))
        return chosen, grown, count


class PlainBranches(Branches):
    """The same in Python: torch.cond compiles when it is called."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        grown = chosen = self.lin(x) if x.sum() > 0 else x - 1
        while n > 0:
            n, grown = n - 1, grown * 2
        return chosen, grown, n


class Modes(nn.Module):
    """Regions without gradients, nested, with results that are used behind them."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            first = self.lin(x)
            with torch.enable_grad():
                second = self.lin(x)
            values, _ = second.topk(2)
        return first, second * 2, values


class Inputs(nn.Module):
    """Numbers, None and containers as inputs, keywords, results of several kinds."""

    def forward(self, x: torch.Tensor, pair: tuple[torch.Tensor, Any], *, mode: str = "a", scale: float = 1.0,
                **more: Any) -> Any:
        result = (x + pair[0]) * scale + more["named"]["b"]
        return OrderedDict(b=result, a=[result.to(torch.bfloat16), None, 3, True]), x


class Layers(nn.Module):
    """Layers of several kinds; the values of attributes that JSON has no numbers for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)
        self.lstm = nn.LSTM(4, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.norm(self.conv(x.contiguous(memory_format=torch.channels_last)))
        y = y.masked_fill(y > 1, float("-inf")).amax(1)
        return y, self.lstm(y.clamp(-3, 3))[0], y.to("cpu", torch.float64), y[:, [1, 0]]


@dataclass(frozen=True)
class Model:
    """A module, what it is exported with, and further inputs."""

    make: Callable[[], nn.Module]
    args: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]] = dict
    shapes: Callable[[Any], Any] | None = None
    further: Sequence[Callable[[], tuple[Any, ...]]] = ()
    refuses: Sequence[Callable[[], tuple[Any, ...]]] = field(default_factory=list)
    decomposed: bool = False
    train: bool = True
    plain: Callable[[], nn.Module] | None = None
    """A module that does the same in eager."""

    def module(self) -> nn.Module:
        """The module, with the same weights every time."""
        torch.manual_seed(3)
        return self.make().train(self.train)

    def eager(self) -> nn.Module:
        """What the program must equal."""
        torch.manual_seed(3)
        return (self.plain or self.make)().train(self.train)


def _sizes(dim: Any) -> Any:
    return {"x": {0: dim("rows", min=2, max=16)}, "other": {"y": {0: dim.AUTO}}}


def _pairs(rows: int, long: int) -> Callable[[], tuple[Any, ...]]:
    return lambda: (torch.rand(rows, 4), {"y": torch.rand(long, 3)})


def _named() -> dict[str, Any]:
    return {"named": {"b": torch.ones(3)}, "mode": "b", "scale": 0.5}


MODELS = {
    "state": Model(State, lambda: (torch.ones(2, 4),), further=[lambda: (torch.rand(2, 4),)],
                   refuses=[lambda: (torch.ones(3, 4),), lambda: (torch.ones(2, 4).double(),)]),
    "state_decomposed": Model(State, lambda: (torch.ones(2, 4),), further=[lambda: (torch.rand(2, 4),)],
                              decomposed=True),
    "sizes": Model(Sizes, _pairs(4, 8), shapes=_sizes, further=[_pairs(7, 4), _pairs(16, 20)],
                   refuses=[_pairs(17, 8), _pairs(4, 9), lambda: (torch.rand(4, 5), {"y": torch.rand(8, 3)})]),
    "data": Model(Data, lambda: (torch.tensor([1.0, -1, 2, 3, -2, 5]), torch.tensor(3)),
                  further=[lambda: (torch.randn(6), torch.tensor(6))],
                  refuses=[lambda: (torch.randn(6), torch.tensor(7))]),
    "branches": Model(Branches, lambda: (torch.ones(2, 3), torch.tensor(3)),
                      further=[lambda: (-torch.ones(2, 3), torch.tensor(0))], plain=PlainBranches),
    "modes": Model(Modes, lambda: (torch.rand(2, 3),)),
    "inputs": Model(Inputs, lambda: (torch.ones(3), (torch.rand(3), None)), _named,
                    further=[lambda: (torch.rand(3), (torch.rand(3), None))],
                    refuses=[lambda: (torch.rand(3), (torch.rand(3), 1))]),
    "layers": Model(Layers, lambda: (torch.rand(1, 2, 4, 4),), further=[lambda: (torch.randn(1, 2, 4, 4),)],
                    train=False),
}  # fmt: skip


def write() -> None:
    """Write the files."""
    import torch.export

    DATA.mkdir(exist_ok=True)
    for name, model in MODELS.items():
        shapes = None if model.shapes is None else model.shapes(torch.export.Dim)
        program = torch.export.export(model.module(), model.args(), model.kwargs(), dynamic_shapes=shapes)
        if model.decomposed:
            program = program.run_decompositions()
        torch.export.save(program, DATA / f"{name}.pt2", extra_files={"notes.txt": f"of {name}"})


if __name__ == "__main__":
    write()
