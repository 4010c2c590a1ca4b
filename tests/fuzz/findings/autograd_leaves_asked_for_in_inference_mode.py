"""Whether a view that was changed in inference mode is a leaf: autograd asserted while the program was captured."""

import torch


def make():
    def fn(z):
        z[1:].mul_(z[:1])
        return z.is_leaf, z[1:]

    def use(fn, args, kwargs):
        with torch.inference_mode():
            return fn(torch.ones(4, 3, requires_grad=True)[1:3])

    return fn, [((), {})], lambda index: None, dict, use
