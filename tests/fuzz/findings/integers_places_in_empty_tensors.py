"""What lies around a tensor without elements: a view with overlaps was copied into memory with the same overlaps, and a
place outside of the storage was taken for one inside. Backward of a pool over no channels was no error. That eager
takes integers without elements was remembered for all others."""

import torch
import torch.nn.functional as F


def fn(kind, x, n):
    if kind == "overlap":
        return x.as_strided((max(n, 0), 2), (0, 0), 0) * 2
    if kind == "outside":
        return x[1:].as_strided((max(n, 0),), (0,), 0).unfold(0, 0, 2)
    if kind == "pool":
        return F.adaptive_avg_pool1d(x[None] * 2, 3)
    x.softmax(0)
    return x.sum() + n


def use(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def make():
    base = torch.arange(12.0).reshape(3, 4)
    whole = base.int()
    calls = [
        (("overlap", base[:2], 3), {}),
        (("overlap", base[:, 1:1], 4), {}),
        (("overlap", base[1:, 1:1], 5), {}),
        (("outside", torch.ones(5, 5), -3), {}),
        (("outside", torch.ones(4, 0), 1), {}),
        (("pool", torch.ones(0, 5, requires_grad=True), 0), {}),
        (("integers", whole[:, :0], 1), {}),
        (("integers", whole[:2, :0], 2), {}),
        (("integers", whole[:, :1], 3), {}),
    ]
    return fn, calls, lambda index: None, dict, use
