"""Hooks and retained gradients of arguments that are changed in place: they did not see what came from uses in a graph,
or saw what eager, for which the change makes other views, does not show them. Functions in inference mode with grad
mode on give their results a history, and nobody noticed."""

import torch


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def fn(x, y, kind):
    if kind == "changed":
        x[0] = y[1]
        twice = x + x
        x.register_hook(lambda g: g * 2)
        return x + twice
    if kind == "view":
        row = x.view(-1)
        row.detach().mul_(2)
        return row * y[0, 0]
    doubled = Doubled.apply(x)
    return doubled, doubled.is_leaf, doubled.requires_grad


def use(fn, args, kwargs):
    leaf, y, kind = args
    x = leaf[1:] * 1 if kind == "changed" else leaf[1:]
    if kind == "view":
        x.retain_grad()
    if kind == "inference":
        with torch.inference_mode(), torch.enable_grad():
            return fn(x, y, kind)[1:]
    fn(x, y, kind).square().sum().backward()
    return x.grad if kind == "view" else None


def make():
    leaf = torch.linspace(0, 1, 12).view(4, 3).requires_grad_()
    y = torch.linspace(1, 2, 9).view(3, 3).requires_grad_()
    calls = [((leaf, y, kind), {}) for kind in ("changed", "view", "inference")]
    return fn, calls, lambda index: None, lambda: {"leaf": leaf, "y": y}, use
