"""What a program asks to know whether it is being captured."""

from __future__ import annotations


def is_compiling() -> bool:
    """True in code that is being captured, False in plain Python.

    >>> import torch, firesteel as fs
    >>> def f(x):
    ...     return x + 1 if fs.is_compiling() else x
    >>> f(torch.zeros(1)), fs.compile(f, fullgraph=True)(torch.zeros(1))
    (tensor([0.]), tensor([1.]))
    """
    return False
