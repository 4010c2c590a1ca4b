"""throw() into a generator at its `yield from` passed by the generator that stands there."""

import torch

LOG = []


def inner(n):
    try:
        yield n
    except ValueError:
        LOG.append("caught")
    return "returned"


def outer(n):
    LOG.append((yield from inner(n)))


class Own:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def throw(self, *error):
        LOG.append("throw")
        return "thrown"


def delegating():
    yield from Own()


def thrown_into(generator, out):
    out.append(next(generator))
    try:
        out.append(generator.throw(ValueError("v")))
    except (StopIteration, ValueError) as caught:
        out.append(type(caught).__name__)


def fn(x):
    out = []
    thrown_into(outer(x + 1), out)
    thrown_into(delegating(), out)
    return out, x * 2


def make():
    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {}
