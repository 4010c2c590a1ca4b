"""Numbers from data: max(-p, -1) was taken for -1 where p is 0, a length that no number makes right was an error of the
compiler, and so was a number too large for 64 bits on the way to a small one."""

import torch


def fn(kind, x, t):
    p = t[0].item()
    if kind == "expand":
        return x.unsqueeze(0).expand(max(-p, -1), -1, -1) + 1
    if kind == "narrow":
        return (x[:, 4::3] * 2).narrow(-1, (p + 5) >> 1, max(p, -2))
    return x.as_strided((max(-5, p % -4) % 7,), (2,), 1) * 2


def use(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        return type(error).__name__


def make():
    x = torch.arange(144.0).reshape(12, 12)[1:3, 1:4]
    kinds = {"expand": (-5, 7, 0, -1, 0), "narrow": (0, -1, 3), "wide": (2**63 - 1, -2)}
    calls = [((kind, x, torch.tensor([p, 1])), {}) for kind, numbers in kinds.items() for p in numbers]
    return fn, calls, lambda index: None, dict, use
