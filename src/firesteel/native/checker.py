"""The native checker of guards: LLVM IR over CPython's C API, compiled once per process, called as a fast-call builtin.

It runs with the interpreter lock held and never runs Python code: dictionaries are asked for strings only, and only
while all their keys are strings, so that no ``__eq__`` or ``__hash__`` of a user takes part; attributes are read from
instance dictionaries. So borrowed references are enough until the result is built. Offsets into Python's objects (the
type, the size, the kind of a dictionary's keys, a cell's content) are tried on real objects before it is compiled.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

from .. import torch_compat
from . import memory
from .builtins import builtin_maker
from .objects import (
    CELL,
    DICT_KEYS,
    GENERAL_KEYS,
    ITEMS,
    KEYS_KIND,
    SIZE,
    TYPE,
    NativeUnavailable,
    c_function,
    check_layout,
)
from .program import ANY, HEADER, MAX_REGISTERS, ROW, TENSOR, Op, Program
from .self_test import self_test
from .templates import address, filled
from .tensors import TensorLayout, tensor_layout

PYTHON_FUNCTIONS = (
    "PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem", "PyBytes_AsString", "PyDict_Next", "PyErr_Clear", "Py_IncRef",
    "Py_DecRef", "PyFloat_AsDouble", "PyFunction_GetCode", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong",
    "PyUnicode_Compare", "PyWeakref_GetObject", "_PyDict_GetItem_KnownHash", "_PyObject_GetDictPtr", "_PyType_Lookup",
)


class Checker:
    """The compiled checker."""

    def __init__(self, tensors: TensorLayout | None) -> None:
        check_layout()
        self.tensors = tensors
        self._new = builtin_maker("firesteel_guards", source(tensors), optimised=True)

    def function(self, program: Program, inputs: list[int], others: list[int]) -> Callable[..., tuple[Any, ...] | None]:
        """The builtin that checks `program` on its arguments: what to hand back if all holds, else None."""
        if program.registers > MAX_REGISTERS:
            raise ValueError("too many registers")
        return self._new(program.assemble(inputs, others))


_checker: Checker | NativeUnavailable | None = None


def checker() -> Checker:
    """The checker of this process, made on first use. Raises NativeUnavailable where there can be none.

    Two threads at the same time are no harm: each gets a checker that works.
    """
    global _checker
    if _checker is None:
        try:
            with torch_compat.without_modes():
                new = Checker(tensor_layout())
                self_test(new)
            _checker = new
        except NativeUnavailable as error:
            _checker = error
    if isinstance(_checker, NativeUnavailable):
        raise _checker
    return _checker


# The checker's code


def source(tensors: TensorLayout | None) -> str:
    """The checker as LLVM IR. Objects and functions of this process appear in it as plain addresses."""
    values: dict[str, object] = {name: address(c_function(name)) for name in PYTHON_FUNCTIONS}
    values |= {cls.__name__: id(cls) for cls in (dict, collections.OrderedDict, int, str, float)}
    values |= {
        "FunctionType": id(types.FunctionType), "CellType": id(types.CellType), "NONE": id(None), "TRUE": id(True),
        "EMPTY_TUPLE": address(id(())), "TYPE": TYPE, "SIZE": SIZE, "ITEMS": ITEMS, "CELL": CELL,
        "DICT_KEYS": DICT_KEYS, "KEYS_KIND": KEYS_KIND, "GENERAL_KEYS": GENERAL_KEYS, "HEADER": HEADER.size,
        "ROW": ROW.size, "FACTS": TENSOR.size, "ANY": ANY, "SET_HEAD": memory.HEAD, "SET_SLOT": memory.SLOT,
        "SPREAD": memory.SPREAD, **_tensor_values(tensors),
    }
    unknown: set[Op] = set()
    if tensors is None:
        unknown |= {Op.TENSOR, Op.SIZE, Op.STRIDE}
    if tensors is None or tensors.storage is None:
        unknown |= {Op.SAME_STORAGE, Op.NEW_STORAGE, Op.OTHER_STORAGE}
    rows = {op: "none" if op in unknown else f"op_{op.name}" for op in Op} | {Op.END: "success"}
    values["CASES"] = "\n".join(f"    i32 {op.value}, label %{block}" for op, block in rows.items())
    values["ARITHMETIC"] = filled("native/arithmetic.ll", values)
    values["TENSORS"] = filled("native/checker_tensors.ll", values)
    return filled("native/checker.ll", values)


def _tensor_values(tensors: TensorLayout | None) -> dict[str, object]:
    """What to fill in about tensors; anything for what no row asks for, as nothing is known about it."""
    autograd = tensors.autograd if tensors is not None else None
    resizable = tensors.resizable if tensors is not None else None
    function, closure = tensors.is_leaf if tensors is not None else (0, 0)
    asked = ("dim", "sizes", "strides", "dtype", "device_type", "device_index")
    return {
        **{f"get_{name}": address(getattr(tensors, name, 0)) for name in asked},
        "requires_grad": address(getattr(tensors, "requires_grad", 0)),
        "is_leaf": address(function), "IS_LEAF_CLOSURE": address(closure),
        "IMPLEMENTATION": getattr(tensors, "implementation", 0),
        "DISPATCH_KEYS": getattr(tensors, "dispatch_keys", 0), "STORAGE": getattr(tensors, "storage", None) or 0,
        "RESIZABLE": resizable or 0,
        "FOREIGN_NEW_STORAGE": "none" if resizable is not None else "new_storage_begin",
        "FOREIGN_OTHER_STORAGE": "none" if resizable is not None else "other_storage_begin",
        "LEAF_RECORD": "leaf_record" if autograd is not None else "leaf_ask",
        "RECORD": getattr(autograd, "record", 0), "GRADIENT_FUNCTION": getattr(autograd, "function", 0),
        "PLAIN_RECORD": getattr(autograd, "plain", 0),
    }
