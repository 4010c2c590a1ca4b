"""Second derivatives were refused where the graph writes its own contents to an input that they have nothing to do
with."""

import torch

LEAVES = []


def leaf():
    LEAVES.append(torch.linspace(0.4, 1.6, 6, dtype=torch.float64).reshape(2, 3).requires_grad_())
    return LEAVES[-1]


def fn(x, y):
    y.copy_(y)
    return x * 2


def use(fn, args, kwargs):
    first = torch.autograd.grad(fn(*args).square().sum(), LEAVES, create_graph=True, allow_unused=True)
    return [torch.autograd.grad(g.square().sum(), LEAVES, allow_unused=True) for g in first if g is not None]


def make():
    del LEAVES[:]
    return fn, [((leaf() * 1, leaf() * 1), {})], lambda index: None, lambda: {"leaves": LEAVES}, use
