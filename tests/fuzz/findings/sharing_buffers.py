"""Two buffers came to share memory: a write to one was not seen through the other, and one update was lost."""

import torch


def make():
    first, second = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    m = torch.nn.Module()
    m.register_buffer("a", torch.zeros(2))
    m.register_buffer("b", torch.zeros(2))

    def fn(x):
        m.a.add_(x[0])
        return m.b * 10, first(x), second(x)

    def before(index):
        if index == 1:
            m.b.data = m.a.data
            second.running_mean = first.running_mean.view(2)
        if index == 2:
            m.a = torch.zeros(3)[1:]
            m.b = m.a.detach()

    calls = [((torch.arange(8.0).view(4, 2),), {})] * 3
    return fn, calls, before, lambda: {"state": [m.a, m.b, first.running_mean, second.running_mean]}
