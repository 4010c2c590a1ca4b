"""A change in place of rows that reach into each other counts once for each row in eager, and counted once in all."""

import torch


def make():
    def fn(x, window):
        part = (x * 1).unfold(0, 4, 2)
        part.add_(1)
        window.mul_(2)
        return part, window + 1

    calls = [((torch.arange(n), torch.arange(n).as_strided((3, 4), (2, 1))), {}) for n in (12.0, 14.0)]
    return fn, calls, lambda index: None, dict
