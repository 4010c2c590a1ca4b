"""Packing padded sequences, written in operators whose results have as many rows as data says.

    batch of 3, lengths 3, 2, 1          packed: a row for each step of each sequence, steps first
        a0 a1 a2                             data         a0 b0 c0 a1 b1 a2
        b0 b1 .                              batch_sizes  3 2 1
        c0 .  .

torch's own function reads lengths in C++. Those that eager refuses are refused when the graph runs, those of a wrong
kind by torch's function at once.
"""

from __future__ import annotations

import torch

from ..devices import kind_of
from ..torch_compat import own_functions
from ..torch_compat.tracing import check_when_run

_NOT_SORTED = (
    "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
    "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not "
    "need ONNX exportability."
)
_EMPTY = "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"


def pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """``torch._pack_padded_sequence``: the rows that are no padding, step by step, and how many there are in each."""
    if lengths.dim() != 1 or lengths.dtype is not torch.int64 or not kind_of(lengths).is_host or x.dim() < 2 or \
            bool(x.numel() == 0) or not bool(lengths.size(0) == x.size(0 if batch_first else 1)):
        return own_functions.pack_padded_sequence(x, lengths, batch_first)
    check_when_run((lengths[:-1] >= lengths[1:]).all(), _NOT_SORTED)
    check_when_run((lengths > 0).all(), _EMPTY)
    inside = torch.arange(x.size(1 if batch_first else 0)).unsqueeze(1) < lengths
    step, sequence = inside.nonzero().to(x.device).unbind(1)
    # lengths may be longer than the sequences, and eager counts the steps that lengths say
    sizes = (torch.arange(lengths[0].item()).unsqueeze(1) < lengths).sum(1)
    return x[sequence, step] if batch_first else x[step, sequence], sizes


PACKING = {"_pack_padded_sequence": pack}
