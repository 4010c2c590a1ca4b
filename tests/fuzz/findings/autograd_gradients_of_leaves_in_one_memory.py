"""The gradients of two arguments, one of them a view of the other, were put into ``.grad`` in one memory: a change of
one was a change of both."""

import torch


def make():
    leaves = [torch.ones(2, 3, requires_grad=True), torch.ones(2, 3, requires_grad=True)]

    def fn(x, y):
        return (y.view(-1).view(2, 3) + x).sin()

    def use(fn, args, kwargs):
        (fn(*args) * 3).sum().backward()
        leaves[0].grad.zero_()
        return leaves[1].grad.clone()

    def before(index):
        leaves[0].grad = leaves[1].grad = None

    return fn, [((leaves[0], leaves[1]), {}) for _ in range(2)], before, lambda: {"leaves": leaves}, use
