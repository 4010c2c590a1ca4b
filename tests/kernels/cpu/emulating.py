"""Runs kernels that were compiled for aarch64 in an emulator (the package unicorn), on the memory of real tensors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import torch

CODE, OUTSIDE, END, DATA, STACK = 0x1000_0000, 0x1100_0000, 0x1200_0000, 0x4000_0000, 0x7000_0000
PAGE = 1 << 12  # a call reaches 128 MiB
RETURN = struct.pack("<I", 0xD65F03C0)  # ret
ONE_THREAD = struct.pack("<II", 0xAA0403E2, 0xD61F0060)  # mov x2, x4; br x3: torch_parallel_for, all in one piece
SECONDS = 20
# relocations of aarch64 that LLVM emits for small position-independent code
ABSOLUTE_64, RELATIVE_32, PAGE_OF, LOW_BITS, CALLS = 257, 261, 275, 277, (282, 283)
PAGE_OF_ENTRY, LOW_BITS_OF_ENTRY = 311, 312  # of the table of addresses
LOADS = {278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # low bits of an address, by the size of what is loaded


class LoadedCode:
    """An object file with its sections placed one after the other, and what it calls outside."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01" and struct.unpack_from("<H", data, 18)[0] == 183
        start, = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + size * number) for number in range(count)]
        self.memory = bytearray()
        self.outside: dict[str, int] = {}
        self.entries: dict[int, int] = {}
        places: dict[int, int] = {}
        for number, section in enumerate(sections):
            if section[2] & 2:
                self.memory.extend(bytes(-len(self.memory) % max(section[8], 16)))
                places[number] = len(self.memory)
                self.memory.extend(bytes(section[5]) if section[1] == 8 else data[section[4]: section[4] + section[5]])
        self.functions: dict[str, int] = {}
        table = next(section for section in sections if section[1] == 2)
        names = sections[table[6]]
        self.symbols: list[int] = []
        for number in range(table[5] // 24):
            name_at, info, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, table[4] + 24 * number)
            at = names[4] + name_at
            name = data[at: data.index(b"\0", at)].decode()
            if section in places:
                address = CODE + places[section] + value
                self.functions[name] = address
            elif name:
                address = self.outside.setdefault(name, OUTSIDE + 16 * len(self.outside))
            else:
                address = 0
            self.symbols.append(address)
        self.table = len(self.memory) + -len(self.memory) % 16
        for section in sections:
            if section[1] == 4 and section[7] in places:
                for number in range(section[5] // 24):
                    self.relocate(places[section[7]], *struct.unpack_from("<QQq", data, section[4] + 24 * number))
        self.memory.extend(bytes(self.table - len(self.memory)))
        for target in self.entries:
            self.memory.extend(struct.pack("<Q", target))

    def relocate(self, base: int, offset: int, info: int, addend: int) -> None:
        kind, target, at = info & 0xFFFFFFFF, self.symbols[info >> 32] + addend, base + offset
        if kind in (PAGE_OF_ENTRY, LOW_BITS_OF_ENTRY):
            target = CODE + self.table + 8 * self.entries.setdefault(target, len(self.entries))
        here = CODE + at
        if kind == ABSOLUTE_64:
            struct.pack_into("<Q", self.memory, at, target)
            return
        if kind == RELATIVE_32:
            struct.pack_into("<i", self.memory, at, target - here)
            return
        word, = struct.unpack_from("<I", self.memory, at)
        if kind in CALLS:
            word |= ((target - here) >> 2) & 0x3FFFFFF
        elif kind in (PAGE_OF, PAGE_OF_ENTRY):
            pages = (target >> 12) - (here >> 12)
            word |= (pages & 3) << 29 | ((pages >> 2) & 0x7FFFF) << 5
        elif kind == LOW_BITS:
            word |= (target & 0xFFF) << 10
        elif kind == LOW_BITS_OF_ENTRY:
            word |= ((target & 0xFFF) >> 3) << 10
        else:
            word |= ((target & 0xFFF) >> LOADS[kind]) << 10
        struct.pack_into("<I", self.memory, at, word)


def run(data: bytes, name: str, tensors: Sequence[torch.Tensor]) -> None:
    """Run the function of an object file on these tensors, which it changes."""
    from unicorn import UC_ARCH_ARM64, UC_HOOK_CODE, UC_MODE_ARM, Uc, arm64_const

    code = LoadedCode(data)
    machine = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
    machine.reg_write(arm64_const.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # floating point is allowed
    for start, size in (CODE, len(code.memory)), (STACK, 1 << 20), (OUTSIDE, PAGE), (END, PAGE):
        machine.mem_map(start, size + -size % PAGE)
    machine.mem_write(CODE, bytes(code.memory))
    pointers, at = [], DATA
    for tensor in tensors:
        size = tensor.untyped_storage().nbytes()
        machine.mem_map(at, max(size + -size % PAGE, PAGE))
        machine.mem_write(at, ctypes.string_at(tensor.untyped_storage().data_ptr(), size))
        pointers.append(at)
        at += size + -size % PAGE + PAGE  # a page without access in between
    machine.mem_map(at, PAGE)
    machine.mem_write(at, struct.pack(f"<{len(pointers)}Q", *pointers))
    names = {address: function for function, address in code.outside.items()}
    library = ctypes.CDLL("libm.so.6")

    def call(machine, address, size, data) -> None:
        function = names.get(address, "torch_parallel_for")
        if function == "torch_parallel_for":
            return
        real = getattr(library, function)
        count = 2 if function.rstrip("f") in ("pow", "fmod", "atan2", "hypot") else 1
        kind = ctypes.c_float if function.endswith("f") else ctypes.c_double
        real.argtypes, real.restype = [kind] * count, kind
        form = "<f" if kind is ctypes.c_float else "<d"
        read = [machine.reg_read(arm64_const.UC_ARM64_REG_D0 + number).to_bytes(8, "little") for number in range(count)]
        result = real(*[struct.unpack_from(form, value)[0] for value in read])
        machine.reg_write(arm64_const.UC_ARM64_REG_D0, int.from_bytes(struct.pack(form, result), "little"))

    for address, function in names.items():
        machine.mem_write(address, ONE_THREAD if function == "torch_parallel_for" else RETURN)
    if names:
        machine.hook_add(UC_HOOK_CODE, call, None, OUTSIDE, OUTSIDE + PAGE)
    machine.reg_write(arm64_const.UC_ARM64_REG_SP, STACK + (1 << 20) - 64)
    machine.reg_write(arm64_const.UC_ARM64_REG_LR, END)
    for number, value in enumerate((at, at, at)):
        machine.reg_write(arm64_const.UC_ARM64_REG_X0 + number, value)
    machine.emu_start(code.functions[name], END, timeout=SECONDS * 1_000_000)
    assert machine.reg_read(arm64_const.UC_ARM64_REG_PC) == END, "the function does not come back"
    for tensor, pointer in zip(tensors, pointers, strict=True):
        storage = tensor.untyped_storage()
        ctypes.memmove(storage.data_ptr(), bytes(machine.mem_read(pointer, storage.nbytes())), storage.nbytes())
