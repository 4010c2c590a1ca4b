"""Indices that data decides on: wrapped, kept inside of the tensor, and reported when they were not.

A kernel cannot raise, and it must not read outside of a tensor either. So two things are made of an index tensor: a
reduction over it that finds out whether all its elements are in range, with a call that raises eager's error when they
are not; and the index that kernels use, clamped, so that the check may run before them or after.

    outside = any(r0 < n) or(lt(load(index, r0), -4), ge(load(index, r0), 4))
    check_indices(outside, index, ...)
    out[i0] = load(x, t0)    with t0 = max(min(wrapped(load(index, i0)), 3), 0)

On a GPU the check would make the program wait. There the kernel that uses the index looks at it and stops the program,
as eager's do, with a message that names the user's line (without `config.check_indices`, indices are clamped only):

    out[i0] = load(x, t0)    with t0 = wrapped(checked(v0, and(ge(v0, -4), lt(v0, 4)))), v0 = load(index, i0)
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ... import config, shapes, torch_compat
from ...shapes import Const, Expr
from .. import ir, titles
from ..ir import Value
from .context import Lowering
from .graph import LoweredGraph
from .reducing import Folding, fold, inner_spec
from .registry import lowering
from .scalars import both, cast, compare, either, where
from .tensors import Indices, Tensor
from .value_bounds import bounds_of

Key = tuple[Any, ...]

_checks: weakref.WeakKeyDictionary[Lowering, set[Key]] = weakref.WeakKeyDictionary()


def check_indices(
    outside: torch.Tensor, index: torch.Tensor, size: int, lowest: int, kind: str, dim: int, ignored: int | None
) -> None:
    """Raise eager's error if a kernel has met an index that is out of range."""
    if outside.item():
        bad = (index < lowest) | (index >= size)
        if ignored is not None:
            bad &= index != ignored
        raise _error(int(index[bad].reshape(-1)[0]), size, kind, dim)


def check_true(fine: torch.Tensor, message: str) -> None:
    """Raise if a kernel has found that something does not hold."""
    if not fine.item():
        raise RuntimeError(message)


def emit_check(ctx: Lowering, fine: Tensor, message: str) -> None:
    """Emit a check of a tensor of one bool. Eager's GPU kernels do not make it, or stop the program by themselves."""
    if not ctx.kind.raises_for_values:
        return
    origins = () if ctx.node is None else (ctx.node,)
    ctx.emit(ir.ExternCall(check_true, (ctx.reference(ctx.realize(fine)), message), {}, (), origins=origins))


@lowering("aten._assert_async.msg")
def assert_async(ctx: Lowering, fine: Tensor, message: str) -> Any:
    if not ctx.kind.raises_for_values:
        return ctx.unsupported("the GPU reports by itself")
    emit_check(ctx, fine, message)
    return (None,)


def check_last(graph: LoweredGraph) -> None:
    """Move the checks behind everything else, so that they do not stand between kernels.

    before: outside = ...; check_indices(outside, ...); out = ...
    after:  outside = ...; out = ...; check_indices(outside, ...)

    A collective does not begin before what comes before it is checked: what raises in one process must not leave others
    with another number of collectives than eager does.
    """
    checks = (check_indices, check_true)
    places: dict[int, tuple[int, bool]] = {}
    begun = 0
    for step in graph.operations:
        target = step.target if isinstance(step, ir.ExternCall) else None
        begun += torch_compat.starts_collective(target)
        places[id(step)] = (begun, target in checks)
    graph.operations.sort(key=lambda step: places[id(step)])


