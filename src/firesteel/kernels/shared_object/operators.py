"""Calls of ATen operators through libtorch's C functions.

There are two ways in. Operators that models call often, and those with `Scalar` arguments, have a C function of their
own, whose parameters follow from the operator's schema. Any other operator goes through the dispatcher, by name, with
its arguments as 64-bit words: numbers as they are, tensors as handles that the call takes over, lists and texts as
objects made for the call, and what is optional behind a pointer, null for None.
"""

from __future__ import annotations

import ctypes
import functools
import re
import struct
from collections.abc import Sequence
from typing import Any, Protocol

import torch

from ... import torch_compat
from ...devices import CPU, DeviceKind
from ...shapes import Expr
from ...torch_compat import c_interface, native_calls
from ..host.lifetimes import references
from ..ir import BufferRef, ExternCall
from .checked_code import CheckedFunction
from .numbers import Numbers
from .scalars import without_scalars

DISPATCHER_VERSION = 0x020B_0000_0000_0000
"""The release of torch whose conventions for words are followed, 2.11; later ones go on understanding them."""

_SCALARS = frozenset(f"aten.{name}" for name in (
    "_addmm_activation.default", "add.Scalar", "add.Tensor", "addbmm.default", "addmm.out", "addmv.default",
    "baddbmm.out", "histc.default", "mul.Scalar", "pow.Scalar", "pow.Tensor_Scalar", "scatter.value_out",
    "searchsorted.Scalar", "segment_reduce.default",
))  # fmt: skip
_FREQUENT = frozenset(f"aten.{name}" for name in (
    "mm.out", "bmm.out", "convolution.default", "_scaled_dot_product_flash_attention_for_cpu.default", "topk.default",
    "sort.default", "sort.stable", "cumsum.default", "index.Tensor", "masked_select.default", "nonzero.default",
))  # fmt: skip
INTO = {
    "aten.mm.default": torch.ops.aten.mm.out,
    "aten.addmm.default": torch.ops.aten.addmm.out,
    "aten.bmm.default": torch.ops.aten.bmm.out,
    "aten.baddbmm.default": torch.ops.aten.baddbmm.out,
}
"""Products are written to a tensor that has the layout which kernels were compiled for."""
_TYPES: dict[str, tuple[str, ...]] = {
    "Tensor": ("ptr",), "int": ("i64",), "float": ("double",), "number": ("double",), "bool": ("i32",),
    "str": ("ptr",), "ScalarType": ("i32",), "Layout": ("i32",), "MemoryFormat": ("i32",), "Device": ("i32", "i32"),
    "Generator": ("ptr",),
}  # fmt: skip
_OPTIONAL = re.compile(r"Optional\[(.*)\]")
_LIST = re.compile(r"List\[(.*)\]")


class NotCallable(Exception):
    """An operator cannot be called without Python."""


class Tensors(Protocol):
    """What the program around offers for calls."""

    def argument(self, reference: BufferRef) -> str:
        """The handle of a tensor that is lent to a call."""

    def slot(self) -> str:
        """An empty place for a handle; what is in it is released when the step is over."""

    def dtype_of(self, reference: BufferRef) -> torch.dtype | None:
        """The dtype of a tensor with dimensions; None for one without."""

    def device_kind(self, reference: BufferRef) -> DeviceKind:
        """What kind of device a tensor is on."""

    def device(self, device: torch.device) -> tuple[str, str]:
        """A device as libtorch numbers it: its type, and which one it is."""


def shim_name(name: str, device: str = CPU.name) -> str | None:
    """The C function of an operator, if it is one of those that are called so."""
    if name not in _SCALARS and name not in _FREQUENT and name not in c_interface.ONEDNN_FUNCTIONS:
        return None
    return c_interface.operator_function_name(name, device)


def parameter_types(kind: str) -> tuple[str, ...]:
    """How a C function takes an argument of a schema's type: LLVM types.

    >>> parameter_types("Optional[Tensor]"), parameter_types("List[int]"), parameter_types("number")
    (('ptr',), ('ptr', 'i64'), ('double',))
    """
    if kind in _TYPES:
        return _TYPES[kind]
    optional = _OPTIONAL.fullmatch(kind)
    if optional:
        return ("ptr", *parameter_types(optional[1])[1:])
    if _LIST.fullmatch(kind):
        return ("ptr", "i64")
    raise NotCallable(f"an argument of type {kind}")


def bound_arguments(step: ExternCall) -> list[tuple[str, str, Any]]:
    """Name, type and value of every argument of an operator, defaults included."""
    bound = []
    for position, argument in enumerate(torch_compat.schema_of(step.target).arguments):
        if position < len(step.args) and not argument.kwarg_only:
            value = step.args[position]
        elif argument.name in step.kwargs:
            value = step.kwargs[argument.name]
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise NotCallable(f"the argument {argument.name} of {step.target} is missing")
        kind = str(argument.real_type)
        bound.append((argument.name, "out" if argument.is_out and kind == "Tensor" else kind, value))
    return bound


