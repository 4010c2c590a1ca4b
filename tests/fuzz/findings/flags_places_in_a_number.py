"""Whether a number is not 0, by its places: where the answer changed, a tensor without elements was laid out for the
old one before that was noticed, which raised."""

import torch


def make():
    def fn(number, x):
        places = number.nonzero()
        return (x * 2 if places.shape[0] == 0 else x * 3), places.shape

    calls = [((torch.tensor(number), torch.ones(2)), {}) for number in (1.0, 1.0, 0.0, 1.0, 0.0)]
    return fn, calls, lambda index: None, dict
