"""Kernels without a compiler: Python functions behind the calling convention of compiled kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import torch

from firesteel.kernels import ir
from firesteel.shapes import as_expr

PROTOTYPE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
CTYPES = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double, torch.int64: ctypes.c_int64}


def buffer(name: str, *shape, dtype=torch.float32, strides=None, kind="temporary") -> ir.Buffer:
    sizes = tuple(as_expr(size) for size in shape)
    if strides is None:
        steps, step = [], as_expr(1)
        for size in reversed(sizes):
            steps.insert(0, step)
            step = step * size
        strides = steps
    return ir.Buffer(name, dtype, sizes, tuple(as_expr(stride) for stride in strides), kind)


class Stubs:
    """Makes kernels and remembers their addresses."""

    def __init__(self) -> None:
        self.addresses: dict[int, int] = {}
        self.calls: list[str] = []
        self._kept: list[object] = []

    def kernel(self, name: str, buffers: list[ir.Buffer], body: Callable, sizes=(), numbers=()) -> ir.Kernel:
        """A kernel that calls ``body`` with flat arrays for the buffers, then sizes and numbers."""
        kernel = ir.Kernel(name, buffers, list(sizes), [], numbers=list(numbers))

        def run(pointers, size_array, number_array):
            self.calls.append(name)
            addresses = (ctypes.c_void_p * len(buffers)).from_address(pointers)
            arrays = [ctypes.cast(address, ctypes.POINTER(CTYPES[b.dtype]))
                      for b, address in zip(buffers, addresses, strict=True)]
            ints = list((ctypes.c_int64 * len(sizes)).from_address(size_array)) if sizes else []
            floats = list((ctypes.c_double * len(numbers)).from_address(number_array)) if numbers else []
            body(*arrays, *ints, *floats)

        made = PROTOTYPE(run)
        self._kept += [made, kernel]
        self.addresses[id(kernel)] = ctypes.cast(made, ctypes.c_void_p).value
        return kernel
