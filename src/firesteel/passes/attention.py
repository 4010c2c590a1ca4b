"""Attention written out by hand becomes one call of the library's, which never stores the scores. Relaxed mode only.

    bmm: f32[8, 512, 512] = aten.bmm.default(q, k_transposed)
    scores: f32[2, 4, 512, 512] = aten.view.default(bmm, [2, 4, 512, 512])
    scaled = aten.div.Tensor(scores, 8.0)
    masked = aten.add.Tensor(scaled, mask)
    weights = aten._softmax.default(masked, -1, False)
    flat = aten.view.default(weights, [8, 512, 512])
    result: f32[8, 512, 64] = aten.bmm.default(flat, v)

becomes

    attention = aten._scaled_dot_product_flash_attention_for_cpu.default(q4, k4, v4, attn_mask=mask, scale=0.125)
    result = aten.view.default(aten.clone.default(attention[0]), [8, 512, 64])

The library's exponential rounds more than eager's, and rows that are masked altogether give 0 there, NaN in eager:
that is why this happens only where the user allows it. Scores that the program uses for something else stay, and so do
those with symbolic sizes.
"""

from __future__ import annotations

import math
from operator import getitem
from typing import Any

import torch
import torch.fx

from ..devices import kind_of
from ..functional.graph import FunctionalGraph
from ..records import dataclass
from .rewriting import ATEN, Rewriter, is_call, same_numbers
from .settings import STRICT, Settings

LEAST_SCORES = 1 << 16
"""Scores of one head from which on the call pays."""
_MOVES = (ATEN.view.default, ATEN._unsafe_view.default, ATEN.expand.default, ATEN.clone.default)
_FLASH = ATEN._scaled_dot_product_flash_attention_for_cpu.default
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class _Attention:
    """The parts of an attention that was written by hand: operands in four dimensions."""

    q: torch.fx.Node
    k_transposed: torch.fx.Node
    v: torch.fx.Node
    scale: float
    mask: torch.fx.Node | None
    """What is added to the scores, or where it is ``hides``, which of them do not count."""
    hides: bool
    shape: tuple[int, int, int, int]
    """Of the scores, in four dimensions."""
    has_heads: bool
    """Whether they had four dimensions in the program."""


def attention(functional: FunctionalGraph, settings: Settings = STRICT) -> FunctionalGraph:
    """Every product of a softmax of a product."""
    rewriter = Rewriter(functional)
    for node in functional.graph.nodes if settings.relaxed else ():
        match = _match(node) if is_call(node, ATEN.bmm.default) else None
        if match is not None:
            with rewriter.before(node):
                result = _emit(rewriter, match, node.meta["val"])
            rewriter.replace(node, result)
    return rewriter.finish()


# ---------------------------------------------------------------------------------------------------------------------
# finding


def _match(product: torch.fx.Node) -> _Attention | None:
    weights: Any = product.args[0]
    values: Any = product.args[1]
    softmax = _unmoved(weights)
    if softmax is None or not is_call(softmax, ATEN._softmax.default) or softmax.args[2] or len(softmax.users) != 1:
        return None
    val = softmax.meta["val"]
    if softmax.args[1] not in (-1, val.ndim - 1) or val.ndim not in (3, 4):
        return None
    if val.dtype not in _DTYPES or not kind_of(val).is_host or not all(isinstance(size, int) for size in val.shape):
        return None
    rows, columns = val.shape[-2:]
    if rows * columns < LEAST_SCORES:
        return None
    scores, mask, hides = _without_mask(softmax.args[0])
    scores, scale = _without_scale(scores)
    inner = _unmoved(scores)
    if inner is None or not is_call(inner, ATEN.bmm.default) or len(inner.users) != 1:
        return None
    left: Any = inner.args[0]
    right: Any = inner.args[1]
    batch, heads, width = val.shape[0], val.shape[1] if val.ndim == 4 else 1, left.meta["val"].shape[-1]
    # The matrices must be the heads one after the other, both times.
    wanted = {weights: (rows, columns), inner: (rows, columns), left: (rows, width), right: (width, columns),
              values: (columns, width)}
    if any(tuple(node.meta["val"].shape) != (batch * heads, *sizes) for node, sizes in wanted.items()):
        return None
    if scores.meta["val"].shape != val.shape or (mask is not None and not _fits(mask, val)):
        return None
    q = _with_shape(left, (batch, heads, rows, width))
    k = _with_shape(right, (batch, heads, width, columns))
    v = _with_shape(values, (batch, heads, columns, width))
    return _Attention(q, k, v, scale, mask, hides, (batch, heads, rows, columns), val.ndim == 4)


def _unmoved(node: Any) -> torch.fx.Node | None:
    """What a node is another shape of, as long as nothing else looks at the nodes in between."""
    while is_call(node, *_MOVES):
        source = node.args[0]
        if len(node.users) != 1 or not same_numbers((node.meta["val"].numel(),), (source.meta["val"].numel(),)):
            return None
        node = source
    return node if isinstance(node, torch.fx.Node) else None


