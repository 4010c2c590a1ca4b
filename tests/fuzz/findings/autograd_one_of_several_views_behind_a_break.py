"""What unbind() and split() return must not be changed in place where it requires grad: a graph that returned one of
several views and none of the memory besides returned it as no view at all, and behind a break the change was done."""

import torch


def fn(x, kind):
    y = x.exp()
    if kind == "unbind":
        part = y.unbind(1)[1]
    elif kind == "split":
        part = y.split(1)[0]
    elif kind == "sizes":
        part = y.split([1, 2], 1)[1]
    else:
        part = y.chunk(2)[1][0]
    if x.sum() > 1000:
        return None
    try:
        part += 1
    except RuntimeError as error:
        return "refused", "view" in str(error)
    return part


def make():
    calls = [((torch.ones(2, 3, requires_grad=True), kind), {}) for kind in ("unbind", "split", "sizes", "chunk")]
    return fn, calls, lambda index: None, lambda: {}
