"""Eager counts the elements of a range with 64 bits, and refuses or returns nothing where those do not suffice."""

import torch

MOST = 2**63 - 1


def fn(start, end, step):
    return torch.arange(start, end, step)


def make():
    calls = [(0, 10, 3), (0, MOST, MOST // 3), (-MOST, MOST, MOST // 2), (0, MOST, MOST), (0, -MOST, -MOST // 2),
             (MOST - 5, MOST, 2), (0, 3 * 2**61, 2**61)]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except RuntimeError as error:
            return str(error)

    return fn, [(bounds, {}) for bounds in calls], lambda index: None, dict, use
