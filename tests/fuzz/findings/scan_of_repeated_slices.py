"""A scan over slices of a repeated tensor: the native backend put the operand into memory in another way than the
loop's body was made for, and the body read outside of it.
"""

import torch

import firesteel as fs


def make():
    def fn(x):
        v = (x * 0.5).repeat(1, 1, 2)[..., ::2][..., : x.shape[2]]
        return fs.associative_scan(
            lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (v.sigmoid(), v), dim=1, combine_mode="generic"
        )

    calls = [((torch.arange(18.0).reshape(3, 2, 3),), {}), ((torch.arange(12.0).reshape(1, 3, 4),), {})]
    return fn, calls, lambda index: None, dict
