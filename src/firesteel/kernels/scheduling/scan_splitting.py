"""Long scans of few rows, in three stages, where all rows run at once.

before: out[r0] = cumsum(r0 < 1048576) load(x, r0)
after:  parts[c] = sum(d < 4096) load(x, 4096*c + d)                                              c < 256
        starts[c] = cumsum(c < 256) load(parts, c)
        out[4096*c + d] = cumsum(d < 4096) (d == 0 and c > 0 ? starts[c - 1] + x : x), x = load(x, 4096*c + d)
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ... import logs, shapes
from ...shapes import Const, Expr
from ...shapes.expr import ONE
from .. import ir
from ..ir import Axis, Buffer, Computation, Place
from .indices import linear, product, substitute
from .values import expressions, rewrite

FOLDS = {"cumsum": ("sum", "add"), "cumprod": ("prod", "mul"), "cummax": ("max", "max"), "cummin": ("min", "min")}
"""What a scan is made of: the reduction of a part, and what joins two results."""
POINTS = 1 << 17
"""Below this two more kernels take longer than what they save."""
FEW, PROGRAMS = 64, 1024
"""With fewer programs than the first a scan is cut, into as many as the second: three passes over memory pay then."""
LEAST, LEAST_COLUMN = 2048, 64
"""The shortest parts of a row, and of columns, of which a block has several side by side."""
COLUMNS = 16
ALIGNED = 32
"""Parts begin at multiples of this, for wide accesses."""


def chunks_of(computation: Computation) -> int:
    """Into how many parts a scan is to be cut; 0 for not at all."""
    if computation.reduce not in FOLDS or computation.args:
        return 0
    rows, length = product([axis.size for axis in computation.axes]), computation.reduce_axes[0].size
    if not isinstance(rows, Const) or not isinstance(length, Const):
        return 0
    if int(rows) * int(length) < POINTS:
        return 0
    column = _is_column(computation)
    programs = max(1, int(rows) // COLUMNS if column else int(rows))
    if programs >= FEW:
        return 0
    chunks, least = 1, LEAST_COLUMN if column else LEAST
    while programs * chunks < PROGRAMS and int(length) >= 2 * chunks * least:
        chunks *= 2
    return chunks if chunks >= 4 else 0


def _is_column(computation: Computation) -> bool:
    """Whether neighbours in memory belong to different rows."""
    along = computation.reduce_axes[0].symbol
    axes = frozenset(axis.symbol for axis in (*computation.axes, computation.reduce_axes[0]))
    near = {symbol for expr in (computation.place.index, *expressions(computation.value))
            for symbol, stride in linear(expr, axes).strides.items() if stride is ONE}
    return bool(near) and along not in near


def in_three_stages(computation: Computation, chunks: int, buffers: dict[str, Buffer]) -> list[Computation]:
    """The scan in parts; ``buffers`` gets those for the parts."""
    kind = computation.reduce
    assert kind is not None
    fold, join = FOLDS[kind]
    [along] = computation.reduce_axes
    length = -(-int(along.size) // chunks)  # type: ignore[call-overload]
    length += -length % ALIGNED
    chunks = -(-int(along.size) // length)  # type: ignore[call-overload]
    chunk, inside = shapes.symbol(f"c_{along.symbol.name}"), shapes.symbol(f"d_{along.symbol.name}")
    rest = along.size - chunk * length
    exact = chunks * length == int(along.size)  # type: ignore[call-overload]
    inner = Axis(inside, shapes.const(length) if exact else shapes.minimum(length, rest))
    outer = Axis(chunk, shapes.const(chunks))
    whole: dict[shapes.Symbol, Expr] = {along.symbol: chunk * length + inside}
    value = rewrite(computation.value, whole, {})
    dtype = value.dtype
    kept = [axis for axis in computation.axes if axis.size is not ONE]
    parts = _table(f"{computation.buffer}_parts", kept, chunks, dtype, buffers, computation)
    starts = _table(f"{computation.buffer}_starts", kept, chunks, dtype, buffers, computation)
    at = _index(kept, chunks) + chunk
    first = replace(computation, place=Place(parts, at), dtype=dtype, axes=(*computation.axes, outer), value=value,
                    reduce=fold, reduce_axes=(inner,))
    second = replace(computation, place=Place(starts, at), dtype=dtype, value=ir.load(parts, at, dtype),
                     reduce_axes=(outer,))
    zero = ir.const(0, torch.int64)
    begins = ir.op("and", ir.op("eq", ir.index(inside), zero), ir.op("gt", ir.index(chunk), zero))
    before = ir.load(starts, at - 1, dtype, mask=begins)
    last = replace(
        computation, place=replace(computation.place, index=substitute(computation.place.index, whole)),
        axes=(*computation.axes, outer), value=ir.op("where", begins, ir.op(join, before, value), value),
        reduce_axes=(inner,))
    logs.log("kernels", "%s is scanned in %s parts", computation.buffer, chunks)
    return [first, second, last]


def _table(name: str, kept: list[Axis], chunks: int, dtype: torch.dtype, buffers: dict[str, Buffer],
           computation: Computation) -> str:
    """A buffer for one number of each part of each row."""
    shape = (*[axis.size for axis in kept], shapes.const(chunks))
    strides: list[Expr] = []
    step: Expr = ONE
    for extent in reversed(shape):
        strides.insert(0, step)
        step = step * extent
    buffers[name] = Buffer(name, dtype, shape, tuple(strides), "temporary", buffers[computation.buffer].device)
    return name


def _index(kept: list[Axis], chunks: int) -> Expr:
    """Where the parts of a row begin."""
    row: Expr = shapes.const(0)
    for axis in kept:
        row = row * axis.size + axis.symbol
    return row * chunks
