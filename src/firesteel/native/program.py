"""The table that the native checker walks: one fixed-size row per check or load, and what it hands back.

    header     number of arguments, registers, inputs and others; offset of the list of outputs
    rows       op, destination register, source register, index, operand a, operand b
    outputs    registers: first the graph's inputs, then what the entry needs besides; ~r for a number in register r
    tensors    descriptions of tensors that rows refer to by offset

Registers start with the entry's arguments. A register holds the address of a Python object or a 64-bit number; which of
the two follows from the row that fills it. Rows hold addresses of Python objects; the program keeps those alive.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import field
from typing import Any

from ..records import dataclass

HEADER = struct.Struct("=qqqqq24x")
ROW = struct.Struct("=iiiiqq")
TENSOR = struct.Struct("=QQqiiiiQ")
MAX_REGISTERS = 8192
"""Registers live on the C stack: 64 KiB at most."""
ANY = -(1 << 63)
"""Stands in a tensor's description for a size or stride that may be anything."""


class Op(enum.IntEnum):
    """What a row does. Loads write the destination register; everything else is a check."""

    END = 0
    CONSTANT = 1  # destination = a
    INSTANCE_DICT = 2  # destination = the dictionary of the instance
    ITEM = 3  # destination = source[a], b is the hash of the string a
    MISSING = 4  # a not in source
    ITEM_EMPTY = 5  # source[a] is a dictionary without entries
    TYPE = 6  # type(source) is a
    IS = 7  # source is a
    SAME = 8  # source is the object in the destination register
    INT = 9  # type(source) is int and source == b; a is that int
    STR = 10  # type(source) is str and source == a
    FLOAT = 11  # type(source) is float with the bits b
    LENGTH = 12  # type(source) is a and len(source) == b
    ELEMENT = 13  # destination = source[index] of an exact a; b is the address of PyTuple_GetItem or PyList_GetItem
    KEYS = 14  # list(source) == list(a), a tuple of b strings
    CODE = 15  # a function whose code is a
    TENSOR = 16  # the tensor described at offset a
    CELL = 17  # destination = source.cell_contents
    FUNCTION_PART = 18  # destination = what the C function at address b returns for the function source
    WEAK_TYPE = 19  # type(source) is what the weak reference a leads to
    WEAK_IS = 20  # source is what the weak reference a leads to
    NOT_SAME = 21  # source is not the object in the destination register
    CALL_IS = 22  # the C function at address b, called with the receiver in the source register, returns a
    CLASS_FUNCTION = 23  # destination = the function that the class source or a base of it defines under the name a
    FIELD_IS = 24  # the object at offset index of source is a
    # Numbers. What does not fit in 64 bits, or divides by zero, is refused; "other" is the register numbered index.
    INTEGER = 25  # destination = the value of source, an exact int
    SIZE = 26  # destination = the size of source, a tensor that a row before has checked, in dimension index
    STRIDE = 27  # destination = the stride of source, a tensor that a row before has checked, in dimension index
    SCALE = 28  # destination = source * a + b
    ADD_SCALED = 29  # destination = other + source * a
    MULTIPLY = 30  # destination = source * other
    FLOORDIV = 31  # destination = source // other
    MOD = 32  # destination = source % other
    MIN = 33  # destination = min(source, other)
    MAX = 34  # destination = max(source, other)
    IS_EQUAL = 35  # destination = source == b, as 0 or 1
    IS_AT_LEAST = 36  # destination = source >= b, as 0 or 1
    CHOOSE = 37  # destination = other if source else the register numbered b
    EQUAL = 38  # source == b
    DIFFERENT = 39  # source != b
    AT_LEAST = 40  # source >= b
    SAME_TAG = 41  # the 32-bit numbers at the addresses a and b are equal
    # Sets of addresses, see `memory`: b = 1 empties the set at the address a first. Tensors have been checked before.
    NEW_OBJECT = 42  # source is not in the set, and joins it
    SAME_STORAGE = 43  # source, a tensor, has the storage of the one in the destination register
    NEW_STORAGE = 44  # the storage of source is not in the set, and joins it
    OTHER_STORAGE = 45  # the storage of source is not in the set
    ANSWER_IS = 46  # what the C function at address b returns for the number a is the low half of index, under the mask
    # in the high half


NUMBERS = frozenset(range(Op.INTEGER, Op.EQUAL))
"""The loads that fill their destination with a number."""


@dataclass(frozen=True)
class TensorFacts:
    """What a tensor must be. A size or stride that is None may be anything."""

    kind: type
    dispatch_keys: int
    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    dtype: int  # these three as torch's C interface numbers them
    device_type: int
    device_index: int
    requires_grad: bool
    is_leaf: bool | None

    def packed(self) -> bytes:
        """The description as bytes, as the checker reads it."""
        leaf = 0 if self.is_leaf is None else id(self.is_leaf)
        head = TENSOR.pack(id(self.kind), self.dispatch_keys, len(self.shape), self.dtype, self.device_type,
                           self.device_index, self.requires_grad, leaf)
        extents = [ANY if extent is None else extent for extent in (*self.shape, *self.strides)]
        return head + struct.pack(f"={len(extents)}q", *extents)


@dataclass
class Program:
    """A table under construction."""

    arguments: int
    rows: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    registers: int = 0
    kept: dict[int, Any] = field(default_factory=dict)
    tensors: dict[TensorFacts, int] = field(default_factory=dict)
    _tensor_bytes: int = 0

    def __post_init__(self) -> None:
        self.registers = self.arguments

    def keep(self, obj: Any) -> int:
        """The address of an object that the program keeps alive."""
        self.kept[id(obj)] = obj
        return id(obj)

    def check(self, op: Op, source: int, a: int = 0, b: int = 0, other: int = 0, index: int = 0) -> None:
        """Add a row that checks something."""
        self.rows.append((op, other, source, index, a, b))

    def load(self, op: Op, source: int = 0, a: int = 0, b: int = 0, index: int = 0) -> int:
        """Add a load; returns the register that it fills."""
        register = self.registers
        self.registers += 1
        self.rows.append((op, register, source, index, a, b))
        return register

    def tensor(self, source: int, facts: TensorFacts) -> None:
        """Add the check of a tensor against its description."""
        offset = self.tensors.get(facts)
        if offset is None:
            offset = self.tensors[facts] = self._tensor_bytes
            self._tensor_bytes += TENSOR.size + 16 * len(facts.shape)
            self.keep(facts.kind)
        self.rows.append((Op.TENSOR, 0, source, 0, offset, 0))

    def assemble(self, inputs: list[int], others: list[int]) -> tuple[bytes, tuple[Any, ...]]:
        """The table as bytes, and the objects whose addresses it holds.

        The checker returns the tuple of `inputs`, or with `others` the tuple ``(inputs, *others)``.
        """
        rows = [*self.rows, (Op.END, 0, 0, 0, 0, 0)]
        numbers = {row[1] for row in rows if row[0] in NUMBERS}
        outputs = [~register if register in numbers else register for register in (*inputs, *others)]
        at_outputs = HEADER.size + ROW.size * len(rows)
        at_tensors = at_outputs + 8 * len(outputs)
        parts = [HEADER.pack(self.arguments, max(self.registers, 1), len(inputs), len(others), at_outputs)]
        for op, destination, source, index, a, b in rows:
            if op == Op.TENSOR:
                a += at_tensors
            parts.append(ROW.pack(op, destination, source, index, a, b))
        parts.append(struct.pack(f"={len(outputs)}q", *outputs))
        parts.extend(facts.packed() for facts in self.tensors)
        return b"".join(parts), tuple(self.kept.values())
