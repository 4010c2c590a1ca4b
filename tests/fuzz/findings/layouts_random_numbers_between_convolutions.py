"""Random numbers that are shaped like the result of a convolution were drawn in the layout that the library likes."""

import torch
import torch.nn.functional as F


def fn(x, weight):
    hidden = F.conv2d(x, weight, padding=1, groups=8)
    return F.conv2d(hidden + torch.rand_like(hidden), weight, padding=1, groups=8)


def make():
    return fn, [((torch.ones(2, 8, 6, 6), torch.ones(8, 1, 3, 3)), {})], lambda index: None, dict
