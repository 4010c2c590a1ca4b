"""Windows as long as there are of them: two loops of one part became one loop of the part before, and most was not
written."""

import torch


def make():
    def fn(x, n):
        windows = (x + 1).unfold(-2, n, 1)
        return torch.stack([windows] * 3).sum(0), torch.cat([windows, windows * 2], -1)

    calls = [((torch.arange(10).reshape(5, 2), 3), {}), ((torch.arange(14.0).reshape(7, 2), 4), {})]
    return fn, calls, lambda index: None, dict
