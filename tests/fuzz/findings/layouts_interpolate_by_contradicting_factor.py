"""Factors of interpolate that leave a size as it is, or double it, without being 1 or 2: kernels of eager go by the
factor or by the sizes, and ours went by the other one."""

import torch
import torch.nn.functional as F


def fn(x, mode, factor):
    return F.interpolate(x, scale_factor=factor, mode=mode)


def use(fn, args, kwargs):
    result = fn(*args)
    (result * torch.arange(result.numel()).view(result.shape)).sum().backward()
    return result


def make():
    signal, image, volume = (torch.linspace(-1, 1, 4**n).view(1, 1, *[4] * n).requires_grad_() for n in (1, 2, 3))
    calls = [((x, mode, factor), {}) for x, mode in (
        (signal, "nearest"), (signal, "linear"), (image, "nearest"), (image, "bilinear"), (image, "bicubic"),
        (volume, "nearest"), (volume, "trilinear"),
    ) for factor in (1.1, 2.2)]  # fmt: skip
    return fn, calls, lambda index: None, lambda: {"grads": [x.grad for x in (signal, image, volume)]}, use
