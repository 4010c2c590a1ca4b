"""A number from data that a reshape states to be a size was compared with itself, so that a wrong one did not raise."""

import torch


def make():
    def fn(x, t):
        return x.reshape(int(t))

    base = torch.arange(144.0).reshape(12, 12)
    calls = [((base[3:8, 1:7], torch.tensor(0)), {}), ((base[:3, 1:2], torch.tensor(1)), {}),
             ((base[:3, 1:2], torch.tensor(3)), {}), ((base[2:3, 1:2], torch.tensor(3)), {}),
             ((base[:5, 1:2], torch.tensor(5)), {}), ((base[:5, 1:2], torch.tensor(4)), {})]

    def use(fn, args, kwargs):
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            return type(error).__name__

    return fn, calls, lambda index: None, lambda: {"base": base}, use
