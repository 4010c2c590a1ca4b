"""Random numbers of distributions, drawn by operators that torch has no meta kernels for."""

from __future__ import annotations

from typing import Any

from ..dims import require_equal, shape_of
from ..tensor import FakeTensor, new_fake
from .registry import rule


@rule("aten._sample_dirichlet.default")
def sample_dirichlet(x: FakeTensor, generator: Any = None) -> Any:
    """One number for each concentration, by rows."""
    return new_fake(shape_of(x), None, x.dtype, x.device) if x.dtype.is_floating_point else NotImplemented


@rule("aten._dirichlet_grad.default")
def dirichlet_grad(x: FakeTensor, alpha: FakeTensor, total: FakeTensor) -> Any:
    """One number for each drawn one, by rows."""
    return new_fake(shape_of(x), None, x.dtype, x.device) if _alike(x, alpha) and _alike(x, total) else NotImplemented


@rule("aten.binomial.default")
def binomial(count: FakeTensor, prob: FakeTensor, generator: Any = None) -> Any:
    """One number for each pair, by rows; of operands that are broadcast, eager resizes a result with a warning."""
    return new_fake(shape_of(count), None, count.dtype, count.device) if _alike(count, prob) else NotImplemented


def _alike(a: FakeTensor, b: FakeTensor) -> bool:
    """Whether tensors have the same dtype and sizes."""
    return a.dtype is b.dtype and a.dtype.is_floating_point and a.ndim == b.ndim and \
        all(map(require_equal, shape_of(a), shape_of(b)))
