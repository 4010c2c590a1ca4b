"""A function that took the place of torch.nn.functional.linear ran a second time, in firesteel's own call of it."""

import contextlib

import torch

linear = torch.nn.functional.linear


@contextlib.contextmanager
def replaced():
    torch.nn.functional.linear = lambda *args: 3 * linear(*args)
    try:
        yield
    finally:
        torch.nn.functional.linear = linear


def make():
    layer = torch.nn.Linear(3, 3)
    torch.nn.init.ones_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    seen = []

    def use(function, args, kwargs):
        seen.append(None)
        with replaced() if len(seen) % 2 == 0 else contextlib.nullcontext():
            return function(*args, **kwargs)

    calls = [((torch.ones(size, 3),), {}) for size in (2, 2, 4, 5)]
    return lambda x: layer(x) + 1, calls, lambda index: None, lambda: {}, use
