"""Comparisons of ``object`` itself, called with what has its own, answered as those do; operators of two views of
dictionaries, called as methods, refused; ``type`` took other things than a text, a tuple and a dictionary."""

import torch


class Equal:
    def __eq__(self, other):
        return other == 1


class Unequal(Equal):
    def __ne__(self, other):
        return super().__ne__(other), object.__ne__(self, other)


def fn(x):
    items, views = [1], {1: 2}
    out = [object.__eq__(items, items), object.__eq__(items, [1]), object.__ne__({1}, {1}), object.__ne__(items, items)]
    out += [type({}.values()).__ge__([], [3]), object.__lt__(slice(1), slice(2)), object.__ne__({1}, views.keys())]
    out += [object.__eq__(x, x), object.__eq__(x, 1), Unequal() != 1, Unequal() != 2, object.__ne__(Equal(), 1)]
    out += [object.__ne__(Equal, 1), object.__ne__(Equal, Equal), object.__ne__(len, 1), object.__ne__(x.shape, (2,))]
    out += [views.keys().__or__({3: 4}.keys()), type({}.items()).__sub__(views.items(), {1: 3}.items())]
    for arguments in ((0, None, {}), ("a", [], {}), ("a", (), None), ((), {}), ("a",), ("a", (), {}, 1), ("a", (), {})):
        try:
            out.append(type(*arguments).__name__)
        except TypeError as error:
            out.append(str(error))
    return out, x * 2


def make():
    return fn, [((torch.ones(2),), {})], lambda index: None, lambda: {}
