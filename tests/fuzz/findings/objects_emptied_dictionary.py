"""The truth of an object's __dict__ after its only attribute was deleted or another set: that of before."""

import torch


class Thing:
    pass


def make():
    full, empty = Thing(), Thing()
    full.a = 1
    attributes, others = vars(full), vars(empty)

    def fn(x):
        y = x + 1
        del full.a
        empty.b = 2
        return y * 2, bool(attributes), not others, len(attributes)

    return fn, [((torch.ones(2),), {})], lambda index: None, lambda: {"full": full, "empty": empty}
