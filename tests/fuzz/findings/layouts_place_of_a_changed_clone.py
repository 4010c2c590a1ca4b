"""A clone of a view that is changed in place began in its memory where the view does, so that other places were read,
and places behind its end were there."""

import torch


def fn(x, around):
    changed = x.clone()
    changed[4].fill_(3)
    if around:
        return changed.as_strided((5, 2), (2, 3))
    return changed.as_strided((4,), (1,), 1) * 2


def make():
    x = torch.arange(14.0)[2:11]
    return fn, [((x, False), {}), ((x, True), {})], lambda index: None, dict
