"""The host's side of checked kernels (`config.check_bounds`): tells them where buffers end and raises what they note.

A checked kernel is given the storage of every buffer, a record, and the launch's number. What it notes in the record
is raised behind the segment that it ran in, before anything else looks at the results. Tensors that a segment makes or
views are looked at too: each has to lie inside of its storage.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from ...records import dataclass
from ...shapes import Expr, const, minimum
from ..cpu.bounds import OTHER
from ..ir import Buffer, Kernel

_record = (ctypes.c_int64 * 6)()
"""Whether something was noted; the launch, the buffer, the offset, the bytes accessed and the bytes that there are."""


@dataclass(frozen=True)
class _Launched:
    """What a launch is called in messages."""

    kernel: str
    names: tuple[str, ...]
    dtypes: tuple[torch.dtype, ...]


_launches: list[_Launched] = []


def record_address() -> int:
    """Where kernels note accesses outside of their buffers."""
    return ctypes.addressof(_record)


def launch_number(kernel: Kernel, buffers: tuple[str, ...] = ()) -> int:
    """A number by which a launch of a kernel with these buffers is known to `raise_if_outside`."""
    names = (*(buffers or [buffer.name for buffer in kernel.buffers]), *[scratch.name for scratch in kernel.scratch])
    dtypes = (*(buffer.dtype for buffer in kernel.buffers), *(scratch.dtype for scratch in kernel.scratch))
    _launches.append(_Launched(kernel.name, names, dtypes))
    return len(_launches) - 1


def start_of(t: torch.Tensor) -> int:
    """The address at which the storage of a tensor begins."""
    return t.data_ptr() - int(t.storage_offset()) * t.element_size()


def end_of(t: torch.Tensor) -> int:
    """The address behind the storage of a tensor."""
    return start_of(t) + t.untyped_storage().nbytes()


def bytes_of(buffer: Buffer, bytes_: Expr) -> Expr:
    """The memory of a new tensor, which from its first element to its last has so many bytes: none if it is empty."""
    for size in buffer.shape:
        bytes_ = bytes_ * minimum(size, 1)
    return bytes_ if buffer.shape else const(buffer.dtype.itemsize)


def raise_if_outside() -> None:
    """Raise what kernels have noted since the last call."""
    if not _record[0]:
        return
    _, launch, number, offset, size, room = _record
    _record[0] = 0
    launched = _launches[launch]
    number, is_store = number >> 1, number & 1
    does = "writes" if is_store else "reads"
    if number == OTHER:
        raise RuntimeError(f"firesteel kernel {launched.kernel} {does} {size} bytes at offset {offset} of a tile of "
                           f"{room} bytes")
    width = launched.dtypes[number].itemsize
    count = f"elements {offset // width} to {(offset + size - 1) // width}" if size > width \
        else f"element {offset // width}"
    raise RuntimeError(f"firesteel kernel {launched.kernel} {does} {count} of buffer {launched.names[number]} of "
                       f"{room // width}")


def check_tensor(t: torch.Tensor) -> None:
    """Raise for a tensor that does not lie inside of its storage."""
    first = last = t.storage_offset()
    if t.numel():
        for size, stride in zip(t.shape, t.stride(), strict=True):
            first += min(0, (size - 1) * stride)
            last += max(0, (size - 1) * stride)
        room = t.untyped_storage().nbytes() // t.element_size()
        if first < 0 or last >= room:
            raise RuntimeError(f"firesteel views elements {first} to {last} of a storage of {room}: sizes "
                               f"{tuple(t.shape)}, strides {t.stride()}, offset {t.storage_offset()}")


def watched(function: Callable[..., Any]) -> Callable[..., Any]:
    """A segment that raises what its kernels note and does not return tensors beyond their storage."""

    def run(*arguments: Any) -> Any:
        try:
            results = function(*arguments)
        finally:
            raise_if_outside()
        for result in results if isinstance(results, tuple) else (results,):
            if isinstance(result, torch.Tensor):
                check_tensor(result)
        return results

    return run


def checked_launcher(address: int, kernel: Kernel) -> Callable[..., None]:
    """A function of tensors, then sizes, then floats, that runs a checked kernel."""
    buffers, sizes, numbers = len(kernel.buffers), len(kernel.sizes), len(kernel.numbers)
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)
    words, integers, floats = ctypes.c_int64 * (3 * buffers + 2), ctypes.c_int64 * sizes, ctypes.c_double * numbers
    launch = launch_number(kernel)

    def run(*arguments: Any) -> None:
        tensors = arguments[:buffers]
        given = words(*[t.data_ptr() for t in tensors], *map(start_of, tensors), *map(end_of, tensors),
                      record_address(), launch)
        call(given, integers(*arguments[buffers: buffers + sizes]), floats(*arguments[buffers + sizes:]))
        raise_if_outside()

    return run
