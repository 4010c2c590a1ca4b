"""What an argument was changed to is saved for backward, then written to through ``data``, or counted, behind a break:
the gradient was that of what had been there."""

import torch

import firesteel as fs


def fn(x, y, counted):
    y.relu_()
    x = x * y
    fs.graph_break()
    if counted:
        y.relu_()
    else:
        y.data[:1].fill_(-1.0)
    return x.sum() + y.sum()


def staged(x, y, counted):
    y.relu_()
    x.add_(y.sum())
    y.data[:1].fill_(-1.0)
    return x.sum(), x


def use(fn, args, kwargs):
    leaf, x, counted = args
    result = fn(x * 1, leaf * 1, counted)
    try:
        (result[0] if isinstance(result, tuple) else result).backward()
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return result, leaf.grad


def make():
    leaf = torch.ones(2, 3, requires_grad=True)
    x = torch.full((2, 3), 2.0)
    return lambda *args: (fn if args[2] != 2 else staged)(*args), \
        [((leaf, x, counted), {}) for counted in (False, True, 2)], lambda index: None, dict, use
