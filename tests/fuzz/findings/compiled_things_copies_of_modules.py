"""A copy of a compiled module inside of a compiled function is another compiled module."""

import copy

import torch


def make():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)
            with torch.no_grad():
                self.layer.weight.fill_(0.5)
                self.layer.bias.fill_(0.25)

        def forward(self, x):
            return self.layer(x)

    net = compiled(Net())  # noqa: F821  (given by the harness)

    def fn(x):
        one, two, (three, four) = copy.deepcopy(net), copy.copy(net), copy.deepcopy([net, net])
        one.layer.bias.data.add_(1)
        return one(x), two(x), three(x), three is four, two.layer is net.layer, type(one) is type(net), net(x)

    return fn, [((torch.ones(2, 4),), {}) for _ in range(2)], lambda index: None, dict