def assert_early(graph: LoweredGraph) -> None:
    """Move assertions about numbers from data to where those are read, in front of all that is computed with them.

    before: n = item(t); out = x[n:]; assert n >= 0
    after:  n = item(t); assert n >= 0; out = x[n:]
    """
    steps = graph.operations
    asserted = [step for step in steps if isinstance(step, ir.ExternCall) and step.target is torch_compat.assert_number]
    if not asserted:
        return
    rest = [step for step in steps if step not in asserted]
    places = {name: at for at, step in enumerate(rest) if isinstance(step, ir.ExternCall) for name in step.outputs}
    checks: dict[int, list[ir.ExternCall]] = {}
    for step in asserted:
        symbols = step.args[0].free_symbols if isinstance(step.args[0], Expr) else ()
        names = [graph.symbols[symbol][0] for symbol in symbols if symbol in graph.symbols]
        checks.setdefault(max([places.get(name, -1) for name in names], default=-1), []).append(step)
    graph.operations = [*checks.get(-1, ())]
    for place, operation in enumerate(rest):
        graph.operations += [operation, *checks.get(place, ())]


def _error(index: int, size: int, kind: str, dim: int) -> Exception:
    bounds = f"index {index} is out of bounds for dimension {dim} with size {size}"
    match kind:
        case "embedding" | "index_select":
            return IndexError("index out of range in self")
        case "target":
            return IndexError(f"Target {index} is out of bounds.")
        case "take":
            return IndexError(f"out of range: tried to access index {index} on a tensor of {size} elements.")
        case "index_copy":
            return IndexError(f"index_copy_(): {bounds}")
        case "index":
            return IndexError(bounds)
    return RuntimeError(bounds)


class CheckedIndex:
    """An index tensor for one dimension of another tensor: asked at a place, it gives a symbol for indices."""

    def __init__(self, ctx: Lowering, index: Tensor, size: Expr, negative: bool, ignored: int | None = None) -> None:
        self.ctx = ctx
        self.index = index
        self.size = size
        self.negative = negative
        """Whether negative indices count from the back."""
        self.ignored = ignored
        self.proved = isinstance(size, Const) and ignored is None and self._is_between(0, int(size) - 1)
        """Whether it is known where it is computed that an index is in range and not negative."""
        self.stops = ""
        """What a kernel says that stops the program at an index that is out of range; empty for one that does not."""

    def _is_between(self, lowest: int, highest: int) -> bool:
        _, indices = self.ctx.axes(self.index.shape)
        low, high = bounds_of(self.index.at(indices), self.ctx.bounds)
        return lowest <= low and high <= highest

    def value(self, indices: Indices) -> Value:
        """The index as it is stored, as int64."""
        return cast(self.index.at(indices), torch.int64)

    def at(self, indices: Indices) -> Expr:
        """The place in the dimension, for index expressions."""
        ctx = self.ctx
        value = self.value(indices)
        expr = index_expression(value)
        if expr is not None:
            if self.negative and ctx.known(expr < 0):
                expr = expr + self.size
            if ctx.known(expr >= 0) and ctx.known(expr < self.size):
                return ctx.simplify(expr)
        if self.proved:
            return ctx.indirect(value, self.size)
        size = ctx.index(self.size)
        if self.stops:
            value = self._stopping(value)
        if self.negative:
            value = where(compare("lt", value, 0), ir.op("add", value, size), value)
        if self.stops and self.ignored is None:
            return ctx.indirect(value, self.size)
        last = ctx.index(self.size - 1)
        inside = ir.op("max", ir.op("min", value, last), ir.const(0, torch.int64))
        return ctx.indirect(inside, self.size)

    def _stopping(self, value: Value) -> Value:
        """An index that a kernel of a GPU looks at, where it is needed."""
        ctx = self.ctx
        wrong = self._outside(value)
        needed = wrong if ctx.mask is None else both(wrong, ctx.mask)
        return ir.checked(value, ir.op("not", needed), self.stops)

    def _outside(self, value: Value) -> Value:
        """Whether an index is out of range."""
        ctx = self.ctx
        lowest = -self.size if self.negative else shapes.const(0)
        wrong = either(ir.op("lt", value, ctx.index(lowest)), ir.op("ge", value, ctx.index(self.size)))
        return wrong if self.ignored is None else both(wrong, compare("ne", value, self.ignored))

    def is_proved(self) -> bool:
        """Whether no index can be out of range."""
        if self.proved:
            return True
        _, indices = self.ctx.axes(self.index.shape)
        expr = index_expression(self.value(indices))
        if expr is None:
            return False
        lowest = -self.size if self.negative else shapes.const(0)
        return bool(self.ctx.known(expr >= lowest)) and bool(self.ctx.known(expr < self.size))

    def check(self, kind: str, dim: int = 0) -> None:
        """Emit the check of all indices; for a GPU, see to it that kernels look at those that they use."""
        ctx = self.ctx
        if not ctx.kind.raises_for_values:
            if config.check_indices and not self.is_proved():
                self.stops = _stopping_message(ctx)
            return
        if self.is_proved() or any(size.is_constant and int(size) == 0 for size in self.index.shape):  # type: ignore[call-overload]
            return
        lowest = -self.size if self.negative else shapes.const(0)
        index = ctx.realize(ctx.share(self.index))
        key = (index.buffer, index.offset, index.shape, index.strides, self.size, lowest, kind, dim, self.ignored)
        if key in _checks_of(ctx):
            return
        _checks_of(ctx).add(key)
        how = Folding(index.shape, tuple(range(index.ndim)), False)

        def outside(indices: Indices) -> Value:
            return self._outside(cast(index.at(indices), torch.int64))

        spec = inner_spec(ctx, how, torch.bool, index.device)
        flag = ctx.realize(fold(ctx, "any", how, outside, spec))
        node = ctx.node
        ctx.emit(ir.ExternCall(
            check_indices,
            (ctx.reference(flag), ctx.reference(index), _number(self.size), _number(lowest), kind, dim, self.ignored),
            {}, (), origins=() if node is None else (node,),
        ))  # fmt: skip


