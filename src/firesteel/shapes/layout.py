"""Layouts with symbolic sizes and strides: what is known to be dense. Strides of sizes of 1 do not count."""

from __future__ import annotations

from collections.abc import Sequence

from firesteel.shapes import arithmetic, relations
from firesteel.shapes.expr import ONE, Expr, ExprLike
from firesteel.shapes.facts import Facts

Sizes = Sequence[ExprLike]


def dense_order(sizes: Sizes, strides: Sizes, facts: Facts) -> tuple[int, ...] | None:
    """The order of dimensions, innermost first, in which the tensor is known to be dense; None when there is none.

    >>> dense_order((2, 3, 4), (4, 8, 1), Facts())
    (2, 0, 1)
    """
    waiting = list(range(len(sizes) - 1, -1, -1))
    order = [dim for dim in waiting if facts.decide(relations.eq(sizes[dim], 1)) is True]
    waiting = [dim for dim in waiting if dim not in order]
    expected: Expr = ONE
    while waiting:
        for dim in waiting:
            if facts.decide(relations.eq(strides[dim], expected)) is True:
                break
        else:
            return None
        waiting.remove(dim)
        order.append(dim)
        expected = arithmetic.mul(expected, sizes[dim])
    return tuple(order)
