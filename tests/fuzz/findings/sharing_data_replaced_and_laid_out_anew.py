"""A parameter with new data that was then given another shape in place had the shape of the data in the end."""

import torch


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([2.0, -1.0, 0.5]))
        self.register_buffer("b", torch.arange(6.0))


def make():
    m = Module()

    def fn(x):
        with torch.no_grad():
            m.w.data = m.w.data.clone().add_(3).reshape(3)
            m.w.as_strided_((2,), (1,), 1).mul_(2)
            m.w.unsqueeze_(0).t_()
            m.b.data = m.b.data.reshape(-1) + 1
            m.b.resize_(4).unsqueeze_(-1)
        return x * m.w.sum(), m.b * 2

    def before(index):
        m.w.data, m.b.data = torch.arange(3.0) + index, torch.arange(6.0)

    calls = [((torch.ones(2),), {}) for _ in range(3)]
    return fn, calls, before, lambda: {"w": m.w, "b": m.b}
