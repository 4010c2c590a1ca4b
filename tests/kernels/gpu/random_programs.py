"""Random programs of what kernels on a GPU are made of, with something to differentiate: `RandomProgram(seed)`.

Elementwise operators, reductions, normalisations, pooling, convolutions, softmax, scatters and gathers, scans, views
and random shapes, most of them small, some as long as a block of a kernel. A program prints as what it does.
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F

SHAPES = [(7,), (33,), (3, 5), (8, 64), (2, 300), (17, 3), (2, 3, 4), (4, 1, 6), (2, 16, 9), (1, 5, 2), (65, 2, 2)]
IMAGES = [(2, 3, 8, 8), (1, 4, 7, 9), (2, 2, 5, 6), (3, 1, 12, 4), (2, 8, 4, 4)]
LONG = [(2, 20001), (3, 4099), (1, 33000), (600, 40), (20, 2048)]
UNARY = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "softplus": F.softplus, "half": lambda x: x * 0.5 + 1, "abs": torch.abs, "square": torch.square,
    "root": lambda x: torch.sqrt(x.abs() + 1), "exp": lambda x: torch.exp(-x.abs()), "sin": torch.sin,
    "leaky": lambda x: F.leaky_relu(x, 0.1), "clamp": lambda x: x.clamp(-0.7, 0.8), "hardswish": F.hardswish,
    "where": lambda x: torch.where(x > 0.1, x, x * 0.25), "rounded": lambda x: x + x.bfloat16().float(),
    "selu": F.selu, "log": lambda x: torch.log1p(x.abs()), "masked": lambda x: x.masked_fill(x > 1, -2.0),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "pow": lambda x: x.pow(3),
}
BINARY = {"add": torch.add, "mul": torch.mul, "sub": torch.sub, "maximum": torch.maximum,
          "div": lambda x, y: x / (y.abs() + 1), "hypot": lambda x, y: torch.hypot(x + 3, y), "lerp": lambda x, y:
          torch.lerp(x, y, 0.3)}
REDUCTIONS = {
    "sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "var": lambda x, d, keepdim: x.var(d, keepdim=keepdim,
                                                                                               correction=0),
    "norm": lambda x, d, keepdim: torch.linalg.vector_norm(x + 2, 2, d, keepdim), "logsumexp": torch.logsumexp,
    "prod": lambda x, d, keepdim: torch.tanh(x).add(1.1).prod(d[0], keepdim=keepdim),
    "any": lambda x, d, keepdim: (x > 1).any(d[0], keepdim).float(),
}


class RandomProgram:
    """A program of a few steps on one to three tensors, with ``long`` rows if asked for; its steps are fixed."""

    def __init__(self, seed: int, steps: int = 6, long: bool = False) -> None:
        self.seed = seed
        self.pick = random.Random(seed)
        self.shape = self.pick.choice(LONG if long else IMAGES if self.pick.random() < 0.5 else SHAPES)
        most = 100000 if long else 20000
        self.count = self.pick.choice([1, 2, 3])
        self.steps: list = []
        self.names: list[str] = []
        values = [torch.randn(self.shape, generator=torch.Generator().manual_seed(seed)) for _ in range(self.count)]
        while len(self.steps) < steps:
            name, step = self.choose(values)
            try:
                with torch.no_grad():
                    made = step(values, [torch.ones(shape) for shape in getattr(step, "shapes", ())])
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            if made.numel() == 0 or made.numel() > most or not torch.isfinite(made).all():
                continue
            if made.numel() > 1 and made.std() < 0.01:
                continue  # what is made of equal numbers, such as a softmax of one, is all rounding errors
            values.append(made)
            self.steps.append(step)
            self.names.append(name)
        self.weights = [shape for step in self.steps for shape in getattr(step, "shapes", ())]
        others = self.pick.sample(range(self.count, len(values)), self.pick.choice([0, 0, 1]))
        self.results = list(dict.fromkeys([len(values) - 1, *others]))

    def __str__(self) -> str:
        return f"{self.shape} ×{self.count}: {', '.join(self.names)}"

    def inputs(self, device: str = "cpu") -> tuple[torch.Tensor, ...]:
        """Its arguments, the same in every call."""
        generator = torch.Generator().manual_seed(self.seed)
        made = [torch.randn(self.shape, generator=generator) for _ in range(self.count)]
        made += [torch.randn(shape, generator=generator) * 0.5 for shape in self.weights]
        return tuple([tensor.to(device).requires_grad_() for tensor in made])

    def __call__(self, *inputs: torch.Tensor):
        values, weights = list(inputs[:self.count]), list(inputs[self.count:])
        for step in self.steps:
            needed = len(getattr(step, "shapes", ()))
            values.append(step(values, weights[:needed]))
            weights = weights[needed:]
        return [values[at] * 1.5 for at in self.results]

    # Steps: functions of all values so far, and of weights

    def choose(self, values):
        pick = self.pick
        at = pick.randrange(len(values)) if pick.random() < 0.25 else len(values) - 1
        if not values[at].dim():
            at = pick.randrange(self.count)
        x = values[at]
        kinds = [self.unary, self.unary, self.binary, self.binary, self.reduction, self.normalised, self.softmax,
                 self.view, self.view, self.joined, self.gathered, self.scattered, self.scanned, self.weighted]
        if x.dim() == 4:
            kinds += [self.pooled, self.pooled, self.convolved, self.convolved, self.batch_norm, self.resized]
        return pick.choice(kinds)(at, x, values)

    def unary(self, at, x, values):
        name = self.pick.choice(list(UNARY))
        return name, lambda v, w: UNARY[name](v[at])

    def binary(self, at, x, values):
        fits = [i for i, y in enumerate(values) if _fit(x, y)]
        name, other = self.pick.choice(list(BINARY)), self.pick.choice(fits)
        return f"{name}[{at},{other}]", lambda v, w: BINARY[name](v[at], v[other])

    def reduction(self, at, x, values):
        dims = tuple(sorted(self.pick.sample(range(x.dim()), self.pick.choice(range(1, min(x.dim(), 3) + 1)))))
        name, keep = self.pick.choice(list(REDUCTIONS)), self.pick.random() < 0.6
        return f"{name}{dims}", lambda v, w: REDUCTIONS[name](v[at], dims, keepdim=keep)

    def normalised(self, at, x, values):
        kind = self.pick.choice(["layer", "layer_plain", "rms", "standard", "unit"])
        dims = x.shape[x.dim() - self.pick.choice(range(1, min(2, x.dim()) + 1)):]
        if kind == "layer":
            return f"layer_norm{tuple(dims)}", _with([dims, dims], lambda v, w: F.layer_norm(v[at], dims, *w))
        if kind == "layer_plain":
            return f"layer_norm{tuple(dims)}", lambda v, w: F.layer_norm(v[at], dims)
        if kind == "rms":
            return "rms_norm", _with([x.shape[-1:]], lambda v, w: F.rms_norm(v[at], x.shape[-1:], w[0]))
        dim = self.pick.randrange(x.dim())
        if kind == "unit":
            return f"normalize({dim})", lambda v, w: F.normalize(v[at] + 0.5, dim=dim)
        return f"standardised({dim})", lambda v, w: (v[at] - v[at].mean(dim, keepdim=True)) / (
            v[at].var(dim, keepdim=True, correction=0) + 0.1).sqrt()

    def softmax(self, at, x, values):
        dim, name = self.pick.randrange(x.dim()), self.pick.choice(["softmax", "log_softmax"])
        return f"{name}({dim})", lambda v, w: getattr(F, name)(v[at], dim)

    def view(self, at, x, values):
        pick = self.pick
        kind = pick.choice(["permute", "flatten", "narrow", "flip", "expand", "split", "pad", "stride", "roll", "diag"])
        dim = pick.randrange(x.dim())
        if kind == "permute":
            order = pick.sample(range(x.dim()), x.dim())
            return f"permute{tuple(order)}", lambda v, w: v[at].permute(order)
        if kind == "flatten":
            return f"flatten({dim})", lambda v, w: v[at].flatten(dim)
        if kind == "narrow":
            return f"narrow({dim})", lambda v, w: v[at].narrow(dim, 1, v[at].shape[dim] - 1)
        if kind == "flip":
            return f"flip({dim})", lambda v, w: v[at].flip(dim)
        if kind == "expand":
            return f"expand({dim})", lambda v, w: v[at].unsqueeze(dim).expand(
                *v[at].shape[:dim], 3, *v[at].shape[dim:])
        if kind == "split":
            return f"chunk({dim})", lambda v, w: torch.sub(*v[at].chunk(2, dim)[:2])
        if kind == "pad":
            mode, value = pick.choice(["constant", "reflect", "replicate", "circular"]), (pick.randrange(3), 1)
            if mode == "constant":
                return f"pad{value}", lambda v, w: F.pad(v[at], value, value=0.5)
            return f"{mode} pad", lambda v, w: F.pad(v[at], (1, 1, 1, 0) if v[at].dim() == 4 else (1, 1), mode)
        if kind == "stride":
            return f"every other ({dim})", lambda v, w: v[at].movedim(dim, 0)[::2]
        if kind == "roll":
            return f"roll({dim})", lambda v, w: v[at].roll(2, dim)
        return "tril", lambda v, w: v[at].tril()

    def joined(self, at, x, values):
        dim = self.pick.randrange(x.dim())
        if self.pick.random() < 0.3:
            return f"stack({dim})", lambda v, w: torch.stack([v[at], v[at].sin()], dim)
        return f"cat({dim})", lambda v, w: torch.cat([v[at], torch.tanh(v[at]).narrow(dim, 0, 1), v[at]], dim)

    def gathered(self, at, x, values):
        dim, kind = self.pick.randrange(x.dim()), self.pick.choice(["select", "gather", "index", "take"])
        size = x.shape[dim]
        places = torch.tensor([self.pick.randrange(size) for _ in range(5)])
        if kind == "select":
            return f"index_select({dim})", lambda v, w: v[at].index_select(dim, _at(places, v[at]))
        if kind == "gather":
            index = torch.randint(0, size, x.shape, generator=torch.Generator().manual_seed(self.seed))
            return f"gather({dim})", lambda v, w: v[at].gather(dim, _at(index, v[at]))
        if kind == "index":
            return "index", lambda v, w: v[at][_at(places, v[at]) % v[at].shape[0]]
        return f"max({dim})", lambda v, w: v[at].max(dim).values

    def scattered(self, at, x, values):
        dim, kind = self.pick.randrange(x.dim()), self.pick.choice(["index_add", "scatter_add", "index_put", "amax"])
        index = torch.randint(0, x.shape[dim], x.shape, generator=torch.Generator().manual_seed(self.seed))
        rows = torch.tensor([self.pick.randrange(x.shape[dim]) for _ in range(x.shape[dim])])
        if kind == "index_add":
            return f"index_add({dim})", lambda v, w: v[at].index_add(dim, _at(rows, v[at]), v[at] * 2)
        if kind == "scatter_add":
            return f"scatter_add({dim})", lambda v, w: v[at].scatter_add(dim, _at(index, v[at]), v[at].cos())
        if kind == "amax":
            return f"scatter amax({dim})", lambda v, w: v[at].scatter_reduce(
                dim, _at(index, v[at]), v[at].sin(), "amax")
        first = rows % x.shape[0]
        return "index_put", lambda v, w: v[at].index_put(
            (_at(first, v[at]),), v[at][_at(first, v[at])].sin() + 1, accumulate=True)

    def scanned(self, at, x, values):
        dim, name = self.pick.randrange(x.dim()), self.pick.choice(["cumsum", "cumprod", "logcumsumexp"])
        return f"{name}({dim})", lambda v, w: getattr(torch.tanh(v[at]), name)(dim)

    def weighted(self, at, x, values):
        width = self.pick.choice([3, 8, 16])
        if x.dim() < 2:
            return "outer", lambda v, w: v[at].unsqueeze(-1) * v[at]
        return f"linear({width})", _with([(width, x.shape[-1]), (width,)], lambda v, w: F.linear(v[at], *w))

    def pooled(self, at, x, values):
        pick = self.pick
        size, stride, pad = pick.choice([2, 3]), pick.choice([1, 2, 3]), pick.choice([0, 1])
        kind = pick.choice(["max", "max", "avg", "adaptive_avg", "adaptive_max", "lp"])
        if kind in ("max", "avg"):
            function = F.max_pool2d if kind == "max" else F.avg_pool2d
            ceil = pick.random() < 0.3
            return f"{kind}_pool({size},{stride},{pad})", lambda v, w: function(v[at], size, stride, pad,
                                                                                ceil_mode=ceil)
        if kind == "lp":
            return "lp_pool", lambda v, w: F.lp_pool2d(v[at] + 3, 2, 2)
        function = F.adaptive_avg_pool2d if kind == "adaptive_avg" else F.adaptive_max_pool2d
        out = pick.choice([1, 3, (2, 3)])
        return f"{kind}({out})", lambda v, w: function(v[at], out)

    def convolved(self, at, x, values):
        pick = self.pick
        out, size, stride, pad = pick.choice([2, 4]), pick.choice([1, 3]), pick.choice([1, 2]), pick.choice([0, 1])
        if pick.random() < 0.2:
            return f"conv_transpose({out},{size})", _with(
                [(x.shape[1], out, size, size), (out,)], lambda v, w: F.conv_transpose2d(v[at], *w, stride=stride))
        shapes = [(out, x.shape[1], size, size)] + ([(out,)] if pick.random() < 0.6 else [])
        return f"conv({out},{size},{stride},{pad})", _with(
            shapes, lambda v, w: F.conv2d(v[at], *w, stride=stride, padding=pad))

    def batch_norm(self, at, x, values):
        channels = x.shape[1]
        kind = self.pick.choice(["batch", "batch", "group", "instance"])
        if kind == "group":
            groups = self.pick.choice([g for g in (1, 2, 4) if channels % g == 0])
            return f"group_norm({groups})", _with(
                [(channels,), (channels,)], lambda v, w: F.group_norm(v[at], groups, *w))
        if kind == "instance":
            return "instance_norm", lambda v, w: F.instance_norm(v[at])
        return "batch_norm", _with([(channels,), (channels,)], lambda v, w: F.batch_norm(
            v[at], None, None, *w, training=True))

    def resized(self, at, x, values):
        mode = self.pick.choice(["nearest", "bilinear"])
        return f"{mode} ×2", lambda v, w: F.interpolate(v[at], scale_factor=2, mode=mode)


def _at(index, x):
    """An index, on the device of a tensor."""
    return index.to(x.device)


def _with(shapes, step):
    step.shapes = [tuple(shape) for shape in shapes]
    return step


def _fit(x, y):
    try:
        torch.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        return False
    return True
