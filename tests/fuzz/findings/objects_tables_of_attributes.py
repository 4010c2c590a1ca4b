"""The dictionary of an object held slots, kept what it had once shown, and was another one each time."""

import torch


class Slotted:
    __slots__ = ("s", "__dict__")

    def __init__(self):
        self.s = 1
        self.a = 2


def told(function, *args):
    try:
        return function(*args)
    except (KeyError, RuntimeError) as error:
        return repr(error)


def grows(obj):
    for _ in vars(obj):
        obj.more = 1


def taken(table, name):
    del table[name]


def fn(x, obj):
    made = Slotted()
    out = []
    for one in (made, obj):
        table = vars(one)
        out += ["s" in table, table is one.__dict__, told(taken, table, "s"), repr(table), told(grows, one), one]
        del one.more
        out += [dict(table), table.setdefault("s", 3), one.s]
        one.__dict__ = {"new": x.shape[0]}
        out += [table, table is one.__dict__]
    return out, x * 2


def make():
    return fn, [((torch.ones(3), Slotted()), {}) for _ in range(2)], lambda index: None, lambda: {}
