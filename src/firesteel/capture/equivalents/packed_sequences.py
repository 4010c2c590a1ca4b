"""Padding of packed sequences (`torch.nn.utils.rnn`), whose lengths torch's own function reads in C++."""

from __future__ import annotations

from typing import Any

import torch

from ...torch_compat import own_functions
from ..call_handlers import equivalent_of


@equivalent_of(own_functions.pad_packed_sequence)
def pad(data: torch.Tensor, batch_sizes: torch.Tensor, batch_first: bool, padding_value: Any,
        total_length: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences of one length, and how much of each is no padding; packed are their steps, one after the other."""
    batch: Any = batch_sizes[0].item()
    if total_length > 0:
        steps = batch_sizes.size(0)
        if steps > total_length:
            raise RuntimeError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}")
        batch_sizes = torch.nn.functional.pad(batch_sizes, (0, total_length - steps))
    inside = torch.arange(batch) < batch_sizes.unsqueeze(1)
    rest = data.shape[1:]
    empty = data.new_full((inside.size(0) * batch, *rest), padding_value)
    places = inside.flatten().nonzero().squeeze(1).to(data.device)
    padded = empty.index_copy(0, places, data).view(inside.size(0), batch, *rest)
    return padded.transpose(0, 1) if batch_first else padded, inside.sum(0)
