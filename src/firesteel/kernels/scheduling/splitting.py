"""Long reductions to few results, in two stages: parts that run in parallel, then the reduction of the parts.

before: total[] = sum(r0 < 4194304) load(x, r0)
after:  parts[i0] = sum(r0 < 65536) load(x, 65536*i0 + r0)    i0 < 64
        total[] = sum(r0 < 64) load(parts, r0)

The number of parts is fixed, so the result does not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from ... import logs, shapes
from ...shapes import Const, Expr, Facts, Symbol
from ...shapes.expr import ONE, ZERO
from .. import ir
from ..ir import Axis, Buffer, Computation, ExternCall, Place
from . import costs
from .indices import linear, product
from .machines import CPU, Machine
from .phases import STORE_MODE
from .scan_splitting import chunks_of, in_three_stages
from .values import expressions, rewrite

NO_HINTS: Mapping[Symbol, int] = MappingProxyType({})


def split_reductions(
    operations: Sequence[Computation | ExternCall], buffers: dict[str, Buffer], facts: Facts, machine: Machine = CPU,
    hints: Mapping[Symbol, int] = NO_HINTS,
) -> list[Computation | ExternCall]:
    """The program with long reductions taken apart; ``buffers`` gets those for the parts.

    ``hints`` are what symbols are now.
    """
    result: list[Computation | ExternCall] = []
    for operation in operations:
        chunks = 0
        if isinstance(operation, Computation):
            chunks = _chunks_of_blocks(operation, facts, hints) if machine.in_blocks else _chunks(operation, facts)
        scanned = chunks_of(operation) if machine.in_blocks and isinstance(operation, Computation) else 0
        if scanned:
            assert isinstance(operation, Computation)
            result.extend(in_three_stages(operation, scanned, buffers))
        elif chunks:
            assert isinstance(operation, Computation)
            result.extend(_in_two_stages(operation, chunks, buffers, facts))
        else:
            result.append(operation)
    return result


def _chunks(computation: Computation, facts: Facts) -> int:
    """Into how many parts a reduction is to be cut; 0 for not at all."""
    if computation.reduce not in STORE_MODE and computation.reduce != "xor":
        return 0
    results = product([axis.size for axis in computation.axes])
    length = product([axis.size for axis in computation.reduce_axes])
    if not isinstance(results, Const) or facts.interval(length).upper * int(results) < costs.LONG_REDUCTION:
        return 0
    if int(results) < costs.ENOUGH_ROWS and not is_column(computation):
        return costs.CHUNKS
    if is_column(computation) and int(results) < costs.ENOUGH_ROWS * costs.COLUMN_BLOCK // 4:
        total = facts.interval(length).upper * int(results)
        enough = facts.interval(length).upper >= 8 * costs.COLUMN_CHUNKS and total >= 4 * costs.LONG_REDUCTION
        return costs.COLUMN_CHUNKS if enough else 0
    return 0


def _chunks_of_blocks(computation: Computation, facts: Facts, hints: Mapping[Symbol, int]) -> int:
    """The same where all rows run at once: as many parts as give the machine enough blocks of some size."""
    if computation.reduce not in STORE_MODE and computation.reduce != "xor":
        return 0
    results = product([axis.size for axis in computation.axes])
    length = facts.interval(product([axis.size for axis in computation.reduce_axes])).upper
    column = is_column(computation, whole=True)
    if column:
        results = results.substitute({symbol: hint for symbol, hint in hints.items()})
    if not isinstance(results, Const) or length * int(results) < costs.LONG_REDUCTION:
        return 0
    if not column and int(results) >= 128:
        return 0  # whole rows: what follows can share their kernel
    side_by_side = max(1, int(results) // 64 if column else int(results))  # so many columns are one block
    chunks, least = 1, 32 if column else 2048
    # Columns: few long parts are better than many short ones, each of which ends with a reduction across threads.
    enough = 384 if column else 1024
    while side_by_side * chunks < enough and length >= 2 * chunks * least:
        chunks *= 2
    return chunks if chunks >= 4 else 0


def is_column(computation: Computation, whole: bool = False) -> bool:
    """Whether the results lie side by side in what is read; if ``whole``, what they have in common does not count."""
    axes = frozenset(axis.symbol for axis in (*computation.axes, *computation.reduce_axes))
    kept = {axis.symbol for axis in computation.axes}
    reduced = {axis.symbol for axis in computation.reduce_axes}
    near = {
        symbol
        for expr in expressions(computation.value)
        if not (whole and expr.free_symbols <= reduced)
        for symbol, stride in linear(expr, axes).strides.items()
        if stride is ONE
    }
    return bool(near) and near <= kept


def _in_two_stages(
    computation: Computation, chunks: int, buffers: dict[str, Buffer], facts: Facts
) -> list[Computation]:
    axes = _joined(computation)
    # The longest axis is cut. Sizes that are not known count as long.
    cut = max(axes.reduce_axes, key=lambda axis: int(axis.size) if isinstance(axis.size, Const) else 1 << 30)
    size = cut.size
    chunk, inside = shapes.symbol(f"c_{cut.symbol.name}"), shapes.symbol(f"d_{cut.symbol.name}")
    if isinstance(size, Const) and int(size) < 2 * chunks:
        return [computation]
    length, rest = (size + (chunks - 1)) // chunks, None
    if not facts.known_multiple(size, chunks):
        rest = size - chunk * length
        if not isinstance(size, Const) or int(size) < chunks * chunks:
            rest = shapes.maximum(rest, 0)
    inner = Axis(inside, length if rest is None else shapes.minimum(length, rest))
    whole: dict[Symbol, Expr] = {cut.symbol: chunk * length + inside}
    value = rewrite(axes.value, whole, {})
    target = buffers[computation.buffer]
    name = f"{computation.buffer}_parts"
    kept = [axis for axis in axes.axes if axis.size is not ONE]
    shape = (shapes.const(chunks), *[axis.size for axis in kept])
    strides: list[Expr] = []
    step: Expr = ONE
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    dtype = axes.value.dtype
    buffers[name] = Buffer(name, dtype, shape, tuple(strides), "temporary", target.device)
    index: Expr = chunk * strides[0]
    for axis, stride in zip(kept, strides[1:], strict=True):
        index = index + axis.symbol * stride
    parts = replace(
        axes, place=Place(name, index), dtype=dtype, axes=(Axis(chunk, shapes.const(chunks)), *axes.axes), value=value,
        reduce_axes=tuple([inner if axis is cut else axis for axis in axes.reduce_axes]),
    )  # fmt: skip
    final = replace(
        computation, value=ir.load(name, index, dtype), reduce_axes=(Axis(chunk, shapes.const(chunks)),)
    )
    logs.log("kernels", "%s is reduced in %s parts", computation.buffer, chunks)
    return [parts, final]


def _joined(computation: Computation) -> Computation:
    """Reduce axes that all reads step through as if they were one are made one, so that it can be cut evenly."""
    axes = list(computation.reduce_axes)
    value = computation.value
    for at in range(len(axes) - 2, -1, -1):
        outer, inner = axes[at], axes[at + 1]
        both = frozenset((outer.symbol, inner.symbol))
        tables = [linear(expr, both) for expr in expressions(value)]
        steps = [(table.stride(outer.symbol), table.stride(inner.symbol)) for table in tables]
        if all(far is not None and near is not None and far is near * inner.size for far, near in steps):
            symbol = shapes.symbol(f"{outer.symbol.name}_{inner.symbol.name}")
            value = rewrite(value, {outer.symbol: ZERO, inner.symbol: symbol}, {})
            axes[at : at + 2] = [Axis(symbol, outer.size * inner.size)]
    return replace(computation, value=value, reduce_axes=tuple(axes))
