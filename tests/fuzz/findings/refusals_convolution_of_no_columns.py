"""Kernels that do not fit into images are refused, also where nobody reads the result, as empty as it would be."""

import torch
import torch.nn.functional as F


def fn(x, size):
    refused = ""
    try:
        F.conv2d(x, torch.ones(4, 3, 1, size))
    except RuntimeError as error:
        refused = str(error)
    return x + 1, refused


def unread(x, size):
    F.conv1d(x[0], torch.ones(2, 7, size))
    return x + 1


def both(x, size, reads):
    return fn(x, size) if reads else unread(x, size)


def make():
    calls = [(torch.ones(3, 3, 7, columns), size, reads)
             for columns, size in ((0, 1), (2, 1), (2, 3), (3, 3)) for reads in (True, False)]
    return both, [(args, {}) for args in calls], lambda index: None, dict
