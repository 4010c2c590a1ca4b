"""A result made behind the program's own backward refused gradients, as the one did whose history that had used up."""

import torch


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        return -g * ctx.saved_tensors[0]


def fn(x):
    before = Own.apply(x)
    spent = x.sin()
    spent.square().sum().backward()
    return spent.sum(), x * 2, before * x, Own.apply(before), spent * x


def use(fn, args, kwargs):
    found = []
    for result in fn(*args):
        try:
            found.append(torch.autograd.grad(result.cos().sum(), args, retain_graph=True))
        except RuntimeError as error:
            found.append(str(error)[:60])
    return found


def make():
    calls = [((torch.tensor(numbers, dtype=torch.float64).requires_grad_(),), {}) for numbers in ([1, 2, 3], [0.5, 2])]
    return fn, calls, lambda index: None, dict, use
