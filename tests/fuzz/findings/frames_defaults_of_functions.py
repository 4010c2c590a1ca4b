"""`__kwdefaults__` and `__annotations__` of a function were another dictionary at each look."""

import torch


def helper(x, a=(1,), *, b=(2,)) -> int:
    return x


def fn(x):
    same = helper.__defaults__ is helper.__defaults__, helper.__annotations__ is helper.__annotations__
    return x + 1, helper.__kwdefaults__, helper.__kwdefaults__, same


def make():
    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {"defaults": helper.__kwdefaults__}
