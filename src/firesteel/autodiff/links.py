"""Which results of a program autograd gets to from others.

    hidden = x.sin()
    loss = hidden.exp().sum()       from loss, autograd gets to hidden

A function that computed both side by side would have nothing in between: ``torch.autograd.grad(loss, hidden)`` would
find nothing, and hooks on ``hidden`` would not see what comes from ``loss``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def edge_of(value: Any) -> tuple[Any, int] | None:
    """The function that a tensor's gradient goes to, and as which of its results; None without any."""
    if not isinstance(value, torch.Tensor) or not value.requires_grad:
        return None
    try:
        function = value.grad_fn
    except RuntimeError:  # a view of something that was changed in a way that autograd refuses to follow
        return None
    return None if function is None else (function, value.output_nr)


def backward_order(starts: Sequence[Any]) -> list[Any]:
    """Autograd's functions behind some, each behind all those that it is reached from."""
    order: dict[Any, bool] = {}  # each behind all that it leads to
    for start in starts:
        stack: list[tuple[Any, bool]] = [(start, False)]
        while stack:
            function, left = stack.pop()
            if left:
                del order[function]
                order[function] = True
            elif function not in order:
                order[function] = False
                stack.append((function, True))
                stack += [(following, False) for following, _ in function.next_functions if following is not None]
    return list(reversed(order))


def reached_from(edges: Sequence[tuple[Any, int] | None]) -> list[int]:
    """For each of several tensors, given by `edge_of`, those from which autograd gets to it, as bits.

    >>> x = torch.ones(3, requires_grad=True)
    >>> hidden = x.sin()
    >>> reached_from([edge_of(x), edge_of(hidden), edge_of(hidden.exp().sum())])
    [0, 4, 0]
    """
    order = backward_order([edge[0] for edge in edges if edge is not None])
    bits = dict.fromkeys(order, 0)
    through: dict[tuple[Any, int], int] = {edge: 0 for edge in edges if edge is not None}
    for at, edge in enumerate(edges):
        if edge is not None:
            bits[edge[0]] |= 1 << at
    for function in order:
        behind = bits[function]
        for following in function.next_functions:
            if following[0] is not None:
                bits[following[0]] |= behind
                if following in through:
                    through[following] |= behind
    return [0 if edge is None else through[edge] for edge in edges]
