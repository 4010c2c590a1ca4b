"""Random operators that torch has in place only, as functions.

What a generator draws for a tensor depends on the tensor's strides, so a function has to make its result with those of
the tensor that eager fills.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch


@functools.cache
def bernoulli_strided() -> Any:
    """``(size, stride, p, *, dtype, device)``: a new tensor of zeros and ones, as ``bernoulli_`` would fill it."""
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(
        "bernoulli_strided(SymInt[] size, SymInt[] stride, float p, *, ScalarType dtype, Device device) -> Tensor",
        tags=(torch.Tag.nondeterministic_seeded,))
    library.impl("bernoulli_strided", _bernoulli_strided, "CompositeExplicitAutograd")
    _libraries.append(library)
    return torch.ops.firesteel.bernoulli_strided.default


def _bernoulli_strided(size: Sequence[int], stride: Sequence[int], p: float, *, dtype: torch.dtype,
                       device: torch.device) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype, device=device).bernoulli_(p)


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""
