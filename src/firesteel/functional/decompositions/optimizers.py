"""Fused steps of optimizers as arithmetic on each parameter.

Numbers that depend on the count of steps are computed in double precision, as the fused kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from .registry import decomposition

Tensors = Sequence[torch.Tensor]
Lists = tuple[list[torch.Tensor], ...]


def _number(value: Any, like: torch.Tensor) -> Any:
    """A number, or a tensor with one, as an operand that does not change the dtype of a result."""
    return value.to(like.dtype) if isinstance(value, torch.Tensor) else value


def _with_scaler(step: Any) -> Any:
    """The step with gradients that a scaler has multiplied, which come back divided; none where one overflowed."""

    @functools.wraps(step)
    def scaled(params: Tensors, grads: Tensors, *states: Tensors, grad_scale: Any = None, found_inf: Any = None,
               **settings: Any) -> Any:
        if grad_scale is not None:
            unscaled: Tensors = [grad / grad_scale for grad in grads]
        else:
            unscaled = grads
        results = step(params, unscaled, *states, **settings)
        if found_inf is None:
            return results
        skip = found_inf == 1
        return tuple([
            [torch.where(skip, before, after) for before, after in zip(old, new, strict=False)]
            for old, new in zip((params, grads, *states), results, strict=False)
        ])

    return scaled


def _adam(params: Tensors, grads: Tensors, means: Tensors, squares: Tensors, maxima: Tensors, steps: Tensors, *,
          lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, maximize: bool,
          decoupled: bool) -> Any:
    results: Lists = ([], list(grads), [], [], [])
    wide_lr = lr.double() if isinstance(lr, torch.Tensor) else lr
    for index, (p, g, mean, square, step) in enumerate(zip(params, grads, means, squares, steps, strict=True)):
        count = step.double()
        g = -g if maximize else g
        if weight_decay != 0:
            if decoupled:
                p = p * _number(1 - wide_lr * weight_decay, p)
            else:
                g = g + p * weight_decay
        mean = torch.lerp(mean, g, 1 - beta1)
        square = square * beta2 + g * g * (1 - beta2)
        results[2].append(mean)
        results[3].append(square)
        if amsgrad:
            square = torch.maximum(maxima[index], square)
            results[4].append(square)
        size = _number(wide_lr / (1 - beta1**count), p)
        correction = _number((1 - beta2**count).sqrt(), p)
        results[0].append(p - size * mean / (square.sqrt() / correction + eps))
    return results


@decomposition("aten._fused_adam.default", "aten._fused_adam.tensor_lr")
@_with_scaler
def adam(params: Tensors, grads: Tensors, means: Tensors, squares: Tensors, maxima: Tensors, steps: Tensors,
         **settings: Any) -> Any:
    """Weight decay is part of the gradient."""
    return _adam(params, grads, means, squares, maxima, steps, decoupled=False, **settings)


@decomposition("aten._fused_adamw.default", "aten._fused_adamw.tensor_lr")
@_with_scaler
def adamw(params: Tensors, grads: Tensors, means: Tensors, squares: Tensors, maxima: Tensors, steps: Tensors,
          **settings: Any) -> Any:
    """Weight decay shrinks the parameters first."""
    return _adam(params, grads, means, squares, maxima, steps, decoupled=True, **settings)


@decomposition("aten._fused_sgd.default", "aten._fused_sgd.tensor_lr")
@_with_scaler
def sgd(params: Tensors, grads: Tensors, buffers: Tensors, *, weight_decay: float, momentum: float, lr: Any,
        dampening: float, nesterov: bool, maximize: bool, is_first_step: bool) -> Any:
    """Stochastic gradient descent with momentum."""
    results: Lists = ([], list(grads), [])
    for index, (p, g) in enumerate(zip(params, grads, strict=True)):
        g = -g if maximize else g
        if weight_decay != 0:
            g = g + p * weight_decay
        if momentum != 0:
            buffer = g.clone() if is_first_step else buffers[index] * momentum + g * (1 - dampening)
            results[2].append(buffer)
            g = g + buffer * momentum if nesterov else buffer
        results[0].append(p - _number(lr, p) * g)
    return results


@decomposition("aten._fused_adagrad.default", "aten._fused_adagrad.tensor_lr")
@_with_scaler
def adagrad(params: Tensors, grads: Tensors, sums: Tensors, steps: Tensors, *, lr: Any, lr_decay: float,
            weight_decay: float, eps: float, maximize: bool) -> Any:
    """Step sizes shrink with the sum of all squares."""
    results: Lists = ([], list(grads), [])
    wide_lr = lr.double() if isinstance(lr, torch.Tensor) else lr
    for p, g, total, step in zip(params, grads, sums, steps, strict=True):
        g = -g if maximize else g
        if weight_decay != 0:
            g = g + p * weight_decay
        total = total + g * g
        results[2].append(total)
        size = _number(wide_lr / (1 + (step.double() - 1) * lr_decay), p)
        results[0].append(p - size * g / (total.sqrt() + eps))
    return results if isinstance(lr, torch.Tensor) else (*results, list(steps))


@decomposition("aten._amp_foreach_non_finite_check_and_unscale.default")
def unscale(grads: Tensors, found_inf: torch.Tensor, inv_scale: torch.Tensor) -> Any:
    """Gradients that a scaler has multiplied, divided again, and whether one of them overflowed."""
    for grad in grads:
        found_inf = torch.where(torch.isfinite(grad).all(), found_inf, 1.0)
    return [(grad * inv_scale).to(grad.dtype) for grad in grads], found_inf
