"""Plain Python around tensors and modules: how forward functions are written."""

import collections
import contextlib
import functools
import types
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from . import given


class _Out(NamedTuple):
    value: torch.Tensor
    aux: dict


@dataclass
class _Cache:
    keys: list
    length: int = 0

    def update(self, key):
        self.keys.append(key)
        self.length += key.shape[0]
        return torch.cat(self.keys)


class _Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.lin = nn.Linear(3, 3, bias=False)
        nn.init.constant_(self.lin.weight, 0.1 * n)
        self.calls = 0

    def forward(self, x, *, scale=1):
        self.calls += 1
        return self.lin(x) * scale


def _net():
    net = nn.Module()
    net.blocks = nn.ModuleList(_Block(n) for n in range(2))
    net.table = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    net.register_buffer("step", torch.zeros(()))
    return net


def rows_in_loop(x):
    return [row.sum() for row in x], {i: row for i, row in enumerate(x)}, [*x]


def unpack_tensor(x):
    a, b = x
    (c, d, e), _ = x
    return a + b, c * d - e


def shape_arithmetic(x):
    b, *rest = x.shape
    n = functools.reduce(lambda p, q: p * q, rest, 1)
    return x.reshape(b, n, 1).expand(-1, -1, max(2, b)), divmod(x.numel(), 4), x.shape[-1] // 2


def named_result(x):
    return _Out(x * 2, {"shape": x.shape, "mean": x.mean()})


@given(lambda: (_Cache([torch.zeros(1, 3)], 1),))
def cache_update(x, cache):
    everything = cache.update(x)
    return everything.sum(0), cache.length


@given(lambda: (_net(),))
def module_list(x, net):
    for i, block in enumerate(net.blocks):
        x = block(x, scale=i + 1)
    for name, layer in net.table.items():
        if name in ("relu", "tanh"):
            x = layer(x)
    net.step += 1
    return x, [b.calls for b in net.blocks], len(net.blocks)


@given(lambda: (_net(),))
def module_introspection(x, net):
    total = sum(p.numel() for p in net.parameters())
    names = [n for n, _ in net.named_parameters()]
    children = [type(m).__name__ for m in net.modules()]
    return x * total, names, children, net.training, "step" in dict(net.named_buffers())


def optional_arguments(x):
    def attend(q, k=None, mask=None, **kwargs):
        k = q if k is None else k
        scores = q @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1), kwargs.pop("return_weights", False), kwargs

    return attend(x), attend(x, mask=torch.eye(2, dtype=torch.bool), return_weights=True, extra=1)


def dispatch_table(x):
    activations = {"relu": torch.relu, "gelu": nn.functional.gelu, "scaled": functools.partial(torch.mul, other=2)}
    return {name: f(x) for name, f in sorted(activations.items())}


def tensors_in_nested_structure(x):
    def tree_map(f, tree):
        if isinstance(tree, dict):
            return {k: tree_map(f, v) for k, v in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(tree_map(f, v) for v in tree)
        return f(tree)

    return tree_map(lambda t: t * 2, {"a": [x, (x + 1, 3)], "b": {"c": x}})


def attributes_on_new_tensor(x):
    y = x + 1
    y.tag = "scaled"
    y.history = [x.shape]
    return y, y.tag, hasattr(x, "tag"), y.history


def max_of_tensors(x):
    a, b = x.sum(), x.shape[0]
    return max(b, 1), min(len(x), 5), torch.maximum(a, a * 2), sum(x.shape)


def early_exit_on_config(x):
    config = types.SimpleNamespace(dropout=0.0, layers=[1, 2], act="relu", extra=None)
    if getattr(config, "dropout", 0) > 0:
        x = x * 0
    for n in config.layers or []:
        x = getattr(torch, config.act)(x) + n
    return x if config.extra is None else config.extra


def stacked_context_and_generators(x):
    def chunks(t, n):
        for start in range(0, t.shape[1], n):
            yield t[:, start : start + n]

    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        return [c.mean() for c in chunks(x, 2)]


def dtype_tables(x):
    bits = {torch.float32: 32, torch.float16: 16}
    return (
        x.to(torch.float64 if bits[x.dtype] == 32 else x.dtype),
        torch.finfo(x.dtype).max,
        torch.iinfo(torch.int8).min,
        x.dtype is torch.float32,
        x.dtype.is_floating_point,
    )


def raise_on_bad_shape(x):
    def check(t, dims):
        if t.dim() != dims:
            raise ValueError(f"Expected {dims} dimensions, got shape {tuple(t.shape)} ({t.dtype})")
        return t

    try:
        check(x, 3)
    except ValueError as error:
        return check(x, 2) + 1, str(error)


def counters_and_names(x):
    names = collections.Counter(type(m).__name__ for m in nn.Sequential(nn.ReLU(), nn.ReLU(), nn.Tanh()))
    return x * names["ReLU"], dict(names)


@given(lambda: ([torch.ones(3), torch.zeros(3)], {"w": torch.full((3,), 2.0)}))
def tensors_in_arguments(x, pair, table):
    first, second = pair
    pair[0] = x.sum(0)
    table["new"] = first + second
    return sum(pair) * table["w"], len(table)


def in_place_python_loop(x):
    out = torch.zeros(2, 3)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = x[i, j] * (i + j)
    return out


def closures_over_tensors(x):
    hooks = []

    def make(scale):
        def hook(t):
            return t * scale + x

        return hook

    for s in (1, 2):
        hooks.append(make(s))
    return functools.reduce(lambda t, h: h(t), hooks, x)
