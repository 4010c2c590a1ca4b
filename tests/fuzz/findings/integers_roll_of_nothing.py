"""A shift was divided by a number of elements that is 0, in front of the loop that does not run: the process died."""

import torch


def fn(x, t):
    q = t[0].item()
    return torch.roll(x.repeat_interleave(q // 3, 1), q) + 8.0


def make():
    calls = [((torch.ones(2, 3), torch.tensor([number])), {}) for number in (7, 3, 0, 2, 5)]
    return fn, calls, lambda index: None, lambda: {}
