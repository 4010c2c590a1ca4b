"""Reshaping: which dimensions of the one shape are which of the other, and how indices and strides follow.

Dimensions are taken apart into the smallest groups of equal size on both sides. (4, 6, 5) as (24, 5) has two groups:
4, 6 | 24 and 5 | 5. Where a group has one old dimension, its index is a sum of products; only where several old
dimensions become one there are divisions.
"""

from __future__ import annotations

from ... import shapes
from ...shapes import Expr
from .context import Lowering
from .tensors import ONE, ZERO, Indices, Stored, contiguous_strides

_Group = tuple[list[int], list[int]]


class Reshape:
    """A change of shape with the order of elements kept."""

    def __init__(self, ctx: Lowering, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> None:
        self.ctx = ctx
        self.old = old
        self.new = new
        self.groups = self._groups()
        self._strides: dict[tuple[Expr, ...], tuple[Expr, ...] | None] = {}

    def _groups(self) -> list[_Group]:
        old = [d for d, size in enumerate(self.old) if size is not ONE]
        new = [d for d, size in enumerate(self.new) if size is not ONE]
        groups: list[_Group] = []
        while old and new:
            left, right = [old.pop(0)], [new.pop(0)]
            size, wanted = self.old[left[0]], self.new[right[0]]
            while not self.ctx.same(size, wanted):
                larger = self._grows(size, wanted)
                if larger and old:
                    left.append(old.pop(0))
                    size = size * self.old[left[-1]]
                elif larger is False and new:
                    right.append(new.pop(0))
                    wanted = wanted * self.new[right[-1]]
                else:  # not known, or a size of 0
                    left, right, old, new = left + old, right + new, [], []
                    break
            groups.append((left, right))
        # what is left has size 1, only not in so many words
        return groups

    def _grows(self, size: Expr, wanted: Expr) -> bool | None:
        """Whether the old side has to grow to reach the new one."""
        smaller = self.ctx.known(size < wanted)
        if smaller is not None:
            return smaller
        if wanted is not ZERO and size is not ZERO:
            if self.ctx.same(self.ctx.simplify(wanted % size), ZERO):
                return True
            if self.ctx.same(self.ctx.simplify(size % wanted), ZERO):
                return False
        return None

    def indices(self, indices: Indices) -> Indices:
        """Where an element of the new shape is in the old one."""
        places: list[Expr] = [ZERO] * len(self.old)
        for left, right in self.groups:
            flat: Expr = ZERO
            for d, step in zip(right, contiguous_strides([self.new[d] for d in right]), strict=True):
                flat = flat + indices[d] * step
            if len(left) == 1:
                places[left[0]] = flat
                continue
            flat = self.ctx.simplify(flat)
            for d, step in zip(left, contiguous_strides([self.old[d] for d in left]), strict=True):
                place = flat if step is ONE or step is ZERO else flat // step
                if d != left[0] and self.old[d] is not ZERO:
                    place = place % self.old[d]
                places[d] = self.ctx.simplify(place)
        return tuple(places)

    def restride(self, base: Stored) -> Stored | None:
        """The new shape of a tensor in memory; None where it would need a copy."""
        if base.strides not in self._strides:
            self._strides[base.strides] = self._new_strides(base.strides)
        strides = self._strides[base.strides]
        return None if strides is None else base.restrided(self.new, strides)

    def _new_strides(self, old: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
        strides: list[Expr] = [ONE] * len(self.new)
        for left, right in self.groups:
            for outer, inner in zip(left, left[1:], strict=False):
                if not self.ctx.same(old[outer], old[inner] * self.old[inner]):
                    return None
            step = old[left[-1]]
            for d, count in zip(right, contiguous_strides([self.new[d] for d in right]), strict=True):
                strides[d] = shapes.as_expr(step * count)
        return tuple(strides)
