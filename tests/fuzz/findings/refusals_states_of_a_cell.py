# A cell with one state for several rows of data, sizes varying, and a loss with complex weights: eager raises errors.
import torch
import torch.nn.functional as F


def make():
    def fn(x, h, weights):
        if weights is not None:
            return F.binary_cross_entropy_with_logits(x, x, weights)
        return torch.gru_cell(x, h, torch.ones(9, 4), torch.ones(9, 3))

    rows = [(3, 3), (2, 2), (5, 1)]
    calls = [((torch.rand(data, 4), torch.rand(states, 3), None), {}) for data, states in rows]
    calls.append(((torch.rand(2, 4), torch.rand(2, 3), torch.ones(4, dtype=torch.complex64)), {}))
    return fn, calls, lambda index: None, lambda: {}
