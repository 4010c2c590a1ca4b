"""Resampling of images by factors, written with the operators that take sizes.

    upsample_bilinear2d(x, None, False, [2.0, 2.0])  ->  upsample_bilinear2d(x, [2*h, 2*w], False, 2.0, 2.0)

torch computes these sizes in C++, which makes numbers of those of the image. Behind a factor such as 1.7 a size is no
polynomial. Kernels have no code for that, so only exported programs keep it; elsewhere torch does as it always does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any

import torch

_EXACT = 1 << 10
_MODES = {"nearest": "upsample_nearest2d", "bilinear": "upsample_bilinear2d", "bicubic": "upsample_bicubic2d"}
_WITH_CORNERS = ("upsample_bilinear2d", "upsample_bicubic2d")
_any_factor = ContextVar("_any_factor", default=False)


@contextmanager
def any_factor() -> Iterator[None]:
    """While this is entered, sizes behind all factors stay symbolic."""
    token = _any_factor.set(True)
    try:
        yield
    finally:
        _any_factor.reset(token)


def scaled_size(size: Any, factor: float) -> Any:
    """The size of an image behind a factor: what the product is without its fraction.

    >>> scaled_size(7, 2.0), scaled_size(7, 1.5), scaled_size(7, 1.7)
    (14, 10, 11)
    """
    exact = Fraction(factor)
    if exact.denominator <= _EXACT:  # the product of doubles is exact too
        return size * exact.numerator // exact.denominator
    return torch.sym_int(size * factor)


def _is_written_out(factors: Sequence[float]) -> bool:
    return _any_factor.get() or all(Fraction(factor).denominator <= _EXACT for factor in factors)


def _resampling(name: str) -> Callable[..., Any]:
    operator: Any = getattr(torch.ops.aten, name)
    corners = 1 if name in _WITH_CORNERS else 0

    def resample(x: torch.Tensor, output_size: Sequence[Any] | None, *rest: Any) -> Any:
        factors = rest[corners] if len(rest) > corners else None
        if len(rest) > corners + 1 or not (factors is None or isinstance(factors, Sequence)):
            return operator(x, output_size, *rest)  # the operator itself, with a factor for each dimension
        if output_size is None:
            if factors is None or not _is_written_out(factors):
                return operator(x, output_size, *rest)
            output_size = [scaled_size(size, factor) for size, factor in zip(x.shape[2:], factors, strict=True)]
        return operator.default(x, output_size, *rest[:corners], *(factors or (None, None)))

    return resample


RESAMPLING: dict[str, Callable[..., Any]] = {name: _resampling(name) for name in _MODES.values()}
"""Functions of the names and arguments of torch's."""


def interpolate(input: torch.Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
                antialias: bool = False) -> torch.Tensor:
    """`torch.nn.functional.interpolate`, whose errors are left to it."""
    name = _MODES.get(mode) if input.dim() == 4 else None
    corners = name in _WITH_CORNERS
    given = size if size is not None else scale_factor
    both = list(given) if isinstance(given, (tuple, list)) else [given] * 2
    usual = name is not None and (size is None) != (scale_factor is None) and len(both) == 2
    refused = antialias or (align_corners is not None and not corners) or (size is not None and recompute_scale_factor)
    if not usual or refused or torch.are_deterministic_algorithms_enabled() \
            or (size is None and not _is_written_out(both)):
        return torch.nn.functional.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor,
                                               antialias)
    assert name is not None
    sizes, factors = (both, None) if size is not None else (None, both)
    if recompute_scale_factor and factors is not None:
        sizes, factors = [scaled_size(*pair) for pair in zip(input.shape[2:], both, strict=True)], None
    result: torch.Tensor = RESAMPLING[name](input, sizes, *([bool(align_corners)] if corners else []), factors)
    return result
