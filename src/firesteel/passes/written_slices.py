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
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

from ..functional.graph import FunctionalGraph
from .rewriting import ATEN, Rewriter, is_call, same_layout
from .settings import STRICT, Settings

Range = tuple[int, int, int]
"""A dimension, and from where to where along it."""


def written_slices(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Read slices from where they come from."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes:
        if is_call(node, ATEN.slice.Tensor) and is_call(node.args[0], ATEN.slice_scatter.default):
            _read_before(rewriter, node)
    return rewriter.finish()


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
        if written[1] < wanted[2] and wanted[1] < written[2]:
            break  # parts of both
        source = source.args[0]
    if source is node.args[0]:
        return
    with rewriter.before(node):
        part = rewriter.call(ATEN.slice.Tensor, source, *node.args[1:])
    if same_layout(node.meta["val"], part.meta["val"]):
        rewriter.replace(node, part)


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
    """What a slice covers, if that is known and without gaps."""
    if node.kwargs or not all(value is None or type(value) is int for value in args):
        return None
    defaults: list[Any] = [0, None, None, 1]
    dim, start, end, step = [*args, *defaults[len(args):]]
    whole = node.args[0].meta["val"]  # type: ignore[union-attr]
    size = whole.shape[dim]
    if type(size) is not int or step != 1 or node.meta["val"].ndim != whole.ndim:
        return None
    start, end, _ = slice(start, end).indices(size)
    return dim % whole.ndim, start, max(start, end)
