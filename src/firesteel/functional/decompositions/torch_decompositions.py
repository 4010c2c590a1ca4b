"""Operators that torch's own decompositions take apart.

Only those whose parts give eager's results, dtypes and strides, checked over torch's operator samples. Some
decompositions round values of half precision where eager does not: those are used for single and double precision only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from ... import torch_compat
from ...devices import kind_of

_HALVES = (torch.float16, torch.bfloat16)

EXACT: frozenset[str] = frozenset({
    "aten._chunk_cat.default", "aten._safe_softmax.default", "aten._softmax_backward_data.default",
    "aten._unsafe_masked_index.default", "aten._unsafe_masked_index_put_accumulate.default",
    "aten.binary_cross_entropy.default", "aten.binary_cross_entropy_with_logits.default", "aten.dist.default",
    "aten.huber_loss.default", "aten.im2col.default", "aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar",
    "aten.logspace.default", "aten.max_unpool2d.default", "aten.max_unpool3d.default",
    "aten.multi_margin_loss.default",
    "aten.native_dropout_backward.default", "aten.nll_loss2d_forward.default", "aten.nll_loss_forward.default",
    "aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default",
    "aten.renorm.default", "aten.replication_pad1d.default", "aten.replication_pad2d.default",
    "aten.replication_pad3d.default", "aten.smooth_l1_loss.default", "aten.trace.default", "aten.tril_indices.default",
    "aten.triu_indices.default", "aten.upsample_bilinear2d.default",
})
NOT_IN_HALF_PRECISION: frozenset[str] = frozenset({
    "aten.mse_loss.default", "aten.mvlgamma.default", "aten.soft_margin_loss.default",
    "aten.upsample_bicubic2d.default", "aten.upsample_linear1d.default", "aten.upsample_trilinear3d.default",
})
BORROWED = EXACT | NOT_IN_HALF_PRECISION


def guarded(name: str, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, which leaves those calls alone for which it is not exact."""
    return _of_one_precision(_exact(name, decomposition))


def _of_one_precision(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition for floats of one dtype: eager writes to memory of a dtype of its choice where they differ."""

    @functools.wraps(decomposition)
    def of_one_precision(*args: Any, **kwargs: Any) -> Any:
        precision: torch.dtype | None = None
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                if precision is not None and value.dtype is not precision:
                    return NotImplemented
                precision = value.dtype
        return decomposition(*args, **kwargs)

    return of_one_precision


def _exact(name: str, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    if name == "aten.binary_cross_entropy.default":
        return _of_probabilities(decomposition)
    if name.startswith("aten.max_unpool"):
        return _of_places(decomposition)
    if name == "aten.native_dropout_backward.default":
        return _dropout_gradient
    if name == "aten.isin.Tensor_Tensor":
        return _among_floats(decomposition)
    if name in EXACT:
        return decomposition

    @functools.wraps(decomposition)
    def in_full_precision(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.dtype in _HALVES for value in args):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return in_full_precision


def _dropout_gradient(grad: torch.Tensor, mask: torch.Tensor, scale: float) -> Any:
    """The product in the layout of eager's, where torch's decomposition copies it by rows. On a GPU the scale is not
    rounded to half precision."""
    if kind_of(grad).rounds_steps or grad.dtype not in _HALVES:
        return grad * (mask.to(grad.dtype) * scale)
    return (grad.to(torch.float32) * (mask.to(torch.float32) * scale)).to(grad.dtype)


def _of_probabilities(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, which raises as eager does for what is no probability; torch's own leaves that out."""

    @functools.wraps(decomposition)
    def checked(x: torch.Tensor, target: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, torch.Tensor) and value.stride() != x.stride() for value in (target, *args)):
            return NotImplemented  # eager's result lies as the first argument does
        torch_compat.check_when_run(((x >= 0) & (x <= 1)).all(), "all elements of input should be between 0 and 1")
        if kind_of(x).raises_for_values:
            torch_compat.check_when_run(((target >= 0) & (target <= 1)).all(),
                                        "all elements of target should be between 0 and 1")
        return decomposition(x, target, *args, **kwargs)

    return checked


def _of_places(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, which raises as eager does for places outside of the result."""

    @functools.wraps(decomposition)
    def checked(x: torch.Tensor, places: torch.Tensor, output_size: Any, *args: Any, **kwargs: Any) -> Any:
        room = math.prod(output_size)
        if isinstance(room, int) and room == 0:
            return NotImplemented  # nothing is put anywhere, and nothing is checked
        torch_compat.check_when_run(((places >= 0) & (places < room)).all(), "Found an invalid max index")
        return decomposition(x, places, output_size, *args, **kwargs)

    return checked


def _among_floats(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The decomposition, which searches in a sorted tensor: torch's own loses all numbers where NaN is at its end."""

    @functools.wraps(decomposition)
    def without_nan(x: torch.Tensor, among: torch.Tensor, *, assume_unique: bool = False, invert: bool = False) -> Any:
        if assume_unique or not among.dtype.is_floating_point:
            return decomposition(x, among, assume_unique=assume_unique, invert=invert)
        inside = decomposition(x, torch.where(torch.isnan(among), math.inf, among))
        inside = inside & ((x != math.inf) | (among == math.inf).any())
        return ~inside if invert else inside

    return without_nan
