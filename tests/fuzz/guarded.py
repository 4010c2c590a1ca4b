"""Tensors whose memory ends, or begins, at a page that must not be touched: one access too far is a crash.

    with guarded("end"):
        x = torch.randn(3, 5)      # x[2, 4] is the last thing before a page without access

What is made inside of the block lies in such memory, views of it share it. Only the tensors of a program can be placed
so: torch's own allocator, which makes results, cannot be replaced from Python.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

PAGE = mmap.PAGESIZE
NO_ACCESS = 0

_protect = ctypes.CDLL(None, use_errno=True).mprotect
_protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded_copy(t: torch.Tensor, side: str) -> torch.Tensor:
    """A tensor with the values and strides of another, its first element behind ("begin") or its last element in
    front of ("end") a page without access."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    length = elements * t.element_size()
    pages = -(-length // PAGE) * PAGE
    memory = mmap.mmap(-1, pages + PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    wall, offset = (start, PAGE) if side == "begin" else (start + pages, pages - length)
    if _protect(wall, PAGE, NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
    flat = torch.frombuffer(memory, dtype=t.dtype, count=elements, offset=offset)
    # A storage that begins with the tensor: its offset is what the plain program's is.
    return flat.as_strided(t.shape, t.stride(), 0).copy_(t)


class _Placing(TorchDispatchMode):
    """Moves what operators make anew."""

    def __init__(self, side: str) -> None:
        super().__init__()
        self.side = side

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch wraps the method in something that imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        # A tensor made of Python numbers comes through this operator, which returns it as it is.
        lifted = func is torch.ops.aten.lift_fresh.default
        given = () if lifted else pytree.tree_leaves((args, kwargs))
        known = {one.untyped_storage().data_ptr() for one in given if type(one) in _WITH_MEMORY}

        def place(value: Any) -> Any:
            if not _is_plain(value) or value.untyped_storage().data_ptr() in known or not value.numel():
                return value
            if not value.untyped_storage().resizable():
                return value  # the memory of a NumPy array, which stays the array's
            whole = value.untyped_storage().nbytes() == value.numel() * value.element_size()
            return guarded_copy(value, self.side) if whole and not value.storage_offset() else value

        return pytree.tree_map(place, result)


_WITH_MEMORY = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})


def _is_plain(value: Any) -> bool:
    return type(value) is torch.Tensor and value.layout is torch.strided and value.device.type == "cpu"


@contextmanager
def guarded(side: str) -> Iterator[None]:
    """Place new tensors next to pages without access: `side` is "begin" or "end"."""
    with _Placing(side):
        yield
