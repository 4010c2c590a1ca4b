"""Machine code as builtin functions of Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .objects import FASTCALL


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
                ("doc", ctypes.c_char_p)]


_ALIVE: list[Any] = []


def builtin_maker(name: str, address: int, code: Any) -> Callable[[Any], Callable[..., Any]]:
    """What makes builtins out of the code at an address: each is bound to an object, which the code gets first.

    The interpreter keeps pointing at the definition, so it and `code` live as long as the process.
    """
    definition = _MethodDefinition(name.encode(), address, FASTCALL, None)
    _ALIVE.append((definition, code))
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes, new.restype = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p], ctypes.py_object

    def make(bound: Any) -> Callable[..., Any]:
        builtin: Callable[..., Any] = new(ctypes.addressof(definition), bound, None)
        return builtin

    return make
