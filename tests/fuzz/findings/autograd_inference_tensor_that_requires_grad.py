"""An inference tensor that requires grad did not, where compiled code was given it: results had no history."""

import torch

LEAVES = []


def read(t):
    return t.requires_grad, t.is_leaf, t.is_inference(), t * 2


def between_graphs(x):
    t = x.clone().requires_grad_()
    t.retain_grad()
    return t.requires_grad, t * 2


def product(t):
    return t.requires_grad, t * t


def fn(x, name):
    y = x.detach() + 1
    return y, globals()[name](x)


def use(fn, args, kwargs):
    with torch.inference_mode(args[2]):
        result = fn(*args[:2])
    total = result[1][-1]
    return result, total.requires_grad, total.grad_fn is None


def make():
    with torch.inference_mode():
        LEAVES[:] = [torch.ones(2).requires_grad_(), torch.ones(2)]
    calls = [((leaf, name, mode), {}) for leaf in LEAVES for name, mode in (
        ("read", True), ("read", False), ("between_graphs", True), ("product", True), ("product", False))]
    return fn, calls, lambda index: None, lambda: {}, use
