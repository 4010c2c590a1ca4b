"""CPython as the native checker sees it: where its objects keep what is read, and addresses of its C functions."""

from __future__ import annotations

import collections
import ctypes
import struct
import sys
import types
from typing import Any

from .. import support

SUPPORTED_VERSIONS = ((3, 11), (3, 12), (3, 13))
VARARGS, KEYWORDS, NOARGS, FASTCALL = 0x01, 0x02, 0x04, 0x80  # METH_VARARGS and so on
TYPE, SIZE, CELL = 8, 16, 16  # offsets in every object, in lists, tuples and dicts, and in cells
ITEMS = 24  # offset in tuples
DICT_KEYS, KEYS_KIND, GENERAL_KEYS = 32, 10, 0


class NativeUnavailable(Exception):
    """Why this process has no native checker."""


def c_function(name: str) -> int:
    """The address of a function of CPython's C API."""
    try:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    except AttributeError:
        raise NativeUnavailable(f"this Python does not export {name}") from None
    assert address is not None
    return address


def builtin_parts(function: Any) -> tuple[int, Any]:
    """Address and receiver of a builtin that can be called as ``f(receiver, (), 0, NULL)`` for no arguments.

    That is one without parameters, which ignores what follows the receiver, one that takes a tuple and a dictionary, or
    one that takes an array, its length and names. Raises ValueError for any other object.
    """
    if type(function) is not types.BuiltinFunctionType:
        raise ValueError("not a builtin function")
    for name, kind in (("PyCFunction_GetFlags", ctypes.c_int), ("PyCFunction_GetFunction", ctypes.c_void_p)):
        getattr(ctypes.pythonapi, name).argtypes, getattr(ctypes.pythonapi, name).restype = [ctypes.py_object], kind
    if ctypes.pythonapi.PyCFunction_GetFlags(function) not in (NOARGS, VARARGS | KEYWORDS, FASTCALL | KEYWORDS):
        raise ValueError("called in another way")
    return ctypes.pythonapi.PyCFunction_GetFunction(function), function.__self__


# Layout


def word(address: int) -> int:
    """Eight bytes of memory."""
    return ctypes.c_uint64.from_address(address).value


def check_layout() -> None:
    """Try every offset that the checker uses on real objects."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in SUPPORTED_VERSIONS:
        raise NativeUnavailable("this Python version is not supported")
    if not support.verdict().machine_code:
        raise NativeUnavailable("there is no machine code on this platform")
    if struct.calcsize("P") != 8 or hasattr(sys, "gettotalrefcount"):
        raise NativeUnavailable("not a 64-bit release build of Python")
    sized: list[Any] = [(1, 2, 3), [1, 2, 3, 4], {"a": 1, "b": 2}, {}, [], (), collections.OrderedDict(a=1)]
    fits = all(word(id(obj) + TYPE) == id(type(obj)) and word(id(obj) + SIZE) == len(obj) for obj in sized)
    items = (object(), object())
    fits = fits and [word(id(items) + ITEMS + 8 * i) for i in range(2)] == [id(item) for item in items]
    content = object()
    full, empty = types.CellType(content), types.CellType()
    fits = fits and word(id(full) + CELL) == id(content) and word(id(empty) + CELL) == 0
    shared = Instance()
    shared.a = 1
    strings: list[dict[Any, Any]] = [{}, {"a": 1}, dict.fromkeys(map(str, range(500))), shared.__dict__]
    mixed: list[dict[Any, Any]] = [{1: 1}, {"a": 1, (): 2}, {**dict.fromkeys(map(str, range(500))), None: 1}]
    fits = fits and all(_keys_kind(table) != GENERAL_KEYS for table in strings)
    fits = fits and all(_keys_kind(table) == GENERAL_KEYS for table in mixed)
    if not fits:
        raise NativeUnavailable("objects of this Python are not laid out as expected")


def mro_offset() -> int:
    """Where a class keeps its order of bases."""
    offsets = [offset for offset in range(16, sys.getsizeof(type), 8)
             if all(word(id(cls) + offset) == id(cls.__mro__) for cls in (int, bool, NativeUnavailable, Instance))]
    if len(offsets) != 1:
        raise NativeUnavailable("classes of this Python are not laid out as expected")
    return offsets[0]


class Instance:
    """An instance with a dictionary, to try things on."""

    a: int


def has_string_keys(table: dict[Any, Any]) -> bool:
    """Whether the checker can look up strings: one that has other keys, or had, compares them by their own methods."""
    return _keys_kind(table) != GENERAL_KEYS


def _keys_kind(table: dict[Any, Any]) -> int:
    return ctypes.c_uint8.from_address(word(id(table) + DICT_KEYS) + KEYS_KIND).value
