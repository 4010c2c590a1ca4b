"""Operators on lists of tensors, as optimizers call them: the operator on each of the tensors.

On the CPU eager does the same, tensor by tensor. Taken apart, the operators that follow each other on one tensor become
one kernel, and tensors of one shape share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .registry import decomposition

Tensors = Sequence[torch.Tensor]
_ATEN = torch.ops.aten

_UNARY = (
    "abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg "
    "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_BINARY: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow,
    "clamp_min": torch.clamp_min, "clamp_max": torch.clamp_max, "maximum": torch.clamp_min, "minimum": torch.clamp_max,
}  # fmt: skip


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on every tensor, with the other arguments as they are."""

    def apply(tensors: Tensors, *args: Any, **kwargs: Any) -> list[Any]:
        return [function(tensor, *args, **kwargs) for tensor in tensors]

    return apply


def _pairs(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on every tensor and the element of another list at its place."""

    def apply(tensors: Tensors, others: Sequence[Any], **kwargs: Any) -> list[Any]:
        return [function(tensor, other, **kwargs) for tensor, other in zip(tensors, others, strict=True)]

    return apply


for _name in _UNARY.split():
    decomposition(f"aten._foreach_{_name}.default")(_each(getattr(torch, _name)))
for _name, _function in _BINARY.items():
    decomposition(f"aten._foreach_{_name}.Scalar", f"aten._foreach_{_name}.Tensor")(_each(_function))
    decomposition(f"aten._foreach_{_name}.List", f"aten._foreach_{_name}.ScalarList")(_pairs(_function))
decomposition("aten._foreach_mm.default")(_pairs(torch.mm))
decomposition("aten._foreach_zero.default")(_each(torch.zeros_like))


@decomposition("aten._foreach_pow.ScalarAndTensor")
def power(base: Any, exponents: Tensors) -> list[Any]:
    """One number to the power of every tensor."""
    return [torch.pow(base, exponent) for exponent in exponents]


@decomposition("aten._foreach_copy.default")
def copy(tensors: Tensors, sources: Tensors, non_blocking: bool = False) -> list[Any]:
    """The sources in the dtypes and layouts of the tensors."""
    return [_ATEN.copy.default(tensor, source) for tensor, source in zip(tensors, sources, strict=True)]


@decomposition("aten._foreach_norm.Scalar")
def norm(tensors: Tensors, ord: Any = 2, dtype: torch.dtype | None = None) -> list[Any]:
    """The norm of every tensor as one vector."""
    return [torch.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in tensors]


def _products(function: Callable[..., Any], combine: Callable[..., Any]) -> None:
    name = function.__name__

    def by_number(tensors: Tensors, first: Tensors, second: Tensors, value: Any = 1) -> list[Any]:
        return [function(*each, value=value) for each in zip(tensors, first, second, strict=True)]

    def by_list(tensors: Tensors, first: Tensors, second: Tensors, scalars: Any) -> Any:
        if isinstance(scalars, torch.Tensor):
            factors = [scalar.to(b.dtype) for scalar, b in zip(scalars.unbind(), first, strict=True)]
            return [a + combine(b * factor, c)
                    for a, b, c, factor in zip(tensors, first, second, factors, strict=True)]
        return [
            function(a, b, c, value=value) for a, b, c, value in zip(tensors, first, second, scalars, strict=True)
        ]

    decomposition(f"aten._foreach_{name}.Scalar")(by_number)
    decomposition(f"aten._foreach_{name}.ScalarList", f"aten._foreach_{name}.Tensor")(by_list)


_products(torch.addcmul, torch.mul)
_products(torch.addcdiv, torch.div)


@decomposition("aten._foreach_lerp.Scalar")
def lerp(tensors: Tensors, ends: Tensors, weight: Any) -> list[Any]:
    """A share of the way to the ends, the same for all tensors."""
    return [torch.lerp(tensor, end, weight) for tensor, end in zip(tensors, ends, strict=True)]


@decomposition("aten._foreach_lerp.List", "aten._foreach_lerp.ScalarList")
def lerp_each(tensors: Tensors, ends: Tensors, weights: Sequence[Any]) -> list[Any]:
    """A share of the way to the ends, another one for every tensor."""
    return [torch.lerp(*each) for each in zip(tensors, ends, weights, strict=True)]
