"""Results of two runs of a program, compared."""

from __future__ import annotations

from typing import Any

import numpy
import torch
import torch.utils._pytree as pytree


def difference(plain: list[Any], compiled: list[Any], tolerance: float) -> str:
    """ "exact", "close" with the largest difference, or the first call that differs by more than the tolerance."""
    largest = 0.0
    for number, (expected, actual) in enumerate(zip(plain, compiled, strict=True)):
        left, shape = pytree.tree_flatten(expected)
        right, other = pytree.tree_flatten(actual)
        if shape != other:
            return f"call {number}: other results"
        for a, b in zip(left, right, strict=True):
            distance = _distance(a, b)
            if distance is None or distance > tolerance:
                return f"call {number}: {_text(b)}, eager {_text(a)}"
            largest = max(largest, distance)
    return "exact" if largest == 0 else f"close {largest:.0e}"


def _distance(expected: Any, actual: Any) -> float | None:
    """How far two leaves are from each other, relative or absolute; None if they are of different kinds."""
    if type(expected) is not type(actual):
        return None
    if isinstance(expected, numpy.ndarray):
        return _distance(torch.from_numpy(expected), torch.from_numpy(actual)) \
            if expected.dtype == actual.dtype else None
    if isinstance(expected, float):
        return _distance(torch.tensor(expected, dtype=torch.float64), torch.tensor(actual, dtype=torch.float64))
    if not isinstance(expected, torch.Tensor):
        return 0.0 if expected == actual else None
    if (expected.shape, expected.dtype, expected.requires_grad) != (actual.shape, actual.dtype, actual.requires_grad):
        return None
    if torch.equal(expected, actual):
        return 0.0
    if not expected.is_floating_point():
        return None
    a, b = expected.detach().double(), actual.detach().double()
    if not torch.equal(a.isnan(), b.isnan()):
        return None
    apart = (a - b).abs() / a.abs().clamp(min=1.0)
    return float(apart[~apart.isnan()].max()) if apart.numel() else 0.0


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        start = value.detach().flatten()[:3].tolist()
        return f"{list(value.shape)} {value.dtype} requires_grad={value.requires_grad} {start}"
    return repr(value)[:80]
