"""Losses. Their gradients are in :mod:`.backward`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..dims import layout_of, require_equal, shape_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import same_kind
from .registry import rule
from .strides import elementwise_layout, preserved_strides

_NONE = 0  # the code of reduction="none"


@rule("aten.nll_loss_forward.default", "aten.nll_loss2d_forward.default")
def nll_loss(x: FakeTensor, target: FakeTensor, weight: FakeTensor | None, reduction: int, ignore_index: Any) -> Any:
    """The loss and the sum of the weights."""
    if not x.dtype.is_floating_point or not same_kind(x, weight) or target.device != x.device:
        return NotImplemented
    if target.dtype is not torch.int64 or x.ndim != (target.ndim + 1) or x.ndim not in (1, 2, 4):
        return NotImplemented
    shape = shape_of(x)
    wanted = (shape[0], *shape[2:]) if x.ndim > 1 else ()
    if not all(require_equal(a, b) for a, b in zip(wanted, shape_of(target), strict=True)):
        return NotImplemented
    channels = shape[1] if x.ndim > 1 else shape[0]
    if weight is not None and (weight.ndim != 1 or not require_equal(shape_of(weight)[0], channels)):
        return NotImplemented
    total = new_fake((), None, x.dtype, x.device)
    return new_fake(wanted if reduction == _NONE else (), None, x.dtype, x.device), total


@rule("aten.mse_loss.default")
def mse_loss(x: FakeTensor, target: FakeTensor, reduction: int = 1) -> Any:
    """Elementwise, then reduced."""
    if not x.dtype.is_floating_point or not same_kind(x, target):
        return NotImplemented
    layout = elementwise_layout((layout_of(x), layout_of(target)))
    if layout is None:
        return NotImplemented
    shape, stride = layout if reduction == _NONE else ((), None)
    return new_fake(shape, stride, x.dtype, x.device)


@rule("aten.binary_cross_entropy.default")
def binary_cross_entropy(
    x: FakeTensor, target: FakeTensor, weight: FakeTensor | None = None, reduction: int = 1
) -> Any:
    """Eager multiplies by weights of any dtype in the memory of the loss, which has the dtype of the argument."""
    if not x.dtype.is_floating_point or not same_kind(x, target) or not _are_weights(weight, x):
        return NotImplemented
    return _like(x) if reduction == _NONE else new_fake((), None, x.dtype, x.device)


@rule("aten.binary_cross_entropy_backward.default")
def binary_cross_entropy_backward(
    grad: FakeTensor, x: FakeTensor, target: FakeTensor, weight: FakeTensor | None = None, reduction: int = 1
) -> Any:
    """The same for the gradient."""
    return _like(x) if same_kind(x, grad, target) and _are_weights(weight, x) else NotImplemented


def _are_weights(weight: FakeTensor | None, x: FakeTensor) -> bool:
    if weight is not None and weight.dtype.is_complex:
        raise FakeUnsupported("aten.binary_cross_entropy", "complex weights, which meta kernels let pass")
    return weight is None or weight.device == x.device


def _like(x: FakeTensor) -> FakeTensor:
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), x.dtype, x.device)


@rule("aten.binary_cross_entropy_with_logits.default")
def binary_cross_entropy_with_logits(
    x: FakeTensor, target: FakeTensor, weight: FakeTensor | None = None, pos_weight: FakeTensor | None = None,
    reduction: int = 1,
) -> Any:
    """Eager computes it in memory like the target's, in the target's dtype."""
    layout = elementwise_layout((layout_of(target),))
    if layout is None or target.device != x.device or not x.dtype.is_floating_point:
        return NotImplemented
    shape, stride = layout if reduction == _NONE else ((), None)
    return new_fake(shape, stride, target.dtype, x.device)


@rule("aten._ctc_loss.default")
def ctc_loss(log_probs: FakeTensor, targets: FakeTensor, input_lengths: Sequence[Any], target_lengths: Sequence[Any],
             *options: Any) -> Any:
    """A loss for each sequence, and the probabilities of all prefixes of the longest target with blanks in between."""
    if not all(isinstance(length, int) for length in target_lengths) or not target_lengths:
        return NotImplemented
    return ctc_results(log_probs, 2 * max(target_lengths) + 1)


def ctc_results(log_probs: FakeTensor, states: Any) -> Any:
    """What the loss over sequences returns for a number of states."""
    if log_probs.ndim != 3 or not log_probs.dtype.is_floating_point:
        return NotImplemented
    steps, batch, _ = shape_of(log_probs)
    return (new_fake((batch,), None, log_probs.dtype, log_probs.device),
            new_fake((batch, steps, states), None, log_probs.dtype, log_probs.device))


@rule("aten._ctc_loss_backward.default", "aten._ctc_loss_backward.Tensor")
def ctc_loss_backward(grad: FakeTensor, log_probs: FakeTensor, *rest: Any) -> Any:
    """By rows, whatever the layout of the probabilities."""
    return new_fake(shape_of(log_probs), None, log_probs.dtype, log_probs.device)
