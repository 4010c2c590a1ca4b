"""What is read of a tensor that was written in slices is what was written there.

    gates: f32[16, 8] = ...
    slice_1: f32[16, 4]/[8, 1] = aten.slice.Tensor(gates, 1, 0, 4)
    sigmoid: f32[16, 4] = aten.sigmoid.default(slice_1)
    slice_scatter: f32[16, 8] = aten.slice_scatter.default(gates, sigmoid, 1, 0, 4)
    slice_2: f32[16, 4]/[8, 1] = aten.slice.Tensor(slice_scatter, 1, 0, 4)
    slice_3: f32[16, 4]/[8, 1] = aten.slice.Tensor(slice_scatter, 1, 4, 8)
    mul: f32[16, 4] = aten.mul.Tensor(slice_2, slice_3)

becomes

    ...
    slice_tensor: f32[16, 4]/[8, 1] = aten.slice.Tensor(gates, 1, 4, 8)
    mul: f32[16, 4] = aten.mul.Tensor(sigmoid, slice_tensor)

Programs that change parts of a tensor in place look like that once nothing is changed in place any more: a cell of an
LSTM does so with its gates. Where nobody reads the whole tensor, it is not made.

What is written to where it was read, as ``x[::2] *= 2`` does after it has changed the view, is not written again, and
of two tensors that are written to the same slice only the last is:

    slice_scatter: f64[8] = aten.slice_scatter.default(x, mul, 0, 0, 8, 2)
    slice_2: f64[4]/[2] = aten.slice.Tensor(slice_scatter, 0, 0, 8, 2)
    slice_scatter_1: f64[8] = aten.slice_scatter.default(slice_scatter, slice_2, 0, 0, 8, 2)

is ``slice_scatter``.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call, same_layout
from .settings import STRICT, Settings

Range = tuple[int, int, int, int]
"""A dimension, from where to where along it, and in which steps."""


def written_slices(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Read slices from where they come from."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if is_call(node, ATEN.slice.Tensor) and is_call(node.args[0], ATEN.slice_scatter.default):
            _read_before(rewriter, node)
        elif is_call(node, ATEN.slice_scatter.default):
            _write_once(rewriter, node)
        elif is_call(node, ATEN.select_scatter.default) and is_call(node.args[1], ATEN.select.int):
            read: Any = node.args[1]
            if read.args == (node.args[0], *node.args[2:]) and _replaces(read.args[0], node):
                rewriter.replace(node, read.args[0])
    return rewriter.finish()


def _write_once(rewriter: Rewriter, node: torch.fx.Node) -> None:
    """Do not write what is there already, nor before what is written over it."""
    whole, part = node.args[:2]
    written = _range(node, node.args[2:])
    if written is None or not isinstance(whole, torch.fx.Node):
        return
    read: Any = part
    if is_call(read, ATEN.slice.Tensor) and read.args[0] is whole and _range(read, read.args[1:]) == written:
        if _replaces(whole, node):
            rewriter.replace(node, whole)
    elif is_call(whole, ATEN.slice_scatter.default) and _range(whole, whole.args[2:]) == written:
        if part is whole.args[1] and _replaces(whole, node):
            rewriter.replace(node, whole)
        else:
            node.args = (whole.args[0], *node.args[1:])
            rewriter.changed = True


def _replaces(whole: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether a tensor can stand for one that is written to: inputs are memory of their own."""
    return whole.op == "call_function" and same_layout(whole.meta["val"], node.meta["val"])


def _read_before(rewriter: Rewriter, node: torch.fx.Node) -> None:
    wanted = _range(node, node.args[1:])
    source: Any = node.args[0]
    while wanted is not None and is_call(source, ATEN.slice_scatter.default):
        written = _range(source, source.args[2:])
        if written is None or written[0] != wanted[0] or source.kwargs:
            break
        if written == wanted:
            _use(rewriter, node, source.args[1])
            return
        if written[1] < wanted[2] and wanted[1] < written[2] and not _is_between(written, wanted):
            break  # parts of both
        source = source.args[0]
    if source is node.args[0]:
        return
    with rewriter.before(node):
        part = rewriter.call(ATEN.slice.Tensor, source, *node.args[1:])
    if same_layout(node.meta["val"], part.meta["val"]):
        rewriter.replace(node, part)


def _is_between(one: Range, other: Range) -> bool:
    """Whether two slices of the same steps begin at different places of a step."""
    return one[3] == other[3] and (one[1] - other[1]) % one[3] != 0


def _use(rewriter: Rewriter, node: torch.fx.Node, written: torch.fx.Node) -> None:
    """Read what was written instead of the slice, where it does not matter that its strides may be others."""
    old, new = node.meta["val"], written.meta["val"]
    if old.dtype is not new.dtype:
        return
    if same_layout(old, new):
        rewriter.replace(node, written)
        return
    for user in list(node.users):
        if _takes_any_layout(user, node):
            user.replace_input_with(node, written)
            rewriter.changed = True


def _takes_any_layout(user: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether an operator gives the same for any strides of an argument; the layout of its result is known already."""
    if is_call(user, ATEN.slice_scatter.default):
        return user.args[0] is not node
    return user.op == "call_function" and torch.Tag.pointwise in getattr(user.target, "tags", ())


def _range(node: torch.fx.Node, args: tuple[Any, ...]) -> Range | None:
    """What a slice covers, if that is known."""
    if node.kwargs or not all(value is None or type(value) is int for value in args):
        return None
    defaults: list[Any] = [0, None, None, 1]
    dim, start, end, step = [*args, *defaults[len(args):]]
    whole = node.args[0].meta["val"]  # type: ignore[union-attr]
    size = whole.shape[dim]
    if type(size) is not int or node.meta["val"].ndim != whole.ndim:
        return None
    start, end, _ = slice(start, end).indices(size)
    length = max(0, (end - start + step - 1) // step)
    return dim % whole.ndim, start, start + (length - 1) * step + 1 if length else start, step if length > 1 else 1
