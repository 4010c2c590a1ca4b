"""Puts object code into memory: one block for all sections of an object, so that they can always refer to each other.

LLVM's own loader asks for memory section by section. In a process that has reserved much address space (CUDA does) the
pieces can end up more than 2 GiB apart, which 32-bit relative references cannot span, and LLVM then ends the process.

Understands what LLVM emits for position-independent code on x86-64 Linux: ELF, a handful of relocations. Exception
tables are left out, nothing unwinds through this code.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable
from typing import Any

from ..records import dataclass
from ..systems import process_library

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_SYMBOLS, _RELOCATIONS, _ZEROS = 2, 4, 8  # types of sections
_WRITABLE, _LOADED = 1, 2  # flags of sections
_UNWIND = 0x70000001
_ABSOLUTE = 0xFFF1
_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64 = 1, 2, 4, 24
_THROUGH_TABLE = frozenset({9, 41, 42})  # relative to an entry of the table of addresses
_JUMP = b"\xff\x25\x00\x00\x00\x00"  # jmp [rip + 0], followed by the address


class LoadError(RuntimeError):
    """The object has something that this loader does not know."""


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int


class LoadedObject:
    """Code in memory; it stays for as long as this object does."""

    def __init__(self, memory: mmap.mmap, addresses: dict[str, int], sizes: dict[str, int]) -> None:
        self._memory = memory
        self._addresses = addresses
        self._sizes = sizes

    def address(self, name: str) -> int:
        """The address of a function of the object; 0 when it has none of this name."""
        return self._addresses.get(name, 0)

    def functions(self) -> tuple[tuple[int, int], ...]:
        """Addresses of the functions in it and how many bytes each has, as far as that is known."""
        return tuple([(self._addresses[name], size) for name, size in self._sizes.items()
                      if size and name in self._addresses])


def load_object(data: bytes, resolve: Callable[[str], int | None]) -> LoadedObject:
    """Load an object file. ``resolve`` gives the addresses of what it uses from outside."""
    return _Loader(data, resolve).load()


def load_code(data: bytes, llvm: Any) -> LoadedObject:
    """Load an object file that LLVM made for this machine, with what LLVM knows of names outside."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return load_object(data, functools.partial(_address_of, llvm))
    target = llvm.Target.from_default_triple().create_target_machine(jit=True, reloc="pic")
    return _LoadedByLLVM(data, llvm, target)


_known: dict[str, int] = {}


def _address_of(llvm: Any, name: str) -> int | None:
    """Asked once for each name: the binding lets one thread at a time into LLVM, and others are busy there."""
    address = _known.get(name)
    if address is None:
        address = llvm.address_of_symbol(name) or _address_in_process(name)
        if address:
            _known[name] = address
    return address


def _address_in_process(name: str) -> int | None:
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value
    return None


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    libraries = [process_library()]
    try:
        libraries.append(ctypes.CDLL("libm.so.6"))
    except OSError:  # another C library, which has the functions of libm itself
        pass
    return tuple(library for library in libraries if library is not None)


class _LoadedByLLVM(LoadedObject):
    """For other machines."""

    def __init__(self, data: bytes, llvm: Any, target: Any) -> None:
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        return int(self._engine.get_function_address(name))

    def functions(self) -> tuple[tuple[int, int], ...]:
        return ()


