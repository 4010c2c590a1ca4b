"""Backward of one result wanted an input that had been changed, which only the number of found elements depends on."""

import torch


def make():
    weight = torch.linspace(-1.0, 1.0, 4, requires_grad=True)

    def fn(x):
        product = x @ weight
        places = torch.nonzero(product)
        count = len(places)
        found = weight.mean() * places.float().sum()
        seen = {count}
        seen.add(count)
        torch.add(x, 1, out=x)
        return [found, product]

    return fn, [((torch.arange(4.0),), {})], lambda index: None, lambda: weight
