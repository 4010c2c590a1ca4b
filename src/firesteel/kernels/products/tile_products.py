"""Matrix products that are faster in kernels of our own than in the library, for a GPU.

    t: bf16[768, 50257]/[1, 768] = aten.t.default(w)
    mm: bf16[64, 50257] = aten.mm.default(x, t)

becomes

    t: bf16[768, 50257]/[1, 768] = aten.t.default(w)
    tile_product: bf16[64, 50257] = firesteel.tile_product(x, t, None, '64x64x64, 4 warps, 4 stages, groups of 8')

The library has fast kernels only for results whose rows begin at multiples of 16 bytes. Ours need that of the operands
alone. They are also faster for 33 to 64 rows and a small matrix, and for one row and a matrix of few or long rows. And
where a few rows meet a matrix that is made of short integers, ours reads the integers, and nobody writes the matrix.
What is computed from the product point by point becomes part of the kernel. With a tuner, large products are
measured both ways.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ...devices import kind_of
from ...functional.graph import FunctionalGraph
from ...passes.rewriting import ATEN, Rewriter, is_call, number_hint
from ...passes.settings import STRICT, Settings
from .measured_products import LIBRARY, fastest

if TYPE_CHECKING:
    from ..gpu.tiles import Tiles

Parts = tuple[torch.fx.Node, torch.fx.Node, torch.fx.Node | None]
"""Left and right matrix, and bias."""
ALIGNED = 8
"""So many short floats are 16 bytes."""
FEW_ROWS = 64
"""Rows up to which a product takes as long as reading its right matrix."""
MORE_ROWS = 33
"""Rows from which on the library takes longer than ours for small matrices; it has better kernels for fewer."""
SMALL_MATRIX = 1 << 22
"""Elements of such a matrix, whose rows have to be contiguous."""
FEW_COLUMNS, LONG_SUM = 3072, 4096
"""One row as sums is faster than the library for so few columns, or sums that are so long."""
LEAST_WORK = 1 << 24
"""Multiplications from which on a product is worth a kernel."""


def tile_products(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Replace the products that are faster that way."""
    rewriter = Rewriter(functional)
    for node in list(functional.graph.nodes):
        parts = product_parts(node)
        if parts is None:
            continue
        tiles = None
        if settings.tuner is not None and is_worth_measuring(*parts):
            tiles = fastest(node, parts, settings.tuner)
        if tiles is None and is_faster(node, *parts):
            in_tiles(rewriter, node, parts)
        elif tiles is not None and not isinstance(tiles, str):
            in_tiles(rewriter, node, parts, tiles)
    return rewriter.finish()


def in_tiles(rewriter: Rewriter, node: torch.fx.Node, parts: Parts, tiles: Tiles | None = None) -> None:
    """Make a product one of ours, with these tiles or the usual ones."""
    from ..gpu.product import tile_product
    from ..gpu.tiles import ONE_ROW, choose_tiles

    x, w = parts[0].meta["val"], parts[1].meta["val"]
    *batch, depth, columns = w.shape
    if tiles is None and not is_one_row(*parts[:2]):
        tiles = choose_tiles(number_hint(x.shape[-2]), columns, depth, math.prod(batch))
    with rewriter.before(node):
        own = rewriter.call(tile_product, *parts, str(tiles or ONE_ROW), val=node.meta["val"])
    rewriter.replace(node, own)


def product_parts(node: torch.fx.Node) -> Parts | None:
    """Left and right matrix and bias of a product that can be a kernel of ours; None for everything else."""
    args: Any = node.args
    if node.kwargs:
        return None
    if is_call(node, ATEN.mm.default, ATEN.bmm.default):
        left, right, bias = args[0], args[1], None
    elif is_call(node, ATEN.addmm.default):
        bias, left, right = args
    else:
        return None
    values = [part.meta["val"] for part in (node, left, right, *([] if bias is None else [bias]))]
    if any(value.dtype is not values[0].dtype or value.device != values[0].device for value in values):
        return None
    *_, rows, columns = values[0].shape
    # The number of rows may be anything, all others are known.
    known = [columns, *values[1].stride(), *[n for value in values[2:] for n in (*value.shape, *value.stride())]]
    strides: tuple[Any, ...] = (columns, 1)
    if len(values[0].shape) == 3:
        known, strides = [*known, *values[0].shape], (rows * columns, columns, 1)
    if values[0].dtype not in (torch.float16, torch.bfloat16) or not all(isinstance(number, int) for number in known):
        return None
    if columns == 1 or values[0].stride() != strides or (bias is not None and values[3].shape != (columns,)):
        return None
    return left, right, bias


