"""What torch does with nested tensors one sequence at a time, and reads their lengths for."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_compat import nested


def unbind(tensor: Any, dim: int = 0) -> tuple[Any, ...]:
    """A view for each sequence."""
    if dim != 0:
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    values, offsets, lengths = tensor.values(), tensor.offsets(), tensor.lengths()
    ragged = tensor._ragged_idx - 1
    if lengths is None:
        return values.split(offsets.diff().tolist(), dim=ragged)  # type: ignore[no-any-return]
    return tuple([values.narrow(ragged, start, length)
                  for start, length in zip(offsets.tolist()[:-1], lengths.tolist(), strict=True)])


def attention(query: Any, key: Any, value: Any, shortest: Any, longest: Any, scale: Any = None,
              enable_gqa: bool = False) -> Any:
    """``scaled_dot_product_attention`` of padded sequences, in which nothing attends to padding."""
    queries, keys, values = [torch.nested.to_padded_tensor(part.transpose(1, 2), 0.0).transpose(1, 2)
                             for part in (query, key, value)]
    places = torch.arange(keys.shape[2], device=keys.device)
    inside = (places < key.offsets().diff()[:, None])[:, None, None]
    padded = torch.nn.functional.scaled_dot_product_attention(
        queries, keys, values, inside, scale=scale, enable_gqa=enable_gqa).transpose(1, 2)
    rows = query.values().shape[1]
    result = nested.from_padded(padded, query.offsets(), nested.dummy_of_class(), 1, shortest, longest, rows)
    return result.transpose(1, 2)
