"""The compiler failed where an argument is a view, made without gradients, of what has them, and is changed in place
before an operation that may raise."""

import torch

LEAVES = []


def fn(x, index):
    view = x.view(-1)[2:]
    if x.sum() > 0.5:
        x = x * 1
    view.mul_(x.mean())
    return torch.arange(3.0)[index] * 2, x


def use(fn, args, kwargs):
    with torch.no_grad():
        return fn(*args)


def make():
    LEAVES[:] = [torch.ones(2, 3).requires_grad_() for _ in range(3)]
    calls = [((leaf * 1, torch.tensor(index)), {}) for leaf, index in zip(LEAVES, (1, 7, 2), strict=True)]
    return fn, calls, lambda index: None, lambda: {"leaves": LEAVES}, use
