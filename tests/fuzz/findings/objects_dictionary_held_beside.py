"""An object and its dictionary, both from outside: what was written to one was not seen in the other."""

import torch


class Plain:
    def __init__(self):
        self.a = 1


def make():
    first, second = Plain(), Plain()
    table, other = vars(first), vars(second)

    def fn(x):
        first.b = x + 1
        other["b"] = x.shape[0]
        return table["b"], len(table), second.b, list(other)

    return fn, [((torch.ones(3),), {}), ((torch.ones(2),), {})], lambda index: None, lambda: {"table": table}