@functools.cache
def constant_of(name: str) -> int:
    """A number that libtorch has for a name, such as ``layout_strided``."""
    function = c_interface.c_function(name)
    if function is None:
        raise NotCallable(f"libtorch has no {name}")
    function.restype = ctypes.c_int32
    return int(function())


def enumerated(value: Any) -> int:
    """A dtype, layout or memory format as libtorch numbers it."""
    if isinstance(value, torch.dtype):
        return native_calls.dtype_number(value)
    if isinstance(value, torch.layout):
        return constant_of(f"layout_{str(value).removeprefix('torch.')}")
    if isinstance(value, torch.memory_format):
        return constant_of(f"memory_format_{str(value).removeprefix('torch.')}")
    return int(value)


class OperatorCalls:
    """Writes calls of operators into a function."""

    def __init__(self, code: CheckedFunction, numbers: Numbers, tensors: Tensors) -> None:
        self.code = code
        self.numbers = numbers
        self.tensors = tensors
        self.wraps_numbers = False
        """Whether a number may stand for a tensor: where it does not change the dtype of the result."""

    def call(self, step: ExternCall, results: Sequence[str | None], dtypes: Sequence[torch.dtype | None]) -> list[str]:
        """Call an operator that returns something new. ``results`` are slots for the tensors that are wanted.

        The values of results that are integers come back.
        """
        step = without_scalars(step, shim_name(torch_compat.operator_name(step.target)) is not None)
        name = torch_compat.operator_name(step.target)
        arguments = bound_arguments(step)
        kinds = [self.tensors.device_kind(reference) for reference in references([item[2] for item in arguments])]
        function = shim_name(name, next((kind.name for kind in kinds if not kind.is_host), CPU.name))
        given = [self.tensors.dtype_of(value) for _, _, value in arguments if isinstance(value, BufferRef)]
        self.wraps_numbers = any(dtype in given for dtype in dtypes)
        scalar = any("number" in kind for _, kind, _ in arguments)
        plain = all(dtype is None or dtype.is_floating_point or dtype.is_complex for dtype in dtypes)
        if function is not None and c_interface.c_function(function) is not None and (plain or not scalar):
            self._shim(name, function, arguments, results)
            return []
        if scalar:
            raise NotCallable(f"{name} takes a Scalar, for which libtorch's C interface has no function")
        return self._dispatch(step.target, name, arguments, results)

    # The function of an operator

    def _shim(self, name: str, function: str, arguments: list[tuple[str, str, Any]],
              results: Sequence[str | None]) -> None:
        outs = [item for item in arguments if item[1] == "out"]
        given: list[str] = []
        for _, kind, value in (*outs, *(item for item in arguments if item[1] != "out")):
            given += self._parameter("Tensor" if kind == "out" else kind, value)
        if not outs:
            given += [f"ptr {slot if slot is not None else self.tensors.slot()}" for slot in results]
        self.code.call_torch(function, given, name)

    def _parameter(self, kind: str, value: Any) -> list[str]:
        code = self.code
        optional = _OPTIONAL.fullmatch(kind)
        if optional:
            rest = [f"{type_} 0" for type_ in parameter_types(kind)[1:]]
            if value is None:
                return ["ptr null", *rest]
            first, *rest = self._parameter(optional[1], value)
            type_, text = first.split(" ", 1)
            place = code.alloca(type_)
            code.line(f"store {type_} {text}, ptr {place}, align 8")
            return [f"ptr {place}", *rest]
        several = _LIST.fullmatch(kind)
        if several:
            parts = [self._parameter(several[1], part)[0].split(" ", 1) for part in value]
            type_ = parameter_types(several[1])[0]
            return [f"ptr {code.array(type_, [text for _, text in parts])}", f"i64 {len(parts)}"]
        if kind == "Tensor":
            return [f"ptr {self._tensor(value)}"]
        if kind in ("float", "number"):
            return [f"double {self._double(value)}"]
        if kind == "bool":
            return [f"i32 {self._truth(value, 'i32')}"]
        if kind == "int":
            return [f"i64 {self._integer(value)}"]
        if kind == "str":
            return [f"ptr {code.module.string(value)}"]
        if kind in ("ScalarType", "Layout", "MemoryFormat"):
            return [f"i32 {enumerated(value)}"]
        if kind == "Device":
            return [f"i32 {number}" for number in self.tensors.device(value)]
        raise NotCallable(f"an argument of type {kind}")

    # Through the dispatcher

    def _dispatch(self, target: Any, name: str, arguments: list[tuple[str, str, Any]],
                  results: Sequence[str | None]) -> list[str]:
        code = self.code
        returns = [str(part.real_type) for part in torch_compat.schema_of(target).returns]
        words = [self._word("Tensor" if kind == "out" else kind, value) for _, kind, value in arguments]
        length = max(len(words), len(returns), 1)
        stack = code.alloca(f"[{length} x i64]")
        for position, word in enumerate(words):
            code.line(f"store i64 {word}, ptr {code.element('i64', stack, position)}, align 8")
        space, short, overload = name.split(".")
        module = code.module
        code.call_torch("torch_call_dispatcher", [
            f"ptr {module.string(f'{space}::{short}')}",
            f"ptr {module.string('' if overload == 'default' else overload)}",
            f"ptr {stack}", f"i64 {DISPATCHER_VERSION}"], name)
        numbers = []
        if returns == ["List[Tensor]"]:
            self._list_results(code.load("ptr", stack), results)
            return []
        for position, kind in enumerate(returns):
            word = code.load("i64", code.element("i64", stack, position))
            if kind == "Tensor":
                slot = results[position] if position < len(results) else None
                code.line(f"store i64 {word}, ptr {slot if slot is not None else self.tensors.slot()}, align 8")
            elif kind in ("int", "bool"):
                numbers.append(word)
            else:
                raise NotCallable(f"{name} returns {kind}")
        return numbers

    def _list_results(self, items: str, results: Sequence[str | None]) -> None:
        code = self.code
        for position, slot in enumerate(results):
            code.call_torch("torch_list_get_item", [
                f"ptr {items}", f"i64 {position}", f"ptr {slot if slot is not None else self.tensors.slot()}"])
        code.call_torch("torch_delete_list", [f"ptr {items}"])

    def _word(self, kind: str, value: Any) -> str:
        """An argument as the dispatcher wants it. What is made here belongs to the call."""
        code = self.code
        optional = _OPTIONAL.fullmatch(kind)
        if optional:
            if value is None:
                return "0"
            inner = self._word(optional[1], value)
            code.module.declare("_Znwm", "ptr", "i64")
            place = code.value("call ptr @_Znwm(i64 8)")
            code.line(f"store i64 {inner}, ptr {place}, align 8")
            return code.value(f"ptrtoint ptr {place} to i64")
        several = _LIST.fullmatch(kind)
        if several:
            words = [self._word(several[1], part) for part in value]
            place = code.scratch("ptr")
            code.call_torch("torch_new_list_reserve_size", [f"i64 {len(words)}", f"ptr {place}"])
            handle = code.load("ptr", place)
            for word in words:
                code.call_torch("torch_list_push_back", [f"ptr {handle}", f"i64 {word}"])
            return code.value(f"ptrtoint ptr {handle} to i64")
        if kind == "Tensor":
            place = code.scratch("ptr")
            code.call_torch("new_tensor_handle", [f"ptr {self._tensor(value)}", f"ptr {place}"])
            return code.load("i64", place)
        if kind == "float":
            return code.value(f"bitcast double {self._double(value)} to i64")
        if kind == "bool":
            return self._truth(value, "i64")
        if kind == "int":
            return self._integer(value)
        if kind == "str":
            place = code.scratch("ptr")
            text = str(value)
            code.call_torch("torch_new_string_handle", [
                f"ptr {code.module.string(text)}", f"i64 {len(text.encode())}", f"ptr {place}"])
            return code.load("i64", place)
        if kind in ("ScalarType", "Layout", "MemoryFormat"):
            return str(enumerated(value))
        if kind == "Device":
            device, index = self.tensors.device(value)
            low = index if not index.startswith("%") else code.value(f"zext i32 {index} to i64")
            return code.value(f"or i64 {low}, {int(device) << 32}")
        raise NotCallable(f"an argument of type {kind}")

    # Values

    def _tensor(self, value: Any) -> str:
        if isinstance(value, BufferRef):
            return self.tensors.argument(value)
        if not self.wraps_numbers:
            raise NotCallable(f"{value!r} where a tensor is needed")
        slot = self.tensors.slot()
        if isinstance(value, complex):
            self.code.call_torch("scalar_to_tensor_complex128",
                                 [f"double {self._double(value.real)}", f"double {self._double(value.imag)}",
                                  f"ptr {slot}"])
        elif isinstance(value, (bool, int)):
            self.code.call_torch("scalar_to_tensor_int64", [f"i64 {int(value)}", f"ptr {slot}"])
        else:
            self.code.call_torch("scalar_to_tensor_float64", [f"double {self._double(value)}",
                                                                         f"ptr {slot}"])
        return self.code.load("ptr", slot)

    def _integer(self, value: Any) -> str:
        return self.numbers.integer(value) if isinstance(value, Expr) else str(enumerated(value))

    def _truth(self, value: Any, type_: str) -> str:
        if isinstance(value, Expr):
            return self.code.value(f"zext i1 {self.numbers.truth(value)} to {type_}")
        return str(int(bool(value)))

    def _double(self, value: Any) -> str:
        if isinstance(value, Expr):
            return self.numbers.double(value)
        if isinstance(value, complex):
            raise NotCallable("a complex Scalar")
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"


