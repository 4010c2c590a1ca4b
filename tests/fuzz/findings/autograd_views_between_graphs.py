"""Views that a graph returns behind a break: how they came about decides what autograd lets one do with them. And what
is no view was one: ``x.detach()`` could not be detached in place, a copied row could not be changed."""

import torch


def fn(x, y, kind):
    if kind == "detached":
        z = x.detach()
        print("break")
        z.detach_()
    elif kind == "row":
        z = torch.zeros(3)
        z.copy_(torch.ones(2, 3)[0])
        print("break")
        z.mul_(y)
    elif kind == "slice":
        z = x.detach()[1:]
        print("break")
        z.mul_(y)
    elif kind == "without grad":
        with torch.no_grad():
            z = x[1:]
        print("break")
        z.mul_(y)
    else:
        z = (x.detach() * 2).unbind()[0]
        print("break")
        z.mul_(y)
    return z * 2


def make():
    kinds = ("detached", "row", "slice", "without grad", "unbind")
    calls = [((torch.ones(2, 3, requires_grad=True) * 1, torch.ones(3, requires_grad=True), kind), {})
             for kind in kinds]
    return fn, calls, lambda index: None, lambda: {}
