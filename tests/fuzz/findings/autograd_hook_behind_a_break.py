"""A hook registered behind a graph break on a value used before it did not see the gradient that came from that use."""

import torch


def make():
    leaf = torch.ones(3, requires_grad=True)

    def fn(x, retain):
        a = x * 2
        b = a + a
        print(type(a).__name__)
        if retain:
            a.retain_grad()
        a.register_hook(lambda g: g * 2)
        return b

    return fn, [((leaf, False), {}), ((leaf * 2, True), {})], lambda index: None, lambda: {"leaf": leaf}
