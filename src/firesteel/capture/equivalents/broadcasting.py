"""What sizes broadcast to: torch's function in C for two of them, which distributions use."""

from __future__ import annotations

import torch

from firesteel import torch_compat
from firesteel.capture.call_handlers import equivalent_of


def infer_size(one: torch.Size, other: torch.Size) -> torch.Size:
    """The size of what two tensors of these sizes are joined to."""
    longest = len(one) if len(one) > len(other) else len(other)
    joined = []
    for place in range(longest):
        a = one[place - longest] if longest - place <= len(one) else 1
        b = other[place - longest] if longest - place <= len(other) else 1
        if a != b and a != 1 and b != 1:
            raise RuntimeError(f"The size of tensor a ({a}) must match the size of tensor b ({b}) at non-singleton "
                               f"dimension {place}")
        joined.append(b if a == 1 else a)
    return torch.Size(joined)


for _function in torch_compat.size_inference():
    equivalent_of(_function)(infer_size)
