"""That a loop over a part has an index was taken to hold for other loops too: a write to an empty part hit columns."""

import torch


def make():
    def fn(x, n):
        y = x * 1
        y[:, -3:int(n < 0)].mul_(2)
        return y * 2

    x = torch.arange(12.0).reshape(3, 4) + 1
    return fn, [((x, n), {}) for n in (-1, -3, 2)], lambda index: None, dict
