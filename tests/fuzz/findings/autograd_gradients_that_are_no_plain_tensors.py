"""Kernels read the memory of gradients that have none (those of a subclass, zeros of autograd's own): a crash. Negated
ones lost their sign, and sparse ones were refused."""

import torch
from tests.capture.subclass_classes import Labelled, Two


def make():
    def fn(x, y):
        return x * y, x.sin()

    def use(fn, args, kwargs):
        ones = torch.ones(3, 4)
        found = []
        for gradient in (Two(ones, ones + 1), torch._efficientzerotensor((3, 4)), ones.to_sparse(),
                         torch._neg_view(ones), ones.as_subclass(Labelled)):
            leaves = [arg.clone().requires_grad_() for arg in args]
            product, sine = fn(*leaves)
            product.backward(gradient, retain_graph=True)
            sine.register_hook(lambda _, gradient=gradient: gradient)
            found += [repr(leaf.grad) for leaf in leaves]
            found += [repr(each) for each in torch.autograd.grad(sine.sum(), leaves[:1])]
            torch.gather(product, 0, torch.tensor([[0, 1, 2, 0]]), sparse_grad=True).sum().backward()
        return found

    rows = torch.linspace(0.5, 2, 12).view(3, 4)
    return fn, [((rows, rows + 1), {})], lambda index: None, dict, use
