"""Layouts with symbolic sizes and strides: what is known to be contiguous, dense, or one dimension in disguise.

Every answer is what follows from the facts; nothing here leaves a guard. Sizes of 1 have no say, because their stride
is never used.

    >>> from firesteel.shapes.expr import symbol
    >>> b, c, facts = symbol("b"), symbol("c"), Facts()
    >>> facts.add(b >= 2), facts.add(c >= 2)
    (None, None)
    >>> is_contiguous((b, c, 8), (8 * c, 8, 1), facts), is_contiguous((b, c), (1, b), facts)
    (True, False)
    >>> collapse((b, c, 8), [(8 * c, 8, 1)], facts)
    Collapsed(sizes=(8*b*c,), strides=((1,),), groups=((0, 1, 2),))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firesteel.shapes import arithmetic, relations
from firesteel.shapes.expr import ONE, Expr, ExprLike, as_expr
from firesteel.shapes.facts import Facts

Sizes = Sequence[ExprLike]

CHANNELS_LAST_2D = (1, 3, 2, 0)
CHANNELS_LAST_3D = (1, 4, 3, 2, 0)


def dense_condition(sizes: Sizes, strides: Sizes, order: Sequence[int]) -> Expr:
    """That the strides are those of a dense tensor whose dimensions lie in `order`, innermost first."""
    conditions: list[Expr] = []
    empty: list[Expr] = []
    expected: Expr = ONE
    for dim in order:
        size, stride = as_expr(sizes[dim]), as_expr(strides[dim])
        conditions.append(relations.or_(relations.eq(stride, expected), relations.eq(size, 1)))
        empty.append(relations.eq(size, 0))
        expected = arithmetic.mul(expected, size)
    return relations.or_(relations.and_(*conditions), *empty)


def is_contiguous(sizes: Sizes, strides: Sizes, facts: Facts) -> bool | None:
    """Whether the last dimension is innermost and nothing lies between elements; None when it is not known."""
    return facts.decide(dense_condition(sizes, strides, range(len(sizes) - 1, -1, -1)))


def is_channels_last(sizes: Sizes, strides: Sizes, facts: Facts) -> bool | None:
    """Whether a tensor of 4 or 5 dimensions is dense with channels innermost; None when it is not known."""
    order = {4: CHANNELS_LAST_2D, 5: CHANNELS_LAST_3D}.get(len(sizes))
    return False if order is None else facts.decide(dense_condition(sizes, strides, order))


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


@dataclass(frozen=True, slots=True)
class Collapsed:
    """One loop nest over several tensors with adjacent dimensions joined.

    `groups` says which of the original dimensions each new one stands for; dimensions of size 1 are in none.
    """

    sizes: tuple[Expr, ...]
    strides: tuple[tuple[Expr, ...], ...]
    groups: tuple[tuple[int, ...], ...]


def collapse(sizes: Sizes, strides: Sequence[Sizes], facts: Facts) -> Collapsed:
    """Join dimensions that every one of the tensors steps through as if they were one.

    An outer dimension joins the next inner one where its stride is the inner stride times the inner size.
    """
    kept = [dim for dim, size in enumerate(sizes) if facts.decide(relations.eq(size, 1)) is not True]
    new_sizes: list[Expr] = []
    new_strides: list[list[Expr]] = [[] for _ in strides]
    groups: list[tuple[int, ...]] = []
    for dim in kept:
        size = as_expr(sizes[dim])
        if groups and all(
            facts.decide(relations.eq(done[-1], arithmetic.mul(tensor[dim], size))) is True
            for done, tensor in zip(new_strides, strides, strict=True)
        ):
            new_sizes[-1] = arithmetic.mul(new_sizes[-1], size)
            for done, tensor in zip(new_strides, strides, strict=True):
                done[-1] = as_expr(tensor[dim])
            groups[-1] += (dim,)
        else:
            new_sizes.append(size)
            for done, tensor in zip(new_strides, strides, strict=True):
                done.append(as_expr(tensor[dim]))
            groups.append((dim,))
    return Collapsed(tuple(new_sizes), tuple([tuple(done) for done in new_strides]), tuple(groups))
