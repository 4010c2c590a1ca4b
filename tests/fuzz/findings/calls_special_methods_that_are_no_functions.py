"""Methods such as `__format__` were not called where a class has them as static methods, and a `__hash__` that cannot
be looked up raised its own error instead of Python's."""

import torch


class Number(int):
    __format__ = staticmethod(lambda *spec: 1)
    __str__ = staticmethod(lambda: "text")


class Unhashable:
    __hash__ = property(len)


class Hashed:
    __hash__ = staticmethod(lambda: 3)


def make():
    def fn(x):
        out = []
        for ask in (lambda: format(Number(), "d"), lambda: "{:3}".format(Number()), lambda: str(Number(3)),
                    lambda: f"{Number(2)!s:>6}", lambda: {Unhashable()}, lambda: hash(Unhashable()),
                    lambda: hash(Hashed())):
            try:
                out.append(ask())
            except TypeError as error:
                out.append(str(error))
        return x + 1, out

    return fn, [((torch.ones(2),), {})], lambda index: None, dict
