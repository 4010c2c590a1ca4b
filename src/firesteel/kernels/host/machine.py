"""The host machine: LLVM IR that walks the table of a native segment: allocates, launches kernels, returns tensors.

It is one fast-call builtin over CPython's C API and the functions that torch's libraries export for compiled models,
compiled once per process and kept on disk. A segment that fails raises RuntimeError and gives back all that it had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from ... import torch_compat
from ...errors import NUMBER_TOO_LARGE
from ...locks import new_lock
from ...native.builtins import builtin_maker
from ...native.objects import ITEMS, NativeUnavailable, c_function, check_layout
from ...native.program import ROW
from ...native.program import Op as Arithmetic
from ...native.templates import filled
from ...systems import process_library
from ...torch_compat import c_interface, native_calls
from .. import huge_pages
from . import launch_ranges
from .program import ARITHMETIC, HEADER, HostProgram, Op

PYTHON_FUNCTIONS = (
    "PyTuple_GetItem", "PyTuple_New", "PyBytes_AsString", "Py_IncRef", "Py_DecRef", "PyLong_AsLongLong",
    "PyFloat_AsDouble", "PyErr_Occurred", "PyErr_SetString", "PyEval_SaveThread", "PyEval_RestoreThread",
)
TORCH_FUNCTIONS = (
    "get_data_ptr", "get_sizes", "get_strides", "empty_strided", "_reinterpret_tensor", "delete_tensor_object",
)
MESSAGES = {
    "arguments": "firesteel: a native function was called with a wrong number of arguments",
    "number": NUMBER_TOO_LARGE,
    "torch": "firesteel: torch refused to describe or view a tensor",
    "memory": "firesteel: there is not enough memory",
    "launch": "firesteel: CUDA refused to run a kernel",
}


class HostMachine:
    """The compiled machine."""

    def __init__(self) -> None:
        check_layout()
        implementation = native_calls.implementation_offset()
        if implementation is None:
            raise NativeUnavailable("tensors of this torch are not laid out as expected")
        addresses = {name: c_function(name) for name in PYTHON_FUNCTIONS}
        for name in TORCH_FUNCTIONS:
            addresses[f"torch_{name}"] = _address(c_interface.c_function(name), name)
        addresses["wrap_tensor"] = _address(native_calls.tensor_wrapping_function(), "wrapping of tensors")
        libc = process_library()
        for name in ("posix_memalign", "free", "madvise"):
            addresses[name] = _address(getattr(libc, name, None), name)
        addresses["RuntimeError"] = id(RuntimeError)
        addresses["launch_watch"] = launch_ranges.watch_address()
        # The first call waits for this: optimised code takes 15 ms longer to make and saves 0.03 us of a call.
        self._new = builtin_maker("firesteel_host", source(implementation), optimised=False, kind="host_machine",
                                  symbols={f"firesteel_{name}": address for name, address in addresses.items()})

    def function(self, table: tuple[bytes, tuple[Any, ...]]) -> Callable[..., Any]:
        """The builtin that runs a finished program."""
        return self._new(table)


_machine: HostMachine | NativeUnavailable | None = None
_lock = new_lock()


def machine() -> HostMachine:
    """The machine of this process, made on first use. Raises NativeUnavailable where there can be none."""
    global _machine
    if _machine is None:
        with _lock:
            if _machine is None:
                try:
                    with torch_compat.without_modes():
                        new = HostMachine()
                        self_test(new)
                    _machine = new
                except NativeUnavailable as error:
                    _machine = error
    if isinstance(_machine, NativeUnavailable):
        raise _machine
    return _machine


def _address(function: Any, name: str) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value if function is not None else None
    if address is None:
        raise NativeUnavailable(f"not exported: {name}")
    return address


# The machine's code


def source(implementation: int) -> str:
    """The machine as LLVM IR. ``implementation`` is the offset of a tensor's C++ part in its Python object."""
    rows = [*Op, Arithmetic.CONSTANT, *sorted(ARITHMETIC)]
    return filled("kernels/host/machine.ll", {
        "IMPLEMENTATION": implementation, "HEADER": HEADER.size, "ROW": ROW.size, "ITEMS": ITEMS, **huge_pages.VALUES,
        "CASES": "\n".join(["    i32 0, label %success", *(f"    i32 {op.value}, label %op_{op.name}" for op in rows)]),
        "ARITHMETIC": filled("native/arithmetic.ll", {}),
        "MESSAGES": "\n".join(f'@message_{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"'
                              for name, text in MESSAGES.items()),
    })


# Trying it out


def self_test(host: HostMachine) -> None:
    """Make, view and read a tensor, and see that it goes away again."""
    import weakref

    program = HostProgram(1)
    tensor, _ = program.empty([2, 3], [3, 1], native_calls.dtype_number(torch.float32), None)
    view = program.view(0, [3], [2], 1, None)
    run = host.function(program.finish([tensor, view], True))
    base = torch.arange(6.0)
    fresh, seen = run(base)
    fits = type(fresh) is torch.Tensor and fresh.shape == (2, 3) and fresh.stride() == (3, 1) \
        and fresh.dtype is torch.float32 and fresh.device == base.device and seen.tolist() == [1.0, 3.0, 5.0]
    dead = weakref.ref(fresh)
    del fresh
    if not fits or dead() is not None:
        raise NativeUnavailable("the self-test failed")