def is_measured(device: torch.device) -> bool:
    """Whether the rules below hold for a device: they were measured on GPUs of the Hopper generation."""
    return kind_of(device).capability(device) in (None, (9, 0))


def is_faster(node: torch.fx.Node, left: torch.fx.Node, right: torch.fx.Node, bias: torch.fx.Node | None) -> bool:
    """Whether our kernel is faster than the library's, as measured on an H200."""
    from ..lowering.policy import consumers, needs_memory

    x, w = left.meta["val"], right.meta["val"]
    if x.ndim == 3 or LIBRARY in node.meta or not is_measured(x.device):
        return False
    (depth, columns), rows = w.shape, number_hint(x.shape[0])
    least = LEAST_WORK if rows > 1 else LEAST_WORK // 16
    if rows * columns * depth < least or not (is_aligned(x) and is_aligned(w)):
        return False
    if isinstance(x.shape[0], int) and rows <= FEW_ROWS and is_of_integers(right):
        return True
    small = w.stride(1) == 1 and columns * depth <= SMALL_MATRIX
    if isinstance(x.shape[0], int) and MORE_ROWS <= rows <= FEW_ROWS and small:
        return True
    if is_one_row(left, right):
        return True
    if columns % ALIGNED == 0:
        return False
    # A padded product is faster still where a kernel that reads it skips the padding.
    return rows <= FEW_ROWS or not isinstance(x.shape[0], int) or any(needs_memory(user) for user in consumers(node))


def is_one_row(left: torch.fx.Node, right: torch.fx.Node) -> bool:
    """Whether a product is one of a row with the rows of a matrix, and fastest as sums without matrix units."""
    x, w = left.meta["val"], right.meta["val"]
    if not (isinstance(x.shape[-2], int) and x.shape[-2] == 1 and w.ndim == 2 and w.stride(0) == 1):
        return False
    depth, columns = w.shape
    return columns <= FEW_COLUMNS or (depth >= LONG_SUM and not is_of_integers(right))


def is_worth_measuring(left: torch.fx.Node, right: torch.fx.Node, bias: torch.fx.Node | None) -> bool:
    """Whether a product may be faster in tiles of ours."""
    x, w = left.meta["val"], right.meta["val"]
    work = math.prod(map(number_hint, x.shape)) * w.shape[-1]
    return work >= LEAST_WORK and is_aligned(x) and is_aligned(w) and not is_of_integers(right) \
        and not is_one_row(left, right)


def is_aligned(value: Any) -> bool:
    """Whether a matrix can be read 16 bytes at a time along its rows or its columns."""
    (*_, rows, columns), (*batch, row, column) = value.shape, value.stride()
    if any(step % ALIGNED for step in batch):
        return False
    if column == 1:
        return bool(row % ALIGNED == 0 and columns % ALIGNED == 0)
    return row == 1 and isinstance(rows, int) and column % ALIGNED == 0 and rows % ALIGNED == 0


def is_of_integers(node: torch.fx.Node) -> bool:
    """Whether a matrix is made, for one user, of as many short integers, by a conversion and perhaps a factor."""
    from ..lowering.policy import VIEWS

    size = node.meta["val"].numel()
    while node.op == "call_function" and len(node.users) == 1:
        if is_call(node, ATEN.mul.Tensor, ATEN._to_copy.default) or str(node.target) in VIEWS:
            sources = [source for source in node.all_input_nodes if source.meta["val"].numel() == size]
            if len(sources) == 1:
                [node] = sources
                if node.meta["val"].dtype in (torch.int8, torch.uint8):
                    return True
                continue
        return False
    return False