def _with_shape(node: torch.fx.Node, shape: tuple[Any, ...]) -> torch.fx.Node:
    """The first of the nodes behind a matrix that has the shape with all heads, without copies; else the matrix."""
    shaped, at = node, node
    while is_call(at, *_MOVES):
        source: Any = at.args[0]
        at = source
        if same_numbers(at.meta["val"].shape, shape):
            shaped = at
    return shaped


def _without_mask(scores: Any) -> tuple[Any, torch.fx.Node | None, bool]:
    """Scores before a mask was put on them, the mask, and whether it says which of them do not count."""
    if not isinstance(scores, torch.fx.Node) or len(scores.users) != 1:
        return scores, None, False
    if is_call(scores, ATEN.masked_fill.Scalar) and scores.args[2] == -math.inf:
        return scores.args[0], scores.args[1], True  # type: ignore[return-value]
    if is_call(scores, ATEN.add.Tensor) and len(scores.args) == 2 and not scores.kwargs:
        left, right = scores.args
        if isinstance(left, torch.fx.Node) and isinstance(right, torch.fx.Node):
            # the operand that was computed from a product is the scores
            return (left, right, False) if _is_product(left) else (right, left, False)
    return scores, None, False


def _is_product(node: Any) -> bool:
    unscaled, _ = _without_scale(node)
    return is_call(_unmoved(unscaled), ATEN.bmm.default)


def _without_scale(scores: Any) -> tuple[Any, float]:
    if is_call(scores, ATEN.mul.Tensor, ATEN.div.Tensor) and len(scores.users) == 1 and not scores.kwargs:
        value, factor = scores.args
        if isinstance(factor, (int, float)) and factor and math.isfinite(factor):
            return value, float(factor) if scores.target is ATEN.mul.Tensor else 1.0 / factor
    return scores, 1.0


def _fits(mask: torch.fx.Node, scores: Any) -> bool:
    """Whether a mask can be seen as four dimensions, the last two those of the scores or to be repeated."""
    val = mask.meta["val"]
    return val.ndim <= scores.ndim and (val.dtype is scores.dtype or val.dtype is torch.bool)


# ---------------------------------------------------------------------------------------------------------------------
# making


def _emit(rewriter: Rewriter, found: _Attention, result: Any) -> torch.fx.Node:
    b, h, rows, columns = found.shape
    width = result.shape[-1]
    q = _dense(rewriter, _shaped(rewriter, found.q, (b, h, rows, width)))
    k = _shaped(rewriter, found.k_transposed, (b, h, width, columns))
    k = _dense(rewriter, rewriter.call(ATEN.transpose.int, k, -2, -1))
    v = _dense(rewriter, _shaped(rewriter, found.v, (b, h, columns, width)))
    mask = _mask(rewriter, found, result.dtype)
    both = rewriter.call(_FLASH, q, k, v, 0.0, False, attn_mask=mask, scale=found.scale)
    attended = rewriter.call(getitem, both, 0, val=both.meta["val"][0])
    attended = rewriter.call(ATEN.clone.default, attended, memory_format=torch.contiguous_format)
    return rewriter.call(ATEN.view.default, attended, [*result.shape], val=result)


def _shaped(rewriter: Rewriter, node: torch.fx.Node, shape: tuple[Any, ...]) -> torch.fx.Node:
    if same_numbers(node.meta["val"].shape, shape):
        return node
    return rewriter.call(ATEN.view.default, node, [*shape])


def _dense(rewriter: Rewriter, node: torch.fx.Node) -> torch.fx.Node:
    """The library wants the numbers of one row side by side."""
    if same_numbers(node.meta["val"].stride()[-1:], (1,)):
        return node
    return rewriter.call(ATEN.clone.default, node, memory_format=torch.contiguous_format)


def _mask(rewriter: Rewriter, found: _Attention, dtype: torch.dtype) -> torch.fx.Node | None:
    """What the library adds to the scores: four dimensions, all rows and columns."""
    mask = found.mask
    if mask is None:
        return None
    if found.hides:
        shape = mask.meta["val"].shape
        mask = rewriter.call(ATEN.masked_fill.Scalar, rewriter.call(
            ATEN.zeros.default, [*shape], dtype=dtype, device=torch.device("cpu")), mask, -math.inf)
    elif mask.meta["val"].dtype is not dtype:
        mask = rewriter.call(ATEN._to_copy.default, mask, dtype=dtype)
    sizes = list(mask.meta["val"].shape)
    if not found.has_heads:
        sizes = [1] * (3 - len(sizes)) + sizes
        sizes.insert(1, 1)
    sizes = [1] * (4 - len(sizes)) + sizes
    mask = _shaped(rewriter, mask, tuple(sizes))
    if same_numbers(sizes[2:], found.shape[2:]):
        return mask
    return rewriter.call(ATEN.expand.default, mask, [*sizes[:2], *found.shape[2:]])
