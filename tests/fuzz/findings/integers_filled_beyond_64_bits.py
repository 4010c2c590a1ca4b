"""A tensor that nobody reads, filled with a number that 64 bits do not hold: eager's error did not come."""

import torch


class Sequence:
    def __index__(self):
        return 1

    def __getitem__(self, key):
        return key


def fn(x, m):
    torch.full((5,), m)
    return x + 1, x[Sequence()] if m == 3 else 0


def use(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return str(error)


def make():
    calls = [((torch.ones(2), m), {}) for m in (1, 2**63, 5, -2**63, 3)]
    return fn, calls, lambda index: None, dict, use
