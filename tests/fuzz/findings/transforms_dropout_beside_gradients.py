"""Dropout inside of a gradient inside of vmap, of what is not differentiated, with symbolic sizes: its numbers
were drawn in the order of the tensor's memory; torch draws by rows of the batch."""

import torch
import torch.nn.functional as F
from torch.func import jvp, vjp, vmap


def make():
    def fn(x, v):
        torch.manual_seed(5)

        def pulled(column):
            return vjp(lambda w: F.dropout(column, 0.4) * w.sum(), v)[0]

        def pushed(column):
            return jvp(lambda w: F.dropout(column, 0.4) * w.sum(), (v,), (v,))[0]

        return tuple([vmap(each, in_dims=1, out_dims=1, randomness="different")(x) for each in (pulled, pushed)])

    calls = [((torch.arange(1.0, 1 + 4 * rows).reshape(4, rows), torch.ones(rows)), {}) for rows in (3, 5, 6)]
    return fn, calls, lambda index: None, dict
