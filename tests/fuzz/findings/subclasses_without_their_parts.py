"""A wrapper made inside was captured before its `__init__` had given it parts, which failed."""

import torch
from tests.capture.subclass_classes import Two


def make():
    def fn(x):
        out = []
        pair = Two(x.sin(), x + 4)
        out.append(getattr(pair, "a", None))
        out.append(pair.sum(0).b)
        return out

    def use(fn, args, kwargs):
        return [each.detach() for each in fn(args[0].clone().requires_grad_())]

    return fn, [((torch.ones(3, 4),), {})], lambda index: None, dict, use
