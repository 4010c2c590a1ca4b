"""Lists that hold one tensor twice, or what another list writes: each write is seen by the next, as in eager."""

import torch


def work(x, y):
    torch._foreach_add_([x, x], [torch.full((3,), 5.0), y])
    torch._foreach_lerp_([x, y, x], [y, x, y], 0.5)
    torch._foreach_copy_([x, y], [y, x])
    torch._foreach_mul_([x, x[1:]], 3.0)
    return x + y, torch._foreach_norm([x, x])


def make():
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([parameter, parameter], 0.1, foreach=True)

    def fn(x, y):
        optimizer.zero_grad()
        parameter.sum().backward()
        optimizer.step()
        return work(x, y)

    calls = [((torch.arange(3.0), torch.ones(3)), {}), ((torch.arange(3.0), torch.zeros(3)), {})]
    return fn, calls, lambda index: None, lambda: {"parameter": parameter}