class _Loader:
    def __init__(self, data: bytes, resolve: Callable[[str], int | None]) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", data, 18)[0] != 62:
            raise LoadError("no x86-64 ELF object")
        self.data = data
        self.resolve = resolve
        self.sections = self._read_sections()
        self.places: dict[int, int] = {}  # section to offset in the block
        self.outside: dict[str, int] = {}  # name to offset of its jump; the address in that is the table's entry too
        self.table = 0  # addresses of the object's own symbols, where it looks them up
        self.addresses: dict[str, int] = {}
        self.sizes: dict[str, int] = {}

    def _read_sections(self) -> list[_Section]:
        start, = struct.unpack_from("<Q", self.data, 0x28)
        _, count, names = struct.unpack_from("<HHH", self.data, 0x3A)
        raw = [_SECTION.unpack_from(self.data, start + i * _SECTION.size) for i in range(count)]
        base = raw[names][4]
        return [_Section(self._text(base + name), kind, flags, offset, size, link, info, max(alignment, 1))
                for name, kind, flags, _, offset, size, link, info, alignment, _ in raw]

    def _text(self, at: int) -> str:
        return self.data[at: self.data.index(b"\0", at)].decode()

    def load(self) -> LoadedObject:
        symbols = self._read_symbols()
        loaded = [(i, section) for i, section in enumerate(self.sections)
                  if section.flags & _LOADED and section.kind != _UNWIND and section.name != ".eh_frame"]
        end = 0
        for i, section in loaded:
            if not section.flags & _WRITABLE:
                end = self._place(i, section, end)
        end = -(-end // 16) * 16
        for name in dict.fromkeys(name for name, _, defined in symbols if not defined and name):
            self.outside[name] = end
            end += 16
        self.table, end = end, end + 8 * len(symbols)
        writable = end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        for i, section in loaded:
            if section.flags & _WRITABLE:
                end = self._place(i, section, end)
        memory = mmap.mmap(-1, max(-(-end // mmap.PAGESIZE) * mmap.PAGESIZE, mmap.PAGESIZE))
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for i, section in loaded:
            if section.kind != _ZEROS:
                at = self.places[i]
                memory[at: at + section.size] = self.data[section.offset: section.offset + section.size]
        for name, at in self.outside.items():
            memory[at: at + 14] = _JUMP + struct.pack("<Q", self._address_outside(name))
        self._relocate(memory, base, symbols)
        if writable:
            _protect(base, writable)
        for name, (where, value), defined in symbols:
            if defined and where in self.places:
                self.addresses[name] = base + self.places[where] + value
        return LoadedObject(memory, self.addresses, self.sizes)

    def _place(self, i: int, section: _Section, end: int) -> int:
        self.places[i] = at = -(-end // section.alignment) * section.alignment
        return at + section.size

    def _read_symbols(self) -> list[tuple[str, tuple[int, int], bool]]:
        table = next((section for section in self.sections if section.kind == _SYMBOLS), None)
        if table is None:
            return []
        names = self.sections[table.link].offset
        symbols = []
        for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
            name, _, _, section, value, size = _SYMBOL.unpack_from(self.data, at)
            if section > len(self.sections) and section != _ABSOLUTE:
                raise LoadError(f"a symbol in section {section}")
            symbols.append((self._text(names + name), (section, value), section != 0))
            self.sizes[symbols[-1][0]] = size
        return symbols

    def _address_outside(self, name: str) -> int:
        address = self.resolve(name)
        if not address:
            raise LoadError(f"{name} is not in this process")
        return address

    def _relocate(self, memory: mmap.mmap, base: int, symbols: list[tuple[str, tuple[int, int], bool]]) -> None:
        for section in self.sections:
            if section.kind != _RELOCATIONS or section.info not in self.places:
                continue
            start = self.places[section.info]
            for at in range(section.offset, section.offset + section.size, _RELOCATION.size):
                offset, info, addend = _RELOCATION.unpack_from(self.data, at)
                kind, number_of_symbol = info & 0xFFFFFFFF, info >> 32
                name, (where, value), defined = symbols[number_of_symbol]
                target = base + (self.places[where] + value if defined else self.outside[name])
                place = start + offset
                if kind in _THROUGH_TABLE:
                    if defined:
                        entry = self.table + 8 * number_of_symbol
                        memory[entry: entry + 8] = struct.pack("<Q", target)
                        target = base + entry
                    else:
                        target += len(_JUMP)  # where the jump keeps the address
                elif kind not in (_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64):
                    raise LoadError(f"relocation {kind}")
                number = target + addend - (0 if kind == _ABSOLUTE_64 else base + place)
                wide = kind in (_ABSOLUTE_64, _RELATIVE_64)
                memory[place: place + (8 if wide else 4)] = struct.pack("<Q" if kind == _ABSOLUTE_64 else
                                                                        "<q" if wide else "<i", number)


def _protect(address: int, size: int) -> None:
    """Make memory executable and no longer writable."""
    library = process_library(use_errno=True)
    if library is None:
        raise LoadError("memory cannot be made executable on this system")
    if library.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise LoadError(f"memory cannot be made executable (error {ctypes.get_errno()})")
