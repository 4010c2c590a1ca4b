# Indices that are floats, and weights of a loss that are bytes, were taken where eager raises an error.
import torch
import torch.nn.functional as F


def make():
    def fn(x, index, weight):
        if weight is None:
            return x.index_select(0, index).sum()
        return F.multi_margin_loss(x, index, weight=weight)

    x = torch.rand(3, 2)
    calls = [((x, torch.tensor([0, 1, 1]), None), {}), ((x, torch.tensor(1.0), None), {}),
             ((x, torch.tensor([0, 1, 1]), torch.ones(2, dtype=torch.uint8)), {})]
    return fn, calls, lambda index: None, lambda: {}
