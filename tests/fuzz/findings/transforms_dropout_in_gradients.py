"""Dropout under grad with symbolic sizes drew its numbers in the order of the tensor's memory; torch draws by rows."""

import torch
import torch.nn.functional as F
from torch.func import grad, vmap


def make():
    def fn(x):
        torch.manual_seed(5)
        whole = grad(lambda v: (F.dropout(v, 0.4) * v).sum())(x)
        return whole, vmap(grad(lambda v: F.dropout(v, 0.4).sum()), randomness="different")(x)

    calls = [((torch.arange(1.0, 1 + 4 * rows).reshape(4, rows).t(),), {}) for rows in (3, 5, 6)]
    return fn, calls, lambda index: None, dict
