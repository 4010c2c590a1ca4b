"""Results of two runs compared: values within a dtype's tolerance, dtypes, sizes, strides, memory, exceptions."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

# Results are memory that nobody has written to.
UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
# Eager promises no repeatable values here: factors up to sign and order, or sums in the order of threads.
AMBIGUOUS = ("svd", "linalg.svd", "svd_lowrank", "pca_lowrank", "linalg.eig", "linalg.eigh", "eig", "symeig")


@dataclass
class Pair:
    """What came of one operator in one dtype."""

    name: str
    dtype: str
    samples: int = 0
    failures: list[str] = field(default_factory=list)
    less_accurate: list[str] = field(default_factory=list)
    breaks: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Operators of ATen that compiled graphs call, with the reason."""
    uncompiled: list[str] = field(default_factory=list)
    """Why graphs run operator by operator."""
    notes: list[str] = field(default_factory=list)
    """What else there is to say."""


def copied(value: Any) -> Any:
    """Copies of all tensors, with strides and shared memory kept."""
    import copy

    return copy.deepcopy(value)


def run(function: Any, args: Any, kwargs: Any) -> Any:
    """The result, or the exception."""
    torch.manual_seed(3)
    try:
        with torch.no_grad():
            return function(*args, **kwargs)
    except Exception as error:
        return error


def memory_of(tensor: torch.Tensor, args: Sequence[torch.Tensor]) -> int | None:
    """The argument whose memory a tensor looks at."""
    if tensor.layout is not torch.strided or tensor.numel() == 0 or tensor.is_meta:
        return None
    address = tensor.untyped_storage().data_ptr()
    for position, arg in enumerate(args):
        if arg.layout is torch.strided and arg.numel() and arg.untyped_storage().data_ptr() == address:
            return position
    return None


def differences(want: Any, got: Any, values: bool) -> list[str]:
    """What differs between two results."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        if type(want) is type(got):
            return []
        if isinstance(got, Exception):
            return [f"raises {_error_text(got)}"]
        return [f"raises nothing, eager {type(want).__name__}: {str(want)[:200]}"]
    flat_want, tree_want = pytree.tree_flatten(want)
    flat_got, tree_got = pytree.tree_flatten(got)
    if tree_want != tree_got:
        return [f"structure: {tree_got}, eager {tree_want}"]
    found: list[str] = []
    for left, right in zip(flat_want, flat_got, strict=True):
        if not isinstance(left, torch.Tensor) or not isinstance(right, torch.Tensor):
            if type(left) is not type(right) or (left != right and not (left != left and right != right)):
                found.append(f"value: {right!r}, eager {left!r}"[:300])
            continue
        found.extend(tensor_differences(left, right, values))
    return found


def _error_text(error: BaseException) -> str:
    """An exception in one line: what it comes from and where that was raised."""
    while error.__cause__ is not None:
        error = error.__cause__
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)[-3:]]
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} ({' '.join(places)})"


def tensor_differences(want: torch.Tensor, got: torch.Tensor, values: bool) -> list[str]:
    if want.dtype is not got.dtype:
        return [f"dtype: {got.dtype}, eager {want.dtype}"]
    if want.shape != got.shape or want.layout is not got.layout:
        return [f"shape: {tuple(got.shape)}, eager {tuple(want.shape)}"]
    found = []
    if want.layout is torch.strided and want.stride() != got.stride():
        kind = "strides" if want.numel() and _strides_matter(want, got) else "strides that nothing depends on"
        found.append(f"{kind}: {got.stride()}, eager {want.stride()} for {tuple(want.shape)}")
    if want.layout is torch.strided and want.storage_offset() != got.storage_offset():
        found.append(f"offset: {got.storage_offset()}, eager {want.storage_offset()}")
    if values and not want.is_meta:
        try:
            torch.testing.assert_close(_parts(got, want), _parts(want, want), equal_nan=True)
        except AssertionError as error:
            found.append(f"values: {' '.join(str(error).split())[:220]}; got {_some(got)}, eager {_some(want)}")
    return found


def _parts(tensor: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """Complex numbers with an infinite part have no distance, their parts have."""
    apart = want.is_complex() and want.layout is torch.strided and not want.isfinite().all()
    return torch.view_as_real(tensor.detach().resolve_conj()) if apart else tensor


def _strides_matter(want: torch.Tensor, got: torch.Tensor) -> bool:
    sizes = zip(want.shape, want.stride(), got.stride(), strict=True)
    return any(left != right for size, left, right in sizes if size > 1)


def _some(tensor: torch.Tensor) -> str:
    return str(tensor.detach().to_dense().flatten()[:4].tolist()) if not tensor.is_sparse else "sparse"


def accuracy(function: Any, args: Any, kwargs: Any, want: Any, got: Any) -> str | None:
    """Whether the error against float64 is more than twice eager's, with two units in the last place to spare."""

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.dtype in (torch.float32, torch.bfloat16, torch.float16):
            return value.double()
        return torch.float64 if value in (torch.float32, torch.bfloat16, torch.float16) else value

    exact = run(function, *pytree.tree_map(widen, (args, kwargs)))
    if isinstance(exact, Exception) or isinstance(want, Exception):
        return None
    for true, eager, ours in zip(*(pytree.tree_leaves(tree) for tree in (exact, want, got)), strict=False):
        if not (isinstance(eager, torch.Tensor) and eager.is_floating_point() and eager.numel()):
            continue
        if not (isinstance(true, torch.Tensor) and true.dtype is torch.float64 and true.shape == eager.shape):
            continue
        if eager.layout is not torch.strided or eager.is_meta:
            continue
        error, ours_error = ((true - part.double()).abs().nan_to_num(0, 0, 0).max().item() for part in (eager, ours))
        size = true.abs().nan_to_num(0, 0, 0).max().item()
        if ours_error > 2 * error + 2 * torch.finfo(eager.dtype).eps * size:
            return f"error {ours_error:.3g}, eager {error:.3g}, at values up to {size:.3g}"
    return None
