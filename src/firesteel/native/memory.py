"""The checker's rows for which objects differ and which tensors share memory.

Many objects are compared through a set: a table of slots at a fixed address, which the rows of one guard fill one after
the other. A slot belongs to the set only if it carries the set's present number, so emptying it is counting up.

    set     number, mask of slots; then per slot an address and the number with which it was written
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy
import torch

from .program import Op, Program

if TYPE_CHECKING:
    from .machine import TensorLayout

SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)
"""An odd number whose multiples differ in their high bits."""
HEAD, SLOT = 16, 16
ALLOCATED = 2
"""In the last operand of a row: the storage has to be one that torch has allocated."""


def new_set(program: Program, members: int) -> int:
    """The address of a set with room for so many members, a quarter of its slots at most."""
    slots = 8
    while slots < 4 * members:
        slots *= 2
    words = (ctypes.c_uint64 * ((HEAD + SLOT * slots) // 8))()
    words[1] = slots - 1
    program.keep(words)
    return ctypes.addressof(words)


def all_different(program: Program, registers: list[int]) -> None:
    """Check that these registers hold different objects."""
    if len(registers) < 4:
        for position, left in enumerate(registers):
            for right in registers[position + 1:]:
                program.check(Op.NOT_SAME, left, other=right)
        return
    address = new_set(program, len(registers))
    for position, register in enumerate(registers):
        program.check(Op.NEW_OBJECT, register, address, int(position == 0))


def share_no_memory(program: Program, written: list[int], others: list[int], allocated: list[int]) -> None:
    """Check that each of the first tensors has a storage of its own, which none of the others has, and that torch has
    allocated those of the last: one that it has not may lie in the memory of another."""
    address = new_set(program, len(written))
    for position, register in enumerate(written):
        program.check(Op.NEW_STORAGE, register, address, int(position == 0) + ALLOCATED * (register in allocated))
    for register in others:
        program.check(Op.OTHER_STORAGE, register, address, ALLOCATED * (register in allocated))


def blocks(tensors: TensorLayout | None, field: Callable[..., str]) -> dict[Op, str]:
    """The LLVM IR of each row, to stand in the checker; ``%v``, ``%slot``, ``%a`` and ``%b`` are its operands."""

    def storage(name: str, register: str) -> str:
        """``%name``: the address of the storage of a tensor that a row before has checked."""
        assert tensors is not None and tensors.storage is not None
        return (field(f"{name}_impl", register, tensors.implementation, "ptr")
                + field(name, f"%{name}_impl", tensors.storage))

    def look(op: Op, known: str, insert: bool) -> str:
        """Look for ``%known`` in the set at ``%a``: refuse if it is there, and put it there."""
        n = op.name
        count = (f"  %{n}_first = and i64 %b, 1\n  %{n}_count = add i64 %{n}_before, %{n}_first\n"
                 f"  store i64 %{n}_count, ptr %a, align 8\n" if insert
                 else f"  %{n}_count = add i64 %{n}_before, 0\n")
        put = (f"  store i64 %{known}, ptr %{n}_at, align 8\n  store i64 %{n}_count, ptr %{n}_number_at, align 8\n"
               if insert else "")
        return (field(f"{n}_before", "%a", 0) + count + field(f"{n}_mask", "%a", 8)
                + f"  %{n}_slots = getelementptr i8, ptr %a, i64 {HEAD}\n"
                f"  %{n}_spread = mul i64 %{known}, {SPREAD}\n  %{n}_start = lshr i64 %{n}_spread, 32\n"
                f"  br label %{n}_loop\n{n}_loop:\n"
                f"  %{n}_i = phi i64 [%{n}_start, %{n}_begin], [%{n}_i_next, %{n}_other]\n"
                f"  %{n}_place = and i64 %{n}_i, %{n}_mask\n  %{n}_offset = mul i64 %{n}_place, {SLOT}\n"
                f"  %{n}_at = getelementptr i8, ptr %{n}_slots, i64 %{n}_offset\n"
                + field(f"{n}_number", f"%{n}_at", 8)
                + f"  %{n}_taken = icmp eq i64 %{n}_number, %{n}_count\n"
                f"  br i1 %{n}_taken, label %{n}_compare, label %{n}_free\n{n}_compare:\n"
                + field(f"{n}_member", f"%{n}_at", 0)
                + f"  %{n}_found = icmp eq i64 %{n}_member, %{known}\n"
                f"  br i1 %{n}_found, label %none, label %{n}_other\n"
                f"{n}_other:\n  %{n}_i_next = add i64 %{n}_i, 1\n  br label %{n}_loop\n"
                f"{n}_free:\n{put}  br label %next\n")

    def allocated(op: Op, known: str) -> str:
        """Refuse the storage ``%known`` if torch has to have allocated it and has not."""
        assert tensors is not None
        if tensors.resizable is None:
            return ""
        n = op.name
        return (f"  %{n}_flag_at = add i64 %{known}, {tensors.resizable}\n"
                f"  %{n}_flag_ptr = inttoptr i64 %{n}_flag_at to ptr\n"
                f"  %{n}_flag_byte = load i8, ptr %{n}_flag_ptr, align 1\n"
                f"  %{n}_flag = zext i8 %{n}_flag_byte to i64\n  %{n}_needed = lshr i64 %b, 1\n"
                f"  %{n}_foreign = icmp ult i64 %{n}_flag, %{n}_needed\n"
                f"  br i1 %{n}_foreign, label %none, label %{n}_begin\n{n}_begin:\n")

    def begin(op: Op) -> str:
        return f"  br label %{op.name}_begin\n{op.name}_begin:\n"

    different = begin(Op.NEW_OBJECT) + "  %object = ptrtoint ptr %v to i64\n" + look(Op.NEW_OBJECT, "object", True)
    if tensors is None or tensors.storage is None:
        unknown = "  br label %none\n"
        return {Op.NEW_OBJECT: different, Op.SAME_STORAGE: unknown, Op.NEW_STORAGE: unknown, Op.OTHER_STORAGE: unknown}
    return {
        Op.NEW_OBJECT: different,
        Op.SAME_STORAGE: (
            "  %stored_with = load ptr, ptr %slot, align 8\n" + storage("this_storage", "%v")
            + storage("that_storage", "%stored_with") + "  %storage_same = icmp eq i64 %this_storage, %that_storage\n"
            "  br i1 %storage_same, label %next, label %none\n"),
        Op.NEW_STORAGE: (storage("new_storage", "%v")
                         + (allocated(Op.NEW_STORAGE, "new_storage") or begin(Op.NEW_STORAGE))
                         + look(Op.NEW_STORAGE, "new_storage", True)),
        Op.OTHER_STORAGE: (storage("other_storage", "%v")
                           + (allocated(Op.OTHER_STORAGE, "other_storage") or begin(Op.OTHER_STORAGE))
                           + look(Op.OTHER_STORAGE, "other_storage", False)),
    }


def samples(tensors: TensorLayout | None) -> list[tuple[Callable[[Program], Any], list[Any], list[Any]]]:
    """Programs, with values that they accept and values that they refuse."""
    objects = [object() for _ in range(40)]

    def different(p: Program) -> None:
        all_different(p, [0, *(p.load(Op.CONSTANT, a=p.keep(obj)) for obj in objects)])

    found: list[tuple[Callable[[Program], Any], list[Any], list[Any]]] = [
        (different, [1, "x", different, 2], [objects[0], objects[20], objects[-1]])]
    if tensors is None or tensors.storage is None:
        return found
    known = [torch.ones(3) for _ in range(20)]

    def constants(p: Program) -> list[int]:
        return [p.load(Op.CONSTANT, a=p.keep(t)) for t in known]

    def written(p: Program) -> None:
        share_no_memory(p, [0, *constants(p)], [], [])

    def read(p: Program) -> None:
        share_no_memory(p, constants(p)[:10], [0, p.registers - 1, 0], [])

    def written_allocated(p: Program) -> None:
        share_no_memory(p, [0, *constants(p)], [], [0])

    def read_allocated(p: Program) -> None:
        share_no_memory(p, constants(p), [0], [0])

    def same(p: Program) -> None:
        p.check(Op.SAME_STORAGE, 0, other=p.load(Op.CONSTANT, a=p.keep(known[0])))

    apart = [torch.ones(3), torch.ones(2, 2).t(), torch.nn.Parameter(torch.ones(1))]
    foreign = [torch.from_numpy(numpy.ones(3)), torch.frombuffer(bytearray(8), dtype=torch.int32)]
    if tensors.resizable is not None:
        found += [(check, apart, foreign) for check in (written_allocated, read_allocated)]
    return [*found, (written, [*apart, *foreign], [known[0], known[-1][1:], known[5].view(3, 1)]),
            (read, [*apart, known[15]], [known[0], known[9][1:]]),
            (same, [known[0], known[0][1:].detach()], [known[1], torch.ones(3)])]
