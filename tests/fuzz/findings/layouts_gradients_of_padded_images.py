"""Gradients of images with channels last that are padded by reflection or replication have channels last, too."""

import torch
import torch.nn.functional as F


def fn(x, mode):
    return F.pad(x, (1, 1, 0, 1), mode=mode)


def make():
    def image():
        return torch.arange(96.0).reshape(2, 3, 4, 4).contiguous(memory_format=torch.channels_last).requires_grad_()

    calls = [((image(), mode), {}) for mode in ("reflect", "replicate", "reflect", "constant")]
    return fn, calls, lambda index: None, lambda: {}
