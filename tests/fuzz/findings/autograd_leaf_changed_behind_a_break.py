"""A gradient was not differentiated again because a leaf had been changed since, whose contents eager does not need."""

import torch

import firesteel as fs


def make():
    def fn(x):
        y = x.exp()
        fs.graph_break()
        x.detach().mul_(2)
        return y * 2

    def use(fn, args, kwargs):
        leaf = args[0].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(fn(leaf).sum(), leaf, create_graph=True)
        return gradient.detach(), *torch.autograd.grad(gradient.square().sum(), leaf)

    return fn, [((torch.linspace(0, 1, 6),), {})], lambda index: None, dict, use
