"""Warnings with a stacklevel that names the caller of a compiled function, issued behind a break and in callees."""

import sys
import warnings

import torch


def helper(x):
    warnings.warn("above", stacklevel=3)
    warnings.warn("caller", stacklevel=2)
    try:
        x.reshape(7, 7, 2)
    except RuntimeError:
        pass
    return x.sum()


def fn(x):
    out = [sys._getframe().f_lineno]
    for _ in range(2):
        out.append(helper(x))
    out.append(helper(x))
    return out, x * 2


def use(fn, args, kwargs):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = fn(*args, **kwargs)
    return result, [(str(w.message), w.lineno, w.filename == __file__) for w in warned]


def make():
    return fn, [((torch.ones(3),), {})] * 2, lambda index: None, lambda: {}, use
