"""A class's own __getattribute__ was passed by for vars() and for parameters of modules, and ran where nobody asked."""

import torch

LOG = []


class Noted:
    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        LOG.append(name)
        return object.__getattribute__(self, name)


class Pretends:
    def __getattribute__(self, name):
        return {"b": 3} if name == "__dict__" else object.__getattribute__(self, name)


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.k = 2

    def __getattribute__(self, name):
        if name == "weight":
            return super().__getattr__(name) * 3
        return super().__getattribute__(name)

    def forward(self, x):
        self.k += 1
        return x * self.weight + self.k


def fn(x, noted, table, pretends, module):
    table["a"] = x.shape[0]
    out = [noted.a, getattr(noted, "b", None), vars(pretends), module(x)]
    noted.b = 5
    made = Noted()
    held = vars(made)
    made.c = 1
    held["d"] = 2
    del made.d
    return [*out, table["b"], held is made.__dict__, dict(held), "d" in held], x + noted.b


def make():
    noted = Noted()
    args = torch.ones(3), noted, object.__getattribute__(noted, "__dict__"), Pretends(), Module()
    return fn, [(args, {})] * 3, lambda index: LOG.clear(), lambda: {"log": list(LOG)}
