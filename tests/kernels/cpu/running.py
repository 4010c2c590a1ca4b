"""Hand-written kernels on real tensors, for the tests of the CPU printer."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from firesteel import shapes
from firesteel.kernels import ir
from firesteel.kernels.cpu.engine import CompiledKernel, compile_kernels
from firesteel.shapes import Expr, Symbol

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def axis(name: str, size: int | Expr) -> ir.Axis:
    return ir.Axis(shapes.symbol(name), shapes.as_expr(size))


def buffer(name: str, tensor: torch.Tensor, kind: str = "input") -> ir.Buffer:
    return ir.Buffer(name, tensor.dtype, tuple(map(shapes.as_expr, tensor.shape)),
                     tuple(map(shapes.as_expr, tensor.stride())), kind)


def kernel(body: list[ir.Statement], tensors: dict[str, torch.Tensor], writes: Sequence[str],
           sizes: Sequence[Symbol] = (), scratch: Sequence[ir.Scratch] = (),
           numbers: Sequence[Symbol] = ()) -> ir.Kernel:
    return ir.Kernel("k", [buffer(name, tensor) for name, tensor in tensors.items()], list(sizes), body, list(scratch),
                     frozenset(writes), numbers=list(numbers))


def launcher(compiled: CompiledKernel, tensors: Sequence[torch.Tensor], sizes: Sequence[int] = (),
             numbers: Sequence[float] = ()):
    """A function without arguments that runs the kernel on these tensors."""
    pointers = (ctypes.c_void_p * max(len(tensors), 1))(*[tensor.data_ptr() for tensor in tensors])
    size_array = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
    number_array = (ctypes.c_double * max(len(numbers), 1))(*numbers)
    function = CALL(compiled.address)
    keep = (pointers, size_array, number_array, compiled, tensors)
    addresses = [ctypes.addressof(array) for array in keep[:3]]
    return lambda keep=keep: function(*addresses)


def run(body: list[ir.Statement], tensors: dict[str, torch.Tensor], writes: Sequence[str],
        sizes: dict[Symbol, int] | None = None, scratch: Sequence[ir.Scratch] = (),
        numbers: dict[Symbol, float] | None = None, target=None) -> None:
    """Compile a kernel and run it once."""
    sizes, numbers = sizes or {}, numbers or {}
    made = kernel(body, tensors, writes, list(sizes), scratch, list(numbers))
    [compiled] = compile_kernels([made], target)
    launcher(compiled, list(tensors.values()), list(sizes.values()), list(numbers.values()))()
