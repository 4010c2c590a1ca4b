"""Values of kernels in LLVM IR: how dtypes, constants and operands are spelled."""

from __future__ import annotations

import ctypes
import struct

import torch

from ...functional.graph import Unsupported
from ...records import dataclass

TYPES: dict[torch.dtype, str] = {
    torch.float64: "double", torch.float32: "float", torch.float16: "half", torch.bfloat16: "i16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint64: "i64", torch.uint32: "i32", torch.uint16: "i16", torch.uint8: "i8", torch.bool: "i1",
}
"""How values are held in registers. A bfloat16 is its bits: conversions are written out, nothing else is done to it."""


def element_type(dtype: torch.dtype) -> str:
    """How values of a dtype are held."""
    try:
        return TYPES[dtype]
    except KeyError:
        raise Unsupported(f"values of {dtype}") from None


def memory_type(dtype: torch.dtype) -> str:
    """How elements of a dtype lie in memory."""
    return "i8" if dtype is torch.bool else element_type(dtype)


def vector_type(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def type_of(dtype: torch.dtype, lanes: int) -> str:
    return vector_type(element_type(dtype), lanes)


def mangled(dtype: torch.dtype, lanes: int, memory: bool = False) -> str:
    """The type's part of an intrinsic's name."""
    element = memory_type(dtype) if memory else element_type(dtype)
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    return short if lanes == 1 else f"v{lanes}{short}"


def literal(value: bool | int | float, dtype: torch.dtype) -> str:
    """A constant as LLVM spells it: floats by their bits."""
    if dtype is torch.bool:
        return "true" if value else "false"
    if dtype.is_floating_point:
        number = float(value)
        if dtype is torch.float64:
            return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        if dtype is torch.float32:
            # LLVM writes a float as the double of the same value.
            return f"0x{struct.unpack('<Q', struct.pack('<d', ctypes.c_float(number).value))[0]:016X}"
        bits = int(torch.tensor(number, dtype=torch.float64).to(dtype).view(torch.int16))
        return f"0xH{bits & 0xFFFF:04X}" if dtype is torch.float16 else str(bits)
    return str(int(value))


def constant(value: bool | int | float, dtype: torch.dtype, lanes: int) -> str:
    """A constant in every lane."""
    text = literal(value, dtype)
    return text if lanes == 1 else f"splat ({element_type(dtype)} {text})"


@dataclass(slots=True)
class Operand:
    """A value in a register or a constant, and the scope that it belongs to."""

    text: str
    dtype: torch.dtype
    lanes: int
    scope: int = 0
    single: Operand | None = None
    """Of a bfloat16: the same number as a float32, where there is one."""
    rounded: bool = False
    """Of a float32: whether rounding to bfloat16 is known to leave its bits as they are."""
    short_nan: bool = False
    """Of a float32: whether the lower half of its bits is known to be zero if it is a NaN."""

    @property
    def type(self) -> str:
        return type_of(self.dtype, self.lanes)

    @property
    def typed(self) -> str:
        return f"{self.type} {self.text}"

    @property
    def is_constant(self) -> bool:
        return self.text[0] != "%"
