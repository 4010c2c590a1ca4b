"""A result of a graph that another result of it was computed from: gradients with respect to it were None, hooks on it
and its retained gradient did not see what came from the other."""

import torch


def fn(x, w):
    hidden = (x @ w).sin()
    largest, where = hidden.max(1)
    with torch.no_grad():
        total = hidden.sum()
    return hidden, largest, largest.exp() + hidden.sum() * total, where


def use(fn, args, kwargs):
    hidden, largest, last, where = fn(*args)
    between = [torch.autograd.grad(last.sum(), each, retain_graph=True) for each in (hidden, largest)]
    between.append(torch.autograd.grad(largest.sum(), hidden, create_graph=True))
    between.append(torch.autograd.grad(hidden.sum(), largest, retain_graph=True, allow_unused=True))
    hidden.retain_grad()
    largest.register_hook(lambda g: g * 2)
    last.sum().backward()
    return hidden, largest, last, where, between


def make():
    w = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()
    calls = [((torch.arange(3.0 * rows).view(rows, 3), w), {}) for rows in (2, 4, 4)]
    return fn, calls, lambda index: None, lambda: {"w": w}, use
