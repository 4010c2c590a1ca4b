"""A size that depends on a comparison with a number of more than 64 bits: kernels compared with its lower bits and
wrote beyond their buffers."""

import torch
import torch.nn.functional as F


def fn(x, n, m):
    return F.pad(x[None], (int((x.shape[-1] << 2) >= n * m), 1), mode="circular"), F.pad(x, (int(n - m > 2), 0)) + 1


def make():
    calls = [((torch.ones(2, 4), 2**62, 2**63 - 1), {}), ((torch.ones(2, 5), 2, 7), {}),
             ((torch.ones(3, 5), 2**63 - 1, 2**62), {}), ((torch.ones(3, 6), -(2**63), 2**63 - 1), {}),
             ((torch.ones(3, 6), 2**62, -(2**63)), {}), ((torch.ones(3, 6), 9, 5), {})]
    return fn, calls, lambda index: None, lambda: {}