def _stopping_message(ctx: Lowering) -> str:
    """What is said of an index that is out of range: the operator and the user's line."""
    if ctx.node is None:
        return "an index is out of range"
    names, place = ", ".join(titles.operators([ctx.node])), titles.place(ctx.node)
    return f"an index is out of range: {names}{' at ' if place else ''}{place}"


def index_expression(value: Value) -> Expr | None:
    """A value that is made of positions and constants only, as an expression of indices."""
    match value.op:
        case "index":
            return value.data  # type: ignore[no-any-return]
        case "const":
            return shapes.const(value.data)
        case "add" | "sub" | "mul" | "min" | "max" if value.dtype is torch.int64:
            left, right = map(index_expression, value.args)
            return None if left is None or right is None else _COMBINED[value.op](left, right)
    return None


_COMBINED: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": shapes.minimum, "max": shapes.maximum,
}  # fmt: skip


def checked(
    ctx: Lowering,
    index: Tensor,
    size: Expr,
    kind: str | None,
    dim: int = 0,
    negative: bool = False,
    ignored: int | None = None,
    others: Sequence[Expr] = (),
) -> CheckedIndex | None:
    """An index tensor whose elements are checked; None where the dimension may be empty: no place is safe then.

    ``others`` are sizes of the tensor without which nothing is read or stored: where one is 0, most of eager's kernels
    do not look at the indices, and some complain in other words.
    """
    if not all([ctx.known(least > 0) for least in (size, *others)]):
        return None
    checked_index = CheckedIndex(ctx, index, size, negative, ignored)
    checked_index.index = ctx.share(index)
    if kind is not None:
        checked_index.check(kind, dim)
    return checked_index


def _checks_of(ctx: Lowering) -> set[Key]:
    """The checks that this graph has already."""
    return _checks.setdefault(ctx, set())


def _number(expr: Expr) -> Any:
    return int(expr) if expr.is_constant else expr  # type: ignore[call-overload]
