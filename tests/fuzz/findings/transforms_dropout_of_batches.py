"""Dropout under vmap with symbolic sizes drew its numbers in the order of the tensor's memory; torch draws by rows."""

import torch
import torch.nn.functional as F
from torch.func import vmap


def make():
    def fn(x):
        torch.manual_seed(5)
        return vmap(lambda row: F.dropout(row * 2, 0.4), in_dims=1, out_dims=1, randomness="different")(x)

    calls = [((torch.arange(1.0, 1 + 4 * rows).reshape(4, rows),), {}) for rows in (3, 5, 6)]
    return fn, calls, lambda index: None, dict
