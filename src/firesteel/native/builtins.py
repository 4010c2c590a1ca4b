"""LLVM IR as builtin functions of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from .. import disk_cache
from . import perf_map
from .loader import load_code
from .objects import FASTCALL, NativeUnavailable


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


_ALIVE: list[Any] = []


def builtin_maker(name: str, text: str, optimised: bool, symbols: Mapping[str, int] | None = None,
                  kind: str = "") -> Callable[[Any], Callable[..., Any]]:
    """What makes builtins out of the function ``name`` in LLVM IR: each is bound to an object, which it gets first.

    ``symbols``: the addresses of names that the text refers to. ``kind``: that of its entry in the cache on disk, for
    text without addresses of this process. Raises NativeUnavailable where LLVM cannot be had.
    """
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ImportError as error:
        raise NativeUnavailable(f"llvmlite cannot be imported: {error}") from None
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for symbol, address in (symbols or {}).items():
            llvm.add_symbol(symbol, address)
        key = disk_cache.digest(kind, optimised, text, llvmlite.__version__, llvm.get_default_triple()) if kind else ""

        def machine_code() -> bytes:
            module = llvm.parse_assembly(text)
            module.verify()
            target = llvm.Target.from_default_triple().create_target_machine(
                opt=2 if optimised else 0, jit=True, reloc="pic", codemodel="small")
            emitted: bytes = target.emit_object(module)
            return emitted

        data = disk_cache.get_or_make(kind, key, machine_code) if kind else machine_code()
        code = load_code(data, llvm)
    except RuntimeError as error:
        raise NativeUnavailable(f"LLVM: {error}") from None
    perf_map.note(code.functions(), name)
    definition = _MethodDefinition(name.encode(), code.address(name), FASTCALL, None)
    _ALIVE.append((definition, code))  # the interpreter keeps pointing at the definition
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes, new.restype = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p], ctypes.py_object

    def make(bound: Any) -> Callable[..., Any]:
        builtin: Callable[..., Any] = new(ctypes.addressof(definition), bound, None)
        return builtin

    return make
