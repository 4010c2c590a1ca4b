"""What a mask of one element selects was taken to have the size that an operator was told: an internal error."""

import torch


def make():
    def fn(x, m):
        return x * x[m], x[m].squeeze(), x[m].reshape(-1)

    return fn, [((torch.ones(1, 3), torch.tensor([m])), {}) for m in (False, True, False)], lambda index: None, dict
