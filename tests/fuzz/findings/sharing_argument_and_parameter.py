"""An argument that is written to came to share memory with a parameter or buffer: the old contents were read."""

import torch


def make():
    torch.manual_seed(0)
    m = torch.nn.Linear(2, 2, bias=False)
    m.register_buffer("b", torch.zeros(2))

    def fn(w, x):
        with torch.no_grad():
            w.mul_(2)
            m.b.add_(1)
        return m(x), x * 2

    x = torch.ones(1, 2)
    calls = [(torch.ones(2, 2), x), (m.weight.detach(), x), (m.state_dict()["weight"], x),
             (torch.ones(2, 2), m.b[None])]
    return fn, [(call, {}) for call in calls], lambda index: None, lambda: {"weight": m.weight, "b": m.b}
