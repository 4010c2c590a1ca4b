"""Writing LLVM IR as text: modules, functions, blocks and operands.

Text rather than llvmlite's builder, which is slower and knows little of what LLVM has learned since. Blocks keep their
terminator apart from their lines, so that code can be added to a block after control has left it: that is how what does
not change in a loop is put in front of it.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import field

import torch

from ...records import dataclass

TYPES: dict[torch.dtype, str] = {
    torch.float64: "double", torch.float32: "float", torch.float16: "half", torch.bfloat16: "i16",
    torch.int64: "i64", torch.int32: "i32", torch.int16: "i16", torch.int8: "i8",
    torch.uint64: "i64", torch.uint32: "i32", torch.uint16: "i16", torch.uint8: "i8", torch.bool: "i1",
}
"""How values are held in registers. A bfloat16 is its bits: conversions are written out, nothing else is done to it."""


class Unsupported(Exception):
    """A kernel that this printer cannot print."""


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


@dataclass(slots=True)
class Block:
    """A basic block."""

    name: str
    lines: list[str] = field(default_factory=list)
    terminator: str = ""


class Function:
    """A function being written."""

    def __init__(self, signature: str, attributes: str) -> None:
        self.signature = signature
        self.attributes = attributes
        self.blocks: list[Block] = []
        self.allocas: list[str] = []
        self.unknown = ""
        self._count = 0
        self.entry = self.block("entry")

    def temporary(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def block(self, hint: str) -> Block:
        self._count += 1
        made = Block(f"{hint}{self._count}")
        self.blocks.append(made)
        return made

    def alloca(self, type_: str, count: str = "", align: int = 0) -> str:
        """Memory for the time of the call. One that only holds a value becomes a register again."""
        name = self.temporary()
        self.allocas.append(f"{name} = alloca {type_}{count}{f', align {align}' if align else ''}")
        return name

    def unknown_true(self) -> str:
        """A bit that is set, though LLVM cannot know that."""
        if not self.unknown:
            number, self.unknown = self.temporary(), self.temporary()
            self.allocas.append(f'{number} = call i32 asm "", "=r,0"(i32 1)')
            self.allocas.append(f"{self.unknown} = trunc i32 {number} to i1")
        return self.unknown

    def __str__(self) -> str:
        parts = [f"define {self.signature} {self.attributes} {{"]
        for block in self.blocks:
            parts.append(f"{block.name}:")
            if block is self.entry:
                parts.extend(self.allocas)
            parts.extend(block.lines)
            parts.append(block.terminator)
        parts.append("}")
        return "\n".join(parts)


class Module:
    """The functions, declarations and constants that make up the code of a kernel."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self.helpers: dict[str, str] = {}
        self._declarations: dict[str, str] = {}
        self._constants: dict[str, str] = {}

    def declare(self, name: str, result: str, arguments: str, attributes: str = "") -> str:
        """The name of a function from outside, declared."""
        self._declarations[name] = f"declare {result} @{name}({arguments}){' ' + attributes if attributes else ''}"
        return name

    def helper(self, name: str, text: str) -> str:
        """The name of a function of our own that several kernels may bring along."""
        self.helpers[name] = text
        return name

    def constant(self, type_: str, value: str, align: int = 64) -> str:
        """The name of a constant in memory."""
        key = f"{type_} {value}"
        if key not in self._constants:
            self._constants[key] = f"@PREFIX.c{len(self._constants)}"
        return self._constants[key]

    def text(self, prefix: str) -> str:
        """The whole module. `PREFIX` in names of functions and constants becomes `prefix`."""
        constants = [f"{name} = private unnamed_addr constant {key}, align 64" for key, name in self._constants.items()]
        parts = [*constants, *self._declarations.values(), *self.helpers.values(), *map(str, self.functions)]
        return "\n".join(parts).replace("PREFIX", prefix) + "\n"
