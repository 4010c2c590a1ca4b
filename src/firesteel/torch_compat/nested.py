"""Torch's class of nested tensors with the jagged layout: what they are made of, and making them."""

from __future__ import annotations

from typing import Any

import torch
from torch.nested._internal import nested_tensor as _module

JAGGED_CLASS: Any = _module.NestedTensor
PARTS = ("_values", "_offsets", "_lengths", "_min_seqlen_tensor", "_max_seqlen_tensor")
"""The tensors that make up a nested tensor; all but the first two may be missing."""
view_from_jagged: Any = torch._nested_view_from_jagged  # type: ignore[attr-defined]
"""What torch's own functions make nested tensors with; its third argument stands for the class."""
from_padded: Any = torch._nested_from_padded_tensor  # type: ignore[attr-defined]
dummy_of_class: Any = _module._nt_view_dummy
"""Makes that argument."""


def part_of(tensor: Any, name: str) -> torch.Tensor | None:
    """One of the parts, if there is one."""
    return getattr(tensor, name)  # type: ignore[no-any-return]


def ragged_dim(tensor: Any) -> int:
    """The dimension in which sequences have different lengths."""
    return tensor._ragged_idx  # type: ignore[no-any-return]


def sizes_of(tensor: Any) -> tuple[Any, ...]:
    """The sizes, of which the one in the ragged dimension is no number."""
    return tensor._size  # type: ignore[no-any-return]


def make_jagged(values: torch.Tensor, parts: dict[str, torch.Tensor], dim: int) -> Any:
    """A nested tensor around values."""
    names = (("min_seqlen", "_min_seqlen_tensor"), ("max_seqlen", "_max_seqlen_tensor"))
    lengths = {short: parts[name] for short, name in names if name in parts}
    return JAGGED_CLASS(values, offsets=parts["_offsets"], lengths=parts.get("_lengths"),
                        _ragged_idx=dim, _metadata_cache=lengths)


def knows_lengths(tensor: Any) -> bool:
    """Whether the lengths of the shortest and the longest sequence are at hand."""
    return {"min_seqlen", "max_seqlen"} <= tensor._metadata_cache.keys()


def set_lengths(tensor: Any, shortest: torch.Tensor, longest: torch.Tensor) -> None:
    """What a nested tensor finds out, and remembers, when it is asked for its shortest and longest sequence. All that
    are made from it share what it remembers."""
    tensor._metadata_cache.update(min_seqlen=shortest, max_seqlen=longest)


def jagged_facts(t: torch.Tensor) -> tuple[Any, ...]:
    """What compiled code relies on of a nested tensor beside its parts."""
    with torch._C.DisableTorchFunctionSubclass():
        return t.dtype, t.device, t.requires_grad, t.is_leaf, torch._C._dispatch_keys(t)


def shortest_of(tensor: Any) -> torch.Tensor:
    """The length of the shortest sequence, as the size of a tensor without elements."""
    known = tensor._min_seqlen_tensor
    return torch.empty(int(_lengths(tensor).min()), 0) if known is None else known


def longest_of(tensor: Any) -> torch.Tensor:
    """The length of the longest sequence, as the size of a tensor without elements."""
    known = tensor._max_seqlen_tensor
    return torch.empty(int(_lengths(tensor).max()), 0) if known is None else known


def _lengths(tensor: Any) -> torch.Tensor:
    """How long the sequences are."""
    lengths = part_of(tensor, "_lengths")
    return part_of(tensor, "_offsets").diff() if lengths is None else lengths  # type: ignore[union-attr]
