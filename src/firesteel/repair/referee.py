"""Whether two results of one computation agree, with a third one in float64 as the referee.

Integers, bools, dtypes, sizes and strides have to be equal. Floats may differ by what `torch.testing.assert_close`
allows for the dtype, and where they differ by more, by twice of what eager itself is away from the referee.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..torch_compat import pytrees

TOLERANCES = {
    torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7), torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
}
"""Relative and absolute tolerance."""
_LOOSEST = (1.6e-2, 1e-5)


@dataclass(frozen=True)
class Difference:
    """Where two results differ and how."""

    place: str
    kind: str
    """One of "value", "nan", "dtype", "shape", "strides", "type"; of a call "return", or what it raises."""
    text: str

    @property
    def sort(self) -> str:
        """The kind and the place, without numbers. What is NaN here may be a number there."""
        return f"{'value' if self.kind == 'nan' else self.kind} of a {self.place.partition('[')[0].partition('.')[0]}"

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def first_difference(result: Any, expected: Any, referee: Any = None, place: str = "result",
                     strides: bool = True) -> Difference | None:
    """The first place where a result differs from eager's by more than the referee allows."""
    leaves, spec = pytrees.tree_flatten(result)
    others, other_spec = pytrees.tree_flatten(expected)
    if spec != other_spec:
        return Difference(place, "type", f"it is {_short(result)} and eager's is {_short(expected)}")
    truths: Sequence[Any] = [None] * len(leaves)
    if referee is not None:
        listed, referee_spec = pytrees.tree_flatten(referee)
        truths = listed if referee_spec == spec else truths
    for at, (mine, theirs, truth) in enumerate(zip(leaves, others, truths, strict=True)):
        here = place if len(leaves) == 1 else f"{place}[{at}]"
        found = _difference_of_leaf(mine, theirs, truth, here, strides)
        if found is not None:
            return found
    return None


def _difference_of_leaf(mine: Any, theirs: Any, truth: Any, place: str, strides: bool) -> Difference | None:
    if isinstance(theirs, torch.Tensor) and isinstance(mine, torch.Tensor):
        return difference_of_tensors(mine.detach(), theirs.detach(), truth, place, strides)
    if type(mine) is not type(theirs):
        return Difference(place, "type", f"it is {_short(mine)} and eager's is {_short(theirs)}")
    if dataclasses.is_dataclass(theirs) and not isinstance(theirs, type):
        for field in dataclasses.fields(theirs):
            name = field.name
            found = first_difference(getattr(mine, name, None), getattr(theirs, name, None), None, f"{place}.{name}")
            if found is not None:
                return found
        return None
    if isinstance(theirs, float):
        return difference_of_tensors(torch.tensor(mine, dtype=torch.float64), torch.tensor(theirs, dtype=torch.float64),
                                     None, place, False)
    try:
        same = bool(mine == theirs) or not _has_equality(theirs)
    except Exception:
        same = True  # what cannot be compared is no evidence
    return None if same else Difference(place, "value", f"it is {mine!r:.200} and eager's is {theirs!r:.200}")


def _has_equality(value: Any) -> bool:
    return any("__eq__" in vars(kind) for kind in type(value).__mro__[:-1])


def difference_of_tensors(mine: torch.Tensor, theirs: torch.Tensor, truth: Any, place: str,
                          strides: bool) -> Difference | None:
    """How a tensor differs from eager's."""
    if mine.dtype is not theirs.dtype:
        return Difference(place, "dtype", f"it is {mine.dtype} and eager's is {theirs.dtype}")
    if mine.shape != theirs.shape:
        return Difference(place, "shape", f"it has the size {list(mine.shape)} and eager's {list(theirs.shape)}")
    if mine.layout is not torch.strided or mine.numel() == 0:
        return None
    if strides and any(size > 1 and a != b for size, a, b in
                       zip(mine.shape, mine.stride(), theirs.stride(), strict=True)):
        return Difference(place, "strides", f"it has strides {mine.stride()} and eager's {theirs.stride()}")
    if not (mine.is_floating_point() or mine.is_complex()):
        wrong = mine != theirs
        return _at_worst(mine, theirs, wrong.to(torch.float64), place, "value") if bool(wrong.any()) else None
    relative, absolute = TOLERANCES.get(mine.dtype, _LOOSEST)
    a, b = _wide(mine), _wide(theirs)
    judged = isinstance(truth, torch.Tensor) and truth.shape == theirs.shape
    nans = torch.isnan(a) != torch.isnan(b)
    if bool(nans.any()):
        sure = nans & (torch.isnan(_wide(truth)) == torch.isnan(b)) if judged else nans
        if bool(sure.any()):
            return _at_worst(mine, theirs, sure.to(torch.float64), place, "nan")
    distance = _distance(a, b)
    wrong = distance > absolute + relative * b.abs().nan_to_num(0.0, 0.0, 0.0)
    if judged and bool(wrong.any()):
        referee = _wide(truth)
        finite = torch.isfinite(referee.abs())
        off, allowed = _distance(a, referee), _distance(b, referee)
        most = float(allowed[finite].max()) if bool(finite.any()) else 0.0
        scale = 2 * max(most, 0.0) + absolute + relative * referee.abs().nan_to_num(0.0, 0.0, 0.0)
        wrong &= off > scale
    return _at_worst(mine, theirs, torch.where(wrong, distance, -1.0), place, "value") if bool(wrong.any()) else None


def _wide(value: torch.Tensor) -> torch.Tensor:
    return value.detach().to(torch.complex128 if value.is_complex() else torch.float64)


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    same = (a == b) | (torch.isnan(a) & torch.isnan(b))
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(torch.inf, torch.inf, torch.inf)).to(torch.float64)


def _at_worst(mine: torch.Tensor, theirs: torch.Tensor, badness: torch.Tensor, place: str, kind: str) -> Difference:
    flat = int(badness.reshape(-1).argmax())
    index, rest = [], flat
    for size in reversed(mine.shape):
        index.append(rest % size)
        rest //= size
    where = f" at {index[::-1]}" if index else ""
    count = int((badness > 0).sum())
    return Difference(place, kind, f"it is {mine.reshape(-1)[flat].item()!r} and eager's is "
                                   f"{theirs.reshape(-1)[flat].item()!r}{where}; {count} of {mine.numel()} elements "
                                   "are wrong")


def _short(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of {len(value)}"
    return f"{value!r:.80}" if isinstance(value, (int, float, str, bool, type(None))) else type(value).__qualname__


def in_double(value: Any) -> Any:
    """Arguments with all floats in float64; modules are changed, so give copies."""
    def widened(leaf: Any) -> Any:
        if isinstance(leaf, torch.nn.Module):
            return leaf.double()
        if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
            wide = leaf.detach().to(torch.complex128 if leaf.is_complex() else torch.float64)
            return wide.requires_grad_(leaf.requires_grad)
        return leaf

    return pytrees.tree_map(widened, value)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of results and arguments, those of modules with them."""
    for leaf in pytrees.tree_leaves(value):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, torch.nn.Module):
            yield from leaf.parameters()
