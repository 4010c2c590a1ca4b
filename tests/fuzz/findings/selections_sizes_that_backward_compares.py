"""Autograd compares two sizes that data decides on while backward is traced: forward took them for equal, unchecked,
and read outside of what was selected."""

import torch


def fn(x, m, w):
    torch.argwhere(w[m] > 1)
    selected = x[torch.nonzero(x > 2)[:, 0]]
    return selected.unflatten(0, (-1, 2)), x.index_put((m,), selected)


def use(fn, args, kwargs):
    try:
        return fn(*args)
    except RuntimeError as error:
        return type(error).__name__


def make():
    masks = [0, 1, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]
    w = torch.arange(16.0).reshape(4, 4)
    calls = [((torch.arange(1.0, 5.0).requires_grad_(), torch.tensor(mask).bool(), w), {}) for mask in masks]
    return fn, calls, lambda index: None, lambda: {}, use
