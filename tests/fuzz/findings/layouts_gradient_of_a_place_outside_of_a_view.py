"""A result that is a place in the storage of a view: what the view does not have gets no gradient."""

import torch


def fn(x, n):
    part = x[1:]
    nothing = (x + 1).narrow(0, n, 0)
    second = (x * 2).chunk(2)[1]
    return part.as_strided((3, n), (2, 3), 0), nothing.as_strided((5,), (n - 1,)), second.as_strided((4,), (1,), 3)


def make():
    calls = [((torch.arange(20.0).reshape(4, 5).requires_grad_(), n), {}) for n in (1, 2, 3)]

    def use(fn, args, kwargs):
        results = fn(*args, **kwargs)
        gradients = [torch.autograd.grad(result.sum(), args[0], retain_graph=True) for result in results]
        return results, gradients

    return fn, calls, lambda index: None, lambda: {}, use
