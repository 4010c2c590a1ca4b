"""A kernel that reads as many elements as a selection was stated to have ran ahead of that check: a crash."""

import torch


def make():
    def fn(a, w, bad):
        a[0] = 5.0
        r = w + (torch.ones(3)[bad.expand(3) < 0.5] + torch.ones(3)).sum()
        return r * 2 + a.sum()

    calls = [((torch.arange(6.0), torch.ones(2), torch.tensor(bad)), {}) for bad in (0.0, 1.0, 0.0)]
    return fn, calls, lambda index: None, dict
