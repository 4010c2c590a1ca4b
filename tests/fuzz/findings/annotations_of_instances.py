"""Annotations that an object has through a base of its class: asking the class for them made a table in it, which
failed its guards, and gave that table."""

import functools

import torch


class Base:
    size: int = 3


def make():
    class Net(torch.nn.Module):
        def forward(self, x):
            return x.tanh()

    class Derived(Base):
        def __call__(self, x):
            return x * self.size

    net, derived = Net(), Derived()

    def fn(x):
        @functools.wraps(net)
        def inner(x):
            return net(x)

        return inner(x), derived(x), sorted(derived.__annotations__), derived.__doc__, sorted(inner.__annotations__)[:2]

    return fn, [((torch.ones(2),), {}) for _ in range(2)], lambda index: None, lambda: {
        "names": [sorted(vars(kind)) for kind in (Net, Derived)]}
