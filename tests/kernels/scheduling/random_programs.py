"""Random programs of pointwise operators, reductions, views and calls."""

import random

import torch

UNARY = [torch.tanh, torch.exp, torch.neg, lambda x: x * 0.5 + 1, torch.abs, lambda x: torch.sqrt(torch.abs(x) + 1)]
BINARY = [torch.add, torch.mul, torch.sub, torch.maximum]
KINDS = ["unary", "binary", "binary", "reduce", "reduce", "normalise", "view", "view", "cat", "call"]
REDUCE = ["sum", "mean", "amax", "amin"]


class RandomProgram:
    """A program of some steps on one to three inputs; the steps are fixed when it is made."""

    def __init__(self, seed, steps=7):
        self.random = random.Random(seed)
        self.torch = torch.Generator().manual_seed(seed)
        sizes = self.random.choice([(3, 4), (2, 3, 4), (4, 6), (2, 3, 2, 4), (5,), (1, 4, 3)])
        self.inputs = [torch.randn(sizes, generator=self.torch) for _ in range(self.random.choice([1, 2, 3]))]
        self.steps = []
        values = list(self.inputs)
        for _ in range(steps):
            step = self.choose(values)
            values.append(step(values))
            self.steps.append(step)
        count = self.random.choice([1, 2, 3])
        others = [self.random.randrange(len(self.inputs), len(values)) for _ in range(count - 1)]
        self.results = [len(values) - 1, *others]

    def __call__(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(step(values))
        # What is returned twice would be one tensor.
        return tuple([values[at] * 1.5 if k else values[at] + 0.25 for k, at in enumerate(dict.fromkeys(self.results))])

    def choose(self, values):
        pick = self.random
        a = pick.choice(range(len(values))) if pick.random() < 0.4 else len(values) - 1
        x = values[a]
        kind = pick.choice(KINDS)
        if kind == "unary":
            f = pick.choice(UNARY)
            return lambda v: f(v[a]).clamp(-50, 50)
        if kind == "binary":
            f = pick.choice(BINARY)
            fits = [i for i, y in enumerate(values) if _fit(x, y)]
            b = pick.choice(fits)
            return lambda v: f(v[a], v[b]).clamp(-50, 50)
        if x.dim() and kind in ("reduce", "normalise"):
            dims = tuple(sorted(pick.sample(range(x.dim()), pick.choice(range(1, min(x.dim(), 2) + 1)))))
            name, keep = pick.choice(REDUCE), pick.random() < 0.5
            if kind == "reduce":
                return lambda v: getattr(v[a], name)(dims, keepdim=keep)
            return lambda v: torch.tanh(v[a] - getattr(v[a], name)(dims, keepdim=True))
        if x.dim() and kind == "view":
            return self.view(a, x)
        if x.dim() and kind == "cat":
            dim = pick.randrange(x.dim())
            return lambda v: torch.cat([v[a], torch.tanh(v[a])], dim)
        if x.dim() == 2 and kind == "call":
            return lambda v: torch.mm(v[a], v[a].t()).clamp(-50, 50)
        return lambda v: v[a] * 2

    def view(self, a, x):
        pick = self.random
        kind = pick.choice(["permute", "flatten", "split", "slice", "flip", "unsqueeze"])
        if kind == "permute":
            order = pick.sample(range(x.dim()), x.dim())
            return lambda v: v[a].permute(order)
        if kind == "flatten":
            return lambda v: v[a].reshape(-1)
        if kind == "split" and x.numel() % 2 == 0 and x.numel():
            return lambda v: v[a].reshape(2, -1)
        if kind == "slice" and x.shape[-1] > 1:
            return lambda v: v[a][..., 1:]
        if kind == "flip":
            return lambda v: v[a].flip(0)
        return lambda v: v[a].unsqueeze(-1)


def _fit(x, y):
    try:
        torch.broadcast_shapes(x.shape, y.shape)
    except RuntimeError:
        return False
    return True
