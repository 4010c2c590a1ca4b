"""Only backward looks at the indices where there is nothing to add: it did not, because nobody needed its result."""

import torch


def fn(x):
    nothing = x.as_strided((1, 0), (0, 2)) * 2
    return nothing.index_add(0, torch.tensor([1]), nothing[:1]) + 1


def make():
    return fn, [((torch.ones(3, 3, requires_grad=True),), {})], lambda index: None, dict
