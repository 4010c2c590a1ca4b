"""Compiled code computed quantiles of what eager refuses, and failed where a distribution was given a range that is
none, or an argument that is named like a word of Python."""

import torch


def fn(x, q, number, names):
    names.append("before")
    x.add_(1)
    if number == 0:
        return torch.quantile(x, q), torch.nanquantile(x, q.expand(2), dim=0)
    if number == 1:
        torch.nanquantile(x, q=q)
        return x
    if number == 2:
        return torch.ones(3).normal_(0, q.item()) * 2
    if number == 3:
        return torch.ones(3).exponential_(q.item())
    return torch.ones(3).uniform_(**{"from": q.item(), "to": 0.5})


def make():
    calls = [((torch.arange(4.0), torch.tensor(q), number, []), {})
             for number in range(5) for q in (0.25, -0.1, 1.1, float("nan"), 0.5)]
    return fn, calls, lambda index: None, lambda: {}
