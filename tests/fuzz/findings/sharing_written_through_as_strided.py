"""Writes through as_strided to inputs that begin inside of a storage, beyond them, and as another dtype: lost."""

import torch


def fn(x, y):
    w = torch.as_strided(x, (2,), (1,))
    w += 10
    y[1:].as_strided((2,), (1,)).mul_(2)  # another place in another call
    y.copy_(x)
    y.view(torch.int16).as_strided((2,), (1,)).zero_()
    y.as_strided((3,), (1,), 2).add_(1)
    return w, x, y, x.as_strided((2,), (1,), 3) * 2, y[1:].as_strided((2,), (1,)) * 2


def make():
    memory, other = torch.arange(12.0), torch.arange(9.0)
    calls = [((memory[2:6], other[1:5]), {}), ((memory[3:7], other[2:6]), {}), ((memory[2:6], memory[:4]), {})]
    return fn, calls, lambda index: None, lambda: {"memory": memory, "other": other}
