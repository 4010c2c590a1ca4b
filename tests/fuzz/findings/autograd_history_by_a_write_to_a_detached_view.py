"""Views of a detached tensor, older than a break: a write behind it gave a history to what was detached, and to no
other view of the detached tensor."""

import torch


def fn(x, y, kind):
    base = y if kind == "argument" else y * 2
    detached = base.detach()
    row, rest = detached[0], detached[1:]
    if kind == "two":
        base, detached = detached, base
    if x.sum() > 1000:
        return None
    row.mul_(x.mean())
    return base, detached, rest if kind != "row" else row


def make():
    calls = [((torch.ones(2, 3, requires_grad=True) * 1, torch.ones(3, 3), kind), {})
             for kind in ("argument", "row", "two")]
    return fn, calls, lambda index: None, lambda: {}
