"""Contexts of decimal numbers and parts of signatures that change between two calls."""

import contextvars
import decimal
import inspect

import torch

VARIABLE = contextvars.ContextVar("variable", default=0)


def known(a, b=1):
    return a


def fn(x):
    try:
        text = str(decimal.Decimal(1) / 3), str(decimal.Decimal(1) / 0)
    except decimal.DivisionByZero:
        text = "raised"
    try:
        raise FileNotFoundError(2, "no", "name")
    except OSError as error:
        shown = str(error)
    VARIABLE.reset(VARIABLE.set(1))
    return x + 1, text, str(inspect.signature(known)), shown, VARIABLE.set(2).var is VARIABLE


def before(index):
    context = decimal.getcontext()
    context.prec = (28, 5, 5, 5)[index]
    context.traps[decimal.DivisionByZero] = index < 2
    known.__defaults__ = ((1,), (2,), (2,), (2,))[index]
    known.__dict__.pop("__signature__", None)
    if index == 3:
        known.__signature__ = inspect.Signature()


def make():
    return fn, [((torch.ones(2),), {})] * 4, before, lambda: {}
