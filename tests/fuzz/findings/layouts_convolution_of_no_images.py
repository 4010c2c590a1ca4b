"""Convolutions of no images, whose results lie as an elementwise product does where their shape is the same."""

import torch
import torch.nn.functional as F


def fn(x, signal):
    images = F.conv2d(x, torch.ones(1, 1, 3, 3), padding=1)
    return images, images.narrow(2, 0, 6), F.conv1d(signal, torch.ones(1, 1, 3), torch.ones(1), padding=1)


def make():
    memory = torch.arange(81.0)
    layouts = ((81, 9, 1), (0, 0, 0), (5, 9, 1))
    calls = [((memory.as_strided((0, 9, 9), layout).unsqueeze(-3).requires_grad_(),
               memory[:9].as_strided((0, 1, 9), (9, step, 1))), {})
             for layout, step in zip(layouts, (0, 9, 1), strict=True)]
    return fn, calls, lambda index: None, lambda: {}
