"""Random modules to be exported: layers, operators, control flow, state and nested inputs, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from tests.export.programs.record import Program, rand
from torch import nn

Value = torch.Tensor
Step = Callable[["RandomModule", Value, Value], Value]


def _keep(body: Callable[[Value, Value], Value]) -> Step:
    return lambda module, x, y: body(x, y)


def _no_grad(module: RandomModule, x: Value, y: Value) -> Value:
    with torch.no_grad():
        first = x * 2
        second = first.sum(0, keepdim=True)
    return x + first + second


def _nested_grad(module: RandomModule, x: Value, y: Value) -> Value:
    with torch.no_grad():
        first = y.relu()
        with torch.enable_grad():
            second = x * first
        third = second.detach() + 1
    return second + third


def _buffer(module: RandomModule, x: Value, y: Value) -> Value:
    module.count.add_(1)
    return x + module.count


def _moving(module: RandomModule, x: Value, y: Value) -> Value:
    module.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return x - module.mean


def _split(module: RandomModule, x: Value, y: Value) -> Value:
    first, second = x.chunk(2, dim=1)
    return torch.cat([second, first.exp().clamp(max=4)], 1)


def _topk(module: RandomModule, x: Value, y: Value) -> Value:
    values, indices = x.topk(4, dim=1)
    return values.sum(1, keepdim=True) + indices.to(x.dtype) / 10


def _cond(module: RandomModule, x: Value, y: Value) -> Value:
    return torch.cond(x.sum() > 0, lambda x, y: x + y, lambda x, y: x - module.lin(y), (x, y))


def _cond_size(module: RandomModule, x: Value, y: Value) -> Value:
    count = x.shape[0]
    return x * count + torch.full((1, 4), count // 2 + 1, dtype=x.dtype)


def _item(module: RandomModule, x: Value, y: Value) -> Value:
    number = y.abs().sum().clamp(0, 3).to(torch.int64).item()
    torch._check(number >= 0)
    torch._check(number <= 3)
    return x + torch.zeros(number + 1).sum() + number


def _mask(module: RandomModule, x: Value, y: Value) -> Value:
    return x + x[x > 0].sum()


def _nonzero(module: RandomModule, x: Value, y: Value) -> Value:
    return x * (x > 0).nonzero().shape[0]


def _index(module: RandomModule, x: Value, y: Value) -> Value:
    return x[:, [3, 1, 0, 2]] + x[-1:, :, None].squeeze(-1)


def _lstm(module: RandomModule, x: Value, y: Value) -> Value:
    return module.lstm(x[None])[0][0]


def _written(module: RandomModule, x: Value, y: Value) -> Value:
    result = torch.zeros_like(x)
    result[:, 1:3] = x[:, :2]
    result.t()[0].add_(1)
    return result + y


STEPS: dict[str, Step] = {
    "linear": lambda module, x, y: module.lin(x),
    "norm": lambda module, x, y: module.norm(x),
    "batch_norm": lambda module, x, y: module.batch(x),
    "conv": lambda module, x, y: module.conv(x[:, None])[:, 0],
    "attention": lambda module, x, y: nn.functional.scaled_dot_product_attention(x[None], y[None], y[None])[0],
    "lstm": _lstm, "embedding": lambda module, x, y: x + module.embedding(x.abs().long() % 5),
    "gelu": _keep(lambda x, y: nn.functional.gelu(x)), "softmax": _keep(lambda x, y: x.softmax(-1) + y),
    "matmul": _keep(lambda x, y: x @ y.t() @ y / 8), "einsum": _keep(lambda x, y: torch.einsum("ij,ik->ij", x, y)),
    "reshape": _keep(lambda x, y: x.reshape(-1, 2).reshape(-1, 4)),
    "flatten": _keep(lambda x, y: x.flatten().view(-1, 4)),
    "where": _keep(lambda x, y: torch.where(x > y, x, float("inf")).clamp(-5, 5)),
    "permute": _keep(lambda x, y: x.t().contiguous().t() + y),
    "pad": _keep(lambda x, y: nn.functional.pad(x, (1, 1))[:, 1:5]),
    "cumsum": _keep(lambda x, y: x.cumsum(0)), "double": _keep(lambda x, y: (x.double() + 0.5).float()),
    "half": _keep(lambda x, y: x.bfloat16().float()), "expand": _keep(lambda x, y: x[:1].expand_as(y) + y),
    "stack": _keep(lambda x, y: torch.stack([x, y, x]).mean(0)),
    "unbind": _keep(lambda x, y: x + x.unbind(1)[2][:, None]),
    "sort": _keep(lambda x, y: x.sort(dim=1, descending=True)[0]),
    "std": _keep(lambda x, y: x / (y.var(1, keepdim=True) + 1)),
    "norms": _keep(lambda x, y: x / torch.linalg.vector_norm(x, dim=1, keepdim=True).add(1)),
    "arange": _keep(lambda x, y: x + torch.arange(x.shape[0], device=x.device)[:, None]),
    "dropout": _keep(lambda x, y: nn.functional.dropout(x, 0.5, training=False)),
    "no_grad": _no_grad, "nested_grad": _nested_grad, "buffer": _buffer, "moving": _moving, "split": _split,
    "topk": _topk, "cond": _cond, "cond_size": _cond_size, "item": _item, "mask": _mask, "nonzero": _nonzero,
    "index": _index, "written": _written,
    "constant": lambda module, x, y: x + module.constant, "parameter": lambda module, x, y: x * module.scale,
}  # fmt: skip


class RandomModule(nn.Module):
    """Steps one after the other, and results nested in some way."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        dice = random.Random(seed)
        self.lin = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.batch = nn.BatchNorm1d(4)
        self.conv = nn.Conv1d(1, 1, 3, padding=1)
        self.lstm = nn.LSTM(4, 4, batch_first=True)
        self.embedding = nn.Embedding(5, 4)
        self.scale = nn.Parameter(torch.rand(4))
        self.tied = self.scale if dice.random() < 0.3 else nn.Parameter(torch.rand(1))
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(4), persistent=dice.random() < 0.5)
        self.constant = torch.arange(4.0)
        self.names = [dice.choice(sorted(STEPS)) for _ in range(dice.randint(1, 6))]
        self.nesting = dice.choice(["one", "dict", "tuple", "size", "none", "twice", "input"])

    def forward(self, x: Value, others: dict[str, Value], *, factor: float = 1.0) -> Any:
        """The steps, and a result."""
        y = others["y"]
        for name in self.names:
            x = STEPS[name](self, x, y)
        x = x * factor + self.tied.sum() * 0
        return {"one": lambda: x, "dict": lambda: {"x": x, "list": [y + 1, x]}, "tuple": lambda: (x, (y * 2,)),
                "size": lambda: (x, x.shape[0] * 2 + 1), "none": lambda: [x, None, 2.5, True],
                "twice": lambda: (x, x), "input": lambda: (x, y)}[self.nesting]()


def random_program(seed: int) -> Program:
    """The program of a seed, as `tests.export.programs` has them."""
    dice = random.Random(f"export {seed}")
    rows, dynamic = dice.choice([2, 3, 5, 8]), dice.random() < 0.7
    shapes = None
    if dynamic:
        def shapes(dim: Any) -> Any:
            batch = dim("rows", min=2, max=64) if seed % 2 else dim.AUTO
            return {"x": {0: batch}, "others": {"y": {0: batch}}, "factor": None}
    factor = {"factor": dice.choice([0.5, 2.0])}
    further = [((rand(count, 4, seed=seed + count), {"y": rand(count, 4, seed=seed + 7)}), factor)
               for count in ((4, 7, 33) if dynamic else (rows,))]
    module = RandomModule(seed)
    return Program(f"random_{seed}: {' '.join(module.names)} -> {module.nesting}", "random", lambda: RandomModule(seed),
                   (rand(rows, 4, seed=seed), {"y": rand(rows, 4, seed=seed + 1)}), factor, shapes, further, (), None,
                   True, dice.random() < 0.2, False, True, "export")
