"""An input that retains its gradient and is changed in place: its gradient was None."""

import torch


def fn(x, y):
    x[1:].mul_(y[:1])
    return x.sum()


def use(fn, args, kwargs):
    args[0].retain_grad()
    fn(*args).backward()
    return args[0].grad, args[1].grad


def make():
    x, y = torch.ones(2, 3, requires_grad=True), torch.full((2, 3), 3.0, requires_grad=True)
    return fn, [((x * 2, y), {})], lambda index: None, lambda: {}, use
