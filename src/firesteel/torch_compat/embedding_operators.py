"""The gradient of an embedding added to another gradient of the same table, as one operator."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def add_embedding_gradient() -> Any:
    """``(x, grad, indices, padding_idx)``: ``x + embedding_dense_backward(grad, indices, len(x), padding_idx)``."""
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define("add_embedding_gradient(Tensor x, Tensor grad, Tensor indices, int padding_idx) -> Tensor")
    library.impl("add_embedding_gradient", _add_embedding_gradient, "CompositeExplicitAutograd")
    _libraries.append(library)
    return torch.ops.firesteel.add_embedding_gradient.default


def _add_embedding_gradient(
    x: torch.Tensor, grad: torch.Tensor, indices: torch.Tensor, padding_idx: int
) -> torch.Tensor:
    rows = torch.ops.aten.embedding_dense_backward.default(grad, indices, x.shape[0], padding_idx, False)
    return x + rows


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""
