"""Which dtypes torch computes with: an operation is tried once on small tensors before the graph gets it.

torch stores unsigned integers of 16 bits and more, and complex numbers, in more places than it computes with them, and
fake execution does not tell. What only the dtype keeps from running is left to NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ... import torch_compat
from ...shapes.symnode import hint_of
from ..signals import GraphBreak
from ..undecidable import SYMBOLIC

# dtypes that all operations of the table compute with, and those that stand in for others
KNOWN = frozenset({torch.float32, torch.float64, torch.int64, torch.int32})
MOST_ELEMENTS = 64
"""Larger tensors are tried with at most two elements in each dimension."""

_refused: dict[Any, str] = {}
MOST_MEMORY = 4096
"""Elements between the first and the last of a tensor that is tried with its own strides."""
MOST_KNOWN = 4096
"""Signatures that are remembered."""


def check_kernel(target: Any, args: Any, kwargs: dict[str, Any], fake_of: Callable[[Any], Any]) -> None:
    """Break where torch has no kernel of an operation for the dtypes of its tensors.

    `fake_of` gives the fake tensor of an argument that is a tensor of the graph, and None of others.
    """
    signature: list[Any] = []
    dtypes = _dtypes((args, kwargs), fake_of, signature)
    if dtypes <= KNOWN:
        return
    key = (target, *signature)
    try:
        refused = _refused.get(key)
    except TypeError:  # a target that cannot be hashed
        return
    if refused is None:
        if len(_refused) >= MOST_KNOWN:
            _refused.clear()
        refused = _refused[key] = _error_of(target, args, kwargs, fake_of)
    if refused:
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        raise GraphBreak(f"torch has no {name} for these dtypes ({refused})", "convert the array with astype")


def _dtypes(obj: Any, fake_of: Callable[[Any], Any], signature: list[Any]) -> set[torch.dtype]:
    """All dtypes in arguments; the signature gets what the choice of a kernel depends on."""
    if isinstance(obj, torch.dtype):
        signature.append(obj)
        return {obj}
    if isinstance(obj, (tuple, list)):
        return set().union(*(_dtypes(item, fake_of, signature) for item in obj))
    if isinstance(obj, dict):
        return set().union(*(_dtypes(item, fake_of, signature) for item in obj.values()))
    fake = fake_of(obj)
    if fake is None:
        signature.append((type(obj), obj if isinstance(obj, (int, str)) else None))
        return set()
    signature.append((fake.dtype, fake.device.type, tuple(_hints(fake.shape)), tuple(_hints(fake.stride()))))
    return {fake.dtype}


def _hints(numbers: Any) -> list[int]:
    """Sizes or strides of the call that is captured; 1, which can be broadcast, where data decides."""
    hints = [hint_of(number) for number in numbers]
    return [1 if hint is None else int(hint) for hint in hints]


def _sample(fake: Any, dtype: torch.dtype) -> torch.Tensor:
    """A tensor with the shape and strides of a fake one, or smaller: masks choose all elements, indices the first."""
    sizes, strides = _hints(fake.shape), _hints(fake.stride())
    if torch.Size(sizes).numel() > MOST_ELEMENTS:
        sizes = [min(size, 2) for size in sizes]
        strides = [4 ** sorted(strides).index(stride) if stride else 0 for stride in strides]
    count = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
    if count > MOST_MEMORY:
        count, strides = torch.Size(sizes).numel(), list(torch.empty(sizes, device="meta").stride())
    if fake.dtype is torch.bool:
        memory = torch.ones(count, dtype=dtype)
    elif fake.dtype in KNOWN:
        memory = torch.zeros(count, dtype=dtype)
    else:  # some kernels are chosen by how many different elements there are
        memory = (torch.arange(count) % 100).to(dtype)
    return memory.to(fake.device).as_strided(sizes, strides)


def _error_of(target: Any, args: Any, kwargs: dict[str, Any], fake_of: Callable[[Any], Any]) -> str:
    """The error of an operation that other dtypes do not have; empty where it runs, or never does on small tensors."""
    of_truths_only = _dtypes((args, kwargs), fake_of, []) <= {torch.bool, *KNOWN}

    def attempt(plain: bool) -> str:
        def real(obj: Any) -> Any:
            if isinstance(obj, torch.dtype):
                return _plain(obj) if plain else obj
            if isinstance(obj, (tuple, list)):
                return type(obj)(map(real, obj))
            if isinstance(obj, dict):
                return {name: real(item) for name, item in obj.items()}
            if isinstance(obj, SYMBOLIC):
                return hint_of(obj)
            fake = fake_of(obj)
            if fake is None:
                return obj
            kind = _plain(fake.dtype) if plain and (of_truths_only or fake.dtype is not torch.bool) else fake.dtype
            return _sample(fake, kind)

        try:
            positional, named = real(tuple(args)), real(kwargs)
            if isinstance(target, str):
                getattr(positional[0], target)(*positional[1:], **named)
            else:
                target(*positional, **named)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]
        return ""

    with torch_compat.without_modes(), torch.no_grad():
        error = attempt(plain=False)
        return error if error and not attempt(plain=True) else ""


def _plain(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype.is_floating_point or dtype.is_complex else torch.int64
