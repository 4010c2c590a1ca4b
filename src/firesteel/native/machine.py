"""The native checker: LLVM IR over CPython's C API, compiled once per process, called as a fast-call builtin.

It runs with the interpreter lock held and never runs Python code: dictionaries are asked for strings only, and only
while all their keys are strings, so that no ``__eq__`` or ``__hash__`` of a user takes part; attributes are read from
instance dictionaries. So borrowed references are enough until the result is built. Offsets into Python's objects (the
type, the size, the kind of a dictionary's keys, a cell's content) are tried on real objects before it is compiled.
"""

from __future__ import annotations

import collections
import ctypes
import struct
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from .. import torch_compat
from ..records import dataclass
from . import arithmetic, memory
from .builtins import builtin_maker
from .loader import load_code
from .objects import (
    CELL,
    DICT_KEYS,
    GENERAL_KEYS,
    ITEMS,
    KEYS_KIND,
    SIZE,
    TYPE,
    Instance,
    NativeUnavailable,
    builtin_parts,
    c_function,
    check_layout,
    mro_offset,
)
from .program import ANY, HEADER, MAX_REGISTERS, ROW, TENSOR, Op, Program

ALIGNMENT = {"i64": 8, "ptr": 8, "i32": 4, "i8": 1}


@dataclass(frozen=True)
class AutogradLayout:
    """Where a plain tensor, not a view, keeps its gradient function."""

    record: int  # offset of the pointer to the autograd record in the implementation
    function: int  # offset of the gradient function in the record
    plain: int  # first word of the records of plain tensors


@dataclass(frozen=True)
class TensorLayout:
    """How to read a tensor from C: offsets that were tried on real tensors, addresses of torch's own C functions."""

    implementation: int  # offset of the pointer to the tensor's implementation in the Python object
    dispatch_keys: int  # offset of the dispatch keys in the implementation
    dim: int
    sizes: int
    strides: int
    dtype: int
    device_type: int
    device_index: int
    requires_grad: int
    is_leaf: tuple[int, int]  # a getter's function and its closure
    autograd: AutogradLayout | None
    storage: int | None  # offset of the pointer to the storage in the implementation
    resizable: int | None  # offset of the byte in a storage that is 1 if torch has allocated its memory, otherwise 0


class Machine:
    """The compiled checker."""

    def __init__(self, tensors: TensorLayout | None) -> None:
        check_layout()
        self.tensors = tensors
        try:
            import llvmlite.binding as llvm
        except ImportError as error:
            raise NativeUnavailable(f"llvmlite cannot be imported: {error}") from None
        try:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            module = llvm.parse_assembly(source(tensors))
            module.verify()
            target = llvm.Target.from_default_triple().create_target_machine(
                opt=2, jit=True, reloc="pic", codemodel="small")
            code = load_code(target.emit_object(module), llvm)
            address = code.address("firesteel_guards")
        except RuntimeError as error:
            raise NativeUnavailable(f"LLVM: {error}") from None
        self._new = builtin_maker("firesteel_guards", address, code)

    def function(self, program: Program, inputs: list[int], others: list[int]) -> Callable[..., tuple[Any, ...] | None]:
        """The builtin that checks `program` on its arguments: what to hand back if all holds, else None."""
        if program.registers > MAX_REGISTERS:
            raise ValueError("too many registers")
        return self._new(program.assemble(inputs, others))


_machine: Machine | NativeUnavailable | None = None


def machine() -> Machine:
    """The checker of this process, made on first use. Raises NativeUnavailable where there can be none.

    Two threads at the same time are no harm: each gets a checker that works.
    """
    global _machine
    if _machine is None:
        from .tensors import tensor_layout

        try:
            with torch_compat.without_modes():
                made = Machine(tensor_layout())
                self_test(made)
            _machine = made
        except NativeUnavailable as error:
            _machine = error
    if isinstance(_machine, NativeUnavailable):
        raise _machine
    return _machine


# The checker


def source(tensors: TensorLayout | None) -> str:
    """The checker as LLVM IR. Objects and functions of this process appear in it as plain addresses."""

    def f(name: str) -> str:
        return f"inttoptr (i64 {c_function(name)} to ptr)"

    def same(block: str, left: str, right: object, then: str) -> str:
        """Go on in block `then` if two integers or pointers (as integers) are equal."""
        return f"  %{block}_same = icmp eq i64 {left}, {right}\n  br i1 %{block}_same, label %{then}, label %none\n"

    def field(name: str, base: str, offset: int, kind: str = "i64") -> str:
        return (f"  %{name}_at = getelementptr i8, ptr {base}, i64 {offset}\n"
                f"  %{name} = load {kind}, ptr %{name}_at, align {ALIGNMENT[kind]}\n")

    def block(op: Op, text: str) -> str:
        return f"op_{op.name}:\n{text}\n"

    def typed(op: Op, kind: object, then: str, register: str = "%v") -> str:
        name = f"{op.name}_type_{then}"
        return field(name, register, TYPE) + same(name, f"%{name}", kind, then)

    def string_keys(op: Op, then: str) -> str:
        """The source is an exact dict, all of whose keys are strings."""
        name = op.name
        return (typed(op, id(dict), f"{name}_dict") + f"{name}_dict:\n" + field(f"{name}_keys", "%v", DICT_KEYS, "ptr")
                + field(f"{name}_kind", f"%{name}_keys", KEYS_KIND, "i8")
                + f"  %{name}_strings = icmp ne i8 %{name}_kind, {GENERAL_KEYS}\n"
                f"  br i1 %{name}_strings, label %{then}, label %none\n{then}:\n")

    def lookup(op: Op) -> str:
        return (string_keys(op, f"{op.name}_look")
                + f"  %{op.name}_found = call ptr {f('_PyDict_GetItem_KnownHash')}(ptr %v, ptr %a, i64 %b)\n"
                f"  %{op.name}_null = icmp eq ptr %{op.name}_found, null\n")

    def store(op: Op, value: str) -> str:
        """Write a loaded object that must be there."""
        return (f"  %{op.name}_gone = icmp eq ptr {value}, null\n"
                f"  br i1 %{op.name}_gone, label %none, label %{op.name}_store\n{op.name}_store:\n"
                f"  store ptr {value}, ptr %slot, align 8\n  br label %next\n")

    blocks = [
        block(Op.CONSTANT, "  store ptr %a, ptr %slot, align 8\n  br label %next\n"),
        block(Op.INSTANCE_DICT,
              f"  %dict_at = call ptr {f('_PyObject_GetDictPtr')}(ptr %v)\n"
              "  %dict_none = icmp eq ptr %dict_at, null\n  br i1 %dict_none, label %none, label %dict_read\n"
              "dict_read:\n  %dict = load ptr, ptr %dict_at, align 8\n" + store(Op.INSTANCE_DICT, "%dict")),
        block(Op.ITEM, lookup(Op.ITEM) + store(Op.ITEM, "%ITEM_found")),
        block(Op.MISSING, lookup(Op.MISSING) + "  br i1 %MISSING_null, label %next, label %none\n"),
        block(Op.ITEM_EMPTY,
              lookup(Op.ITEM_EMPTY) + "  br i1 %ITEM_EMPTY_null, label %none, label %empty_type\nempty_type:\n"
              + field("table_type", "%ITEM_EMPTY_found", TYPE)
              + f"  %is_dict = icmp eq i64 %table_type, {id(dict)}\n"
              f"  %is_ordered = icmp eq i64 %table_type, {id(collections.OrderedDict)}\n"
              "  %is_table = or i1 %is_dict, %is_ordered\n  br i1 %is_table, label %empty_size, label %none\n"
              "empty_size:\n"
              + field("table_size", "%ITEM_EMPTY_found", SIZE) + same("table_size", "%table_size", 0, "next")),
        block(Op.TYPE, typed(Op.TYPE, "%ai", "next")),
        block(Op.IS, "  %is_same = icmp eq ptr %v, %a\n  br i1 %is_same, label %next, label %none\n"),
        block(Op.SAME, "  %other = load ptr, ptr %slot, align 8\n  %same_same = icmp eq ptr %v, %other\n"
                       "  br i1 %same_same, label %next, label %none\n"),
        block(Op.INT,
              "  %int_is = icmp eq ptr %v, %a\n  br i1 %int_is, label %next, label %int_type\nint_type:\n"
              + typed(Op.INT, id(int), "int_read")
              + f"int_read:\n  %int = call i64 {f('PyLong_AsLongLongAndOverflow')}(ptr %v, ptr %overflow)\n"
              "  %over = load i32, ptr %overflow, align 4\n  %fits = icmp eq i32 %over, 0\n"
              "  %equal_int = icmp eq i64 %int, %b\n  %int_ok = and i1 %fits, %equal_int\n"
              "  br i1 %int_ok, label %next, label %none\n"),
        block(Op.STR,
              "  %str_is = icmp eq ptr %v, %a\n  br i1 %str_is, label %next, label %str_type\nstr_type:\n"
              + typed(Op.STR, id(str), "str_read")
              + f"str_read:\n  %str_order = call i32 {f('PyUnicode_Compare')}(ptr %v, ptr %a)\n"
              "  %str_ok = icmp eq i32 %str_order, 0\n  br i1 %str_ok, label %next, label %none\n"),
        block(Op.FLOAT,
              typed(Op.FLOAT, id(float), "float_read")
              + f"float_read:\n  %float = call double {f('PyFloat_AsDouble')}(ptr %v)\n"
              "  %float_bits = bitcast double %float to i64\n" + same("float", "%float_bits", "%b", "next")),
        block(Op.LENGTH, typed(Op.LENGTH, "%ai", "length_read") + "length_read:\n" + field("length", "%v", SIZE)
              + same("length", "%length", "%b", "next")),
        block(Op.ELEMENT,
              typed(Op.ELEMENT, "%ai", "element_size") + "element_size:\n" + field("size", "%v", SIZE)
              + field("index", "%pc", 12, "i32")
              + "  %index_wide = zext i32 %index to i64\n  %inside = icmp ult i64 %index_wide, %size\n"
              "  br i1 %inside, label %element_read, label %none\nelement_read:\n"
              "  %element_of = inttoptr i64 %b to ptr\n"
              "  %element = call ptr %element_of(ptr %v, i64 %index_wide)\n" + store(Op.ELEMENT, "%element")),
        block(Op.KEYS,
              string_keys(Op.KEYS, "keys_size") + field("used", "%v", SIZE) + same("used", "%used", "%b", "keys_begin")
              + "keys_begin:\n  store i64 0, ptr %position, align 8\n  br label %keys_loop\nkeys_loop:\n"
              "  %n = phi i64 [0, %keys_begin], [%n_next, %keys_next]\n"
              "  %keys_done = icmp uge i64 %n, %b\n  br i1 %keys_done, label %next, label %keys_step\nkeys_step:\n"
              f"  %more = call i32 {f('PyDict_Next')}(ptr %v, ptr %position, ptr %key, ptr null)\n"
              "  %has_more = icmp ne i32 %more, 0\n  br i1 %has_more, label %keys_compare, label %none\nkeys_compare:\n"
              "  %k = load ptr, ptr %key, align 8\n"
              f"  %expected = call ptr {f('PyTuple_GetItem')}(ptr %a, i64 %n)\n"
              "  %key_is = icmp eq ptr %k, %expected\n  br i1 %key_is, label %keys_next, label %keys_string\n"
              "keys_string:\n"
              + field("key_type", "%k", TYPE) + same("key_type", "%key_type", id(str), "keys_equal")
              + f"keys_equal:\n  %key_order = call i32 {f('PyUnicode_Compare')}(ptr %k, ptr %expected)\n"
              "  %key_ok = icmp eq i32 %key_order, 0\n  br i1 %key_ok, label %keys_next, label %none\n"
              "keys_next:\n  %n_next = add i64 %n, 1\n  br label %keys_loop\n"),
        block(Op.CODE,
              typed(Op.CODE, id(types.FunctionType), "code_read")
              + f"code_read:\n  %code = call ptr {f('PyFunction_GetCode')}(ptr %v)\n"
              "  %code_ok = icmp eq ptr %code, %a\n  br i1 %code_ok, label %next, label %none\n"),
        block(Op.CELL, typed(Op.CELL, id(types.CellType), "cell_read") + "cell_read:\n"
              + field("content", "%v", CELL, "ptr") + store(Op.CELL, "%content")),
        block(Op.FUNCTION_PART,
              typed(Op.FUNCTION_PART, id(types.FunctionType), "part_read")
              + "part_read:\n  %part_of = inttoptr i64 %b to ptr\n  %part = call ptr %part_of(ptr %v)\n"
              + store(Op.FUNCTION_PART, "%part")),
        block(Op.WEAK_TYPE,
              field("weak_type", "%v", TYPE) + f"  %weak_class = call ptr {f('PyWeakref_GetObject')}(ptr %a)\n"
              "  %weak_word = ptrtoint ptr %weak_class to i64\n"
              + same("weak_type", "%weak_type", "%weak_word", "next")),
        block(Op.WEAK_IS,
              f"  %weak_object = call ptr {f('PyWeakref_GetObject')}(ptr %a)\n"
              "  %weak_is = icmp eq ptr %v, %weak_object\n  br i1 %weak_is, label %next, label %none\n"),
        block(Op.NOT_SAME, "  %not_other = load ptr, ptr %slot, align 8\n  %not_same = icmp ne ptr %v, %not_other\n"
                           "  br i1 %not_same, label %next, label %none\n"),
        block(Op.CALL_IS,
              "  %callee = inttoptr i64 %b to ptr\n"
              f"  %answer = call ptr %callee(ptr %v, ptr inttoptr (i64 {id(())} to ptr), i64 0, ptr null)\n"
              "  %no_answer = icmp eq ptr %answer, null\n  br i1 %no_answer, label %none, label %answer_compare\n"
              f"answer_compare:\n  call void {f('Py_DecRef')}(ptr %answer)\n"
              "  %answer_is = icmp eq ptr %answer, %a\n  br i1 %answer_is, label %next, label %none\n"),
        block(Op.ANSWER_IS,
              "  %question = inttoptr i64 %b to ptr\n  %reply = call i64 %question(i64 %ai)\n"
              + field("expected_reply", "%pc", 12, "i32")
              + "  %reply_mask = lshr i32 %expected_reply, 16\n  %reply_wanted = and i32 %expected_reply, 65535\n"
              "  %reply_low = trunc i64 %reply to i32\n  %reply_masked = and i32 %reply_low, %reply_mask\n"
              "  %reply_is = icmp eq i32 %reply_masked, %reply_wanted\n  br i1 %reply_is, label %next, label %none\n"),
        block(Op.CLASS_FUNCTION,
              f"  %member = call ptr {f('_PyType_Lookup')}(ptr %v, ptr %a)\n"
              "  %member_none = icmp eq ptr %member, null\n  br i1 %member_none, label %none, label %member_type\n"
              "member_type:\n" + typed(Op.CLASS_FUNCTION, id(types.FunctionType), "member_store", "%member")
              + "member_store:\n  store ptr %member, ptr %slot, align 8\n  br label %next\n"),
        block(Op.FIELD_IS,
              field("offset", "%pc", 12, "i32") + "  %field_at = getelementptr i8, ptr %v, i32 %offset\n"
              "  %held = load ptr, ptr %field_at, align 8\n  %held_is = icmp eq ptr %held, %a\n"
              "  br i1 %held_is, label %next, label %none\n"),
        block(Op.SAME_TAG,
              "  %tag_known_at = inttoptr i64 %b to ptr\n  %tag = load i32, ptr %a, align 4\n"
              "  %tag_known = load i32, ptr %tag_known_at, align 4\n  %tag_is = icmp eq i32 %tag, %tag_known\n"
              "  br i1 %tag_is, label %next, label %none\n"),
        block(Op.TENSOR, _tensor_block(tensors, field, same)),
        *(block(op, text) for rows in (arithmetic, memory) for op, text in rows.blocks(tensors, field).items()),
    ]
    cases = "\n".join(f"    i32 {op.value}, label %op_{op.name}" for op in Op if op is not Op.END)
    return f"""
define ptr @firesteel_guards(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %wide = alloca i64, align 8
  %narrow = alloca i32, align 4
  %pointer = alloca ptr, align 8
  %position = alloca i64, align 8
  %key = alloca ptr, align 8
  %overflow = alloca i32, align 4
  %table = call ptr {f('PyTuple_GetItem')}(ptr %self, i64 0)
  %program = call ptr {f('PyBytes_AsString')}(ptr %table)
  %wanted = load i64, ptr %program, align 8
  %count_ok = icmp eq i64 %wanted, %given
  br i1 %count_ok, label %prepare, label %none
prepare:
{field('registers_count', '%program', 8)}{field('input_count', '%program', 16)}{field('other_count', '%program', 24)}
{field('outputs_offset', '%program', 32)}
  %outputs = getelementptr i8, ptr %program, i64 %outputs_offset
  %registers = alloca ptr, i64 %registers_count, align 8
  %first = getelementptr i8, ptr %program, i64 {HEADER.size}
  br label %copy
copy:
  %i = phi i64 [0, %prepare], [%i_next, %copy_one]
  %copied = icmp uge i64 %i, %given
  br i1 %copied, label %loop, label %copy_one
copy_one:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument_at, align 8
  %register_at = getelementptr ptr, ptr %registers, i64 %i
  store ptr %argument, ptr %register_at, align 8
  %i_next = add i64 %i, 1
  br label %copy
loop:
  %pc = phi ptr [%first, %copy], [%pc_next, %next]
  %op = load i32, ptr %pc, align 8
{field('destination', '%pc', 4, 'i32')}{field('source', '%pc', 8, 'i32')}{field('ai', '%pc', 16)}{field('b', '%pc', 24)}
  %a = inttoptr i64 %ai to ptr
  %slot = getelementptr ptr, ptr %registers, i32 %destination
  %source_at_register = getelementptr ptr, ptr %registers, i32 %source
  %v = load ptr, ptr %source_at_register, align 8
  switch i32 %op, label %none [
    i32 {Op.END.value}, label %success
{cases}
  ]
next:
  %pc_next = getelementptr i8, ptr %pc, i64 {ROW.size}
  br label %loop

{"".join(blocks)}
success:
  %inputs = call ptr {f('PyTuple_New')}(i64 %input_count)
  %no_memory = icmp eq ptr %inputs, null
  br i1 %no_memory, label %none, label %fill_inputs
fill_inputs:
  %inputs_full = call i1 @fill(ptr %inputs, i64 0, ptr %outputs, i64 %input_count, ptr %registers)
  br i1 %inputs_full, label %after_inputs, label %drop_inputs
after_inputs:
  %only_inputs = icmp eq i64 %other_count, 0
  br i1 %only_inputs, label %give_inputs, label %with_others
give_inputs:
  ret ptr %inputs
with_others:
  %all_count = add i64 %other_count, 1
  %all = call ptr {f('PyTuple_New')}(i64 %all_count)
  %no_memory_2 = icmp eq ptr %all, null
  br i1 %no_memory_2, label %drop_inputs, label %fill_all
drop_inputs:
  call void {f('Py_DecRef')}(ptr %inputs)
  br label %none
fill_all:
  %put = call i32 {f('PyTuple_SetItem')}(ptr %all, i64 0, ptr %inputs)
  %others = getelementptr i64, ptr %outputs, i64 %input_count
  %all_full = call i1 @fill(ptr %all, i64 1, ptr %others, i64 %other_count, ptr %registers)
  br i1 %all_full, label %give_all, label %drop_all
give_all:
  ret ptr %all
drop_all:
  call void {f('Py_DecRef')}(ptr %all)
  br label %none
none:
  call void {f('PyErr_Clear')}()
  %nothing = inttoptr i64 {id(None)} to ptr
  call void {f('Py_IncRef')}(ptr %nothing)
  ret ptr %nothing
}}

define internal i1 @fill(ptr %tuple, i64 %from, ptr %list, i64 %count, ptr %registers) {{
entry:
  %all_items = getelementptr i8, ptr %tuple, i64 {ITEMS}
  %items = getelementptr ptr, ptr %all_items, i64 %from
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i_next, %put_one]
  %done = icmp uge i64 %i, %count
  br i1 %done, label %full, label %one
one:
  %number_at = getelementptr i64, ptr %list, i64 %i
  %number = load i64, ptr %number_at, align 8
  %is_number = icmp slt i64 %number, 0
  br i1 %is_number, label %make_int, label %take_object
take_object:
  %register = getelementptr ptr, ptr %registers, i64 %number
  %object = load ptr, ptr %register, align 8
  call void {f('Py_IncRef')}(ptr %object)
  br label %put_one
make_int:
  %inverted = xor i64 %number, -1
  %int_register = getelementptr i64, ptr %registers, i64 %inverted
  %value = load i64, ptr %int_register, align 8
  %int = call ptr {f('PyLong_FromLongLong')}(i64 %value)
  %no_memory = icmp eq ptr %int, null
  br i1 %no_memory, label %failed, label %put_one
put_one:
  %owned = phi ptr [%object, %take_object], [%int, %make_int]
  %item = getelementptr ptr, ptr %items, i64 %i
  store ptr %owned, ptr %item, align 8
  %i_next = add i64 %i, 1
  br label %loop
full:
  ret i1 true
failed:
  ret i1 false
}}
{arithmetic.DECLARATIONS}"""


def _tensor_block(tensors: TensorLayout | None, field: Callable[..., str], same: Callable[..., str]) -> str:
    """Compare a tensor with its description, cheapest and most telling first."""
    if tensors is None:
        return "  br label %none\n"
    decref = f"inttoptr (i64 {c_function('Py_DecRef')} to ptr)"

    def ask(name: str, function: int, result: str, then: str) -> str:
        """Call a function of torch's C interface on the tensor and go on if it succeeds."""
        return (f"  %{name}_status = call i32 inttoptr (i64 {function} to ptr)(ptr %tensor, ptr %{result})\n"
                f"  %{name}_ok = icmp eq i32 %{name}_status, 0\n"
                f"  br i1 %{name}_ok, label %{then}, label %none\n{then}:\n")

    def number(name: str, function: int, offset: int, kind: str, then: str) -> str:
        return (ask(name, function, "wide" if kind == "i64" else "narrow", f"{name}_compare")
                + f"  %{name} = load {kind}, ptr %{'wide' if kind == 'i64' else 'narrow'}, align {ALIGNMENT[kind]}\n"
                + field(f"want_{name}", "%facts", offset, kind)
                + f"  %{name}_equal = icmp eq {kind} %{name}, %want_{name}\n"
                f"  br i1 %{name}_equal, label %{then}, label %none\n{then}:\n")

    def extents(name: str, function: int, base: str, then: str) -> str:
        """Compare sizes or strides."""
        return (ask(name, function, "pointer", f"{name}_begin")
                + f"  %{name} = load ptr, ptr %pointer, align 8\n  br label %{name}_loop\n{name}_loop:\n"
                f"  %{name}_d = phi i64 [0, %{name}_begin], [%{name}_d_next, %{name}_next]\n"
                f"  %{name}_done = icmp uge i64 %{name}_d, %want_dim\n"
                f"  br i1 %{name}_done, label %{then}, label %{name}_one\n{name}_one:\n"
                f"  %{name}_e_at = getelementptr i64, ptr %{name}, i64 %{name}_d\n"
                f"  %{name}_e = load i64, ptr %{name}_e_at, align 8\n"
                f"  %{name}_w_at = getelementptr i64, ptr {base}, i64 %{name}_d\n"
                f"  %{name}_w = load i64, ptr %{name}_w_at, align 8\n"
                f"  %{name}_equal = icmp eq i64 %{name}_e, %{name}_w\n"
                f"  br i1 %{name}_equal, label %{name}_next, label %{name}_differs\n{name}_differs:\n"
                f"  %{name}_free = icmp eq i64 %{name}_w, {ANY}\n"
                f"  br i1 %{name}_free, label %{name}_next, label %none\n"
                f"{name}_next:\n  %{name}_d_next = add i64 %{name}_d, 1\n  br label %{name}_loop\n{then}:\n")

    text = (
        "  %facts = getelementptr i8, ptr %program, i64 %ai\n"
        + field("t_type", "%v", TYPE) + field("want_type", "%facts", 0)
        + same("t_type", "%t_type", "%want_type", "tensor_keys") + "tensor_keys:\n"
        f"  %tensor = getelementptr i8, ptr %v, i64 {tensors.implementation}\n"
        "  %impl = load ptr, ptr %tensor, align 8\n"
        "  %impl_null = icmp eq ptr %impl, null\n  br i1 %impl_null, label %none, label %tensor_keys_read\n"
        "tensor_keys_read:\n"
        + field("keyset", "%impl", tensors.dispatch_keys) + field("want_keyset", "%facts", 8)
        + same("keyset", "%keyset", "%want_keyset", "tensor_dtype") + "tensor_dtype:\n"
        + number("dtype", tensors.dtype, 24, "i32", "tensor_dim")
        + number("dim", tensors.dim, 16, "i64", "tensor_sizes")
        + f"  %want_sizes = getelementptr i8, ptr %facts, i64 {TENSOR.size}\n"
        "  %want_strides = getelementptr i64, ptr %want_sizes, i64 %want_dim\n"
        + extents("sizes", tensors.sizes, "%want_sizes", "tensor_strides")
        + extents("strides", tensors.strides, "%want_strides", "tensor_device")
        + number("device_type", tensors.device_type, 28, "i32", "tensor_index")
        + number("device_index", tensors.device_index, 32, "i32", "tensor_grad")
        + f"  %grad = call zeroext i1 inttoptr (i64 {tensors.requires_grad} to ptr)(ptr %impl)\n"
        "  %grad_word = zext i1 %grad to i32\n" + field("want_grad", "%facts", 36, "i32")
        + "  %grad_equal = icmp eq i32 %grad_word, %want_grad\n  br i1 %grad_equal, label %tensor_leaf, label %none\n"
        "tensor_leaf:\n" + field("want_leaf", "%facts", 40)
        + "  %leaf_free = icmp eq i64 %want_leaf, 0\n  br i1 %leaf_free, label %next, label %tensor_leaf_look\n"
        "tensor_leaf_look:\n"
    )
    if tensors.autograd is not None:
        # A plain tensor without gradient function is a leaf. Everything else is left to the getter.
        text += (
            f"  %want_true = icmp eq i64 %want_leaf, {id(True)}\n"
            "  br i1 %want_true, label %leaf_record, label %leaf_ask\nleaf_record:\n"
            + field("record", "%impl", tensors.autograd.record, "ptr")
            + "  %record_null = icmp eq ptr %record, null\n  br i1 %record_null, label %leaf_ask, label %leaf_class\n"
            "leaf_class:\n  %class = load i64, ptr %record, align 8\n"
            + field("grad_fn", "%record", tensors.autograd.function)
            + f"  %class_plain = icmp eq i64 %class, {tensors.autograd.plain}\n"
            "  %grad_fn_null = icmp eq i64 %grad_fn, 0\n  %leaf_sure = and i1 %class_plain, %grad_fn_null\n"
            "  br i1 %leaf_sure, label %next, label %leaf_ask\n"
        )
    else:
        text += "  br label %leaf_ask\n"
    function, closure = tensors.is_leaf
    return text + (
        "leaf_ask:\n"
        f"  %leaf = call ptr inttoptr (i64 {function} to ptr)(ptr %v, ptr inttoptr (i64 {closure} to ptr))\n"
        "  %leaf_failed = icmp eq ptr %leaf, null\n  br i1 %leaf_failed, label %none, label %leaf_compare\n"
        f"leaf_compare:\n  %leaf_word = ptrtoint ptr %leaf to i64\n  call void {decref}(ptr %leaf)\n"
        + same("leaf", "%leaf_word", "%want_leaf", "next")
    )


# Trying it out


def self_test(made: Machine) -> None:
    """Run every operation on objects that hold and objects that do not."""
    for number, (op, holds, fails) in enumerate((*_samples(), *arithmetic.samples(), *memory.samples(made.tensors))):
        program = Program(1)
        op(program)
        run = made.function(program, [program.registers - 1], [0])
        for value in holds:
            found = run(value)
            if found is None or found[1] is not value or len(found) != 2 or len(found[0]) != 1:
                raise NativeUnavailable(f"the self-test failed: sample {number} refused {value!r:.40}")
        for value in fails:
            if run(value) is not None or run() is not None:
                raise NativeUnavailable(f"the self-test failed: sample {number} accepted {value!r:.40}")


def _samples() -> list[tuple[Callable[[Program], Any], list[Any], list[Any]]]:
    instance = Instance()
    instance.a = 1
    def inner() -> Any:
        return instance

    cell = inner.__closure__[0]  # type: ignore[index]
    code, key = inner.__code__, "some key"
    table = {key: 1, "other": 2}
    tuple_item, closure = c_function("PyTuple_GetItem"), c_function("PyFunction_GetClosure")
    tags = (ctypes.c_uint32 * 3)(7, 7, 8)

    def same_tags(p: Program, first: int) -> None:
        p.keep(tags)
        p.check(Op.SAME_TAG, 0, ctypes.addressof(tags) + 4 * first, ctypes.addressof(tags) + 4 * first + 4)

    def answers(p: Program, mask: int, wanted: int) -> None:
        p.check(Op.ANSWER_IS, 0, 0, c_function("PyGILState_Check"), index=mask << 16 | wanted)

    weak, answer, order = weakref.ref(Instance), builtin_parts(sys.is_finalizing), mro_offset()
    return [
        (lambda p: p.load(Op.CONSTANT, a=p.keep(key)), [1], []),
        (lambda p: p.load(Op.INSTANCE_DICT), [instance], [inner, 1, object()]),
        (lambda p: p.load(Op.ITEM, 0, p.keep(key), hash(key)), [table], [{}, {key: 1, 2: 3}, [key], None]),
        (lambda p: p.check(Op.MISSING, 0, p.keep(key), hash(key)), [{}, {"a": 1}], [table, {1: 1}, [key]]),
        (lambda p: p.check(Op.ITEM_EMPTY, 0, p.keep(key), hash(key)),
         [{key: {}}, {key: collections.OrderedDict()}], [{key: {1: 2}}, {}, {key: []}, 1]),
        (lambda p: p.check(Op.TYPE, 0, p.keep(int)), [1, 2], [True, "a", None]),
        (lambda p: p.check(Op.IS, 0, p.keep(None)), [None], [0, False]),
        (lambda p: p.check(Op.SAME, 0, other=0), [1], []),
        (lambda p: p.check(Op.INT, 0, p.keep(1 << 40), 1 << 40), [int("1099511627776")], [1, -1, 1 << 70, 1.0, None]),
        (lambda p: p.check(Op.STR, 0, p.keep(key)), [key, " ".join(["some", "key"])], ["some keys", b"some key", None]),
        (lambda p: p.check(Op.FLOAT, 0, b=struct.unpack("=q", struct.pack("=d", 0.0))[0]), [0.0], [-0.0, 1.0, 0, None]),
        (lambda p: p.check(Op.LENGTH, 0, p.keep(list), 2), [[1, 2]], [[], (1, 2), None]),
        (lambda p: p.load(Op.ELEMENT, 0, p.keep(tuple), tuple_item, 1), [(1, 2), (1, 2, 3)], [(1,), (), [1, 2], None]),
        (lambda p: p.check(Op.KEYS, 0, p.keep((key, "other")), 2),
         [table, {" ".join(["some", "key"]): 0, "other": 1}],
         [{}, {key: 1, "z": 2}, {"other": 1, key: 2}, {key: 1, 2: 1}, []]),
        (lambda p: p.check(Op.CODE, 0, p.keep(code)), [inner], [_samples, None, 1]),
        (lambda p: p.load(Op.CELL), [cell], [types.CellType(), 1]),
        (lambda p: p.load(Op.FUNCTION_PART, b=closure), [inner], [_samples, 1]),
        (lambda p: p.check(Op.WEAK_TYPE, 0, p.keep(weak)), [instance], [Instance, 1]),
        (lambda p: p.check(Op.WEAK_IS, 0, p.keep(weak)), [Instance], [instance, 1]),
        (lambda p: p.check(Op.NOT_SAME, 0, other=p.load(Op.CONSTANT, a=p.keep(key))), [1, "x"], [key]),
        (lambda p: p.load(Op.CLASS_FUNCTION, p.load(Op.CONSTANT, a=p.keep(Machine)), p.keep("function")), [1], []),
        (lambda p: p.load(Op.CLASS_FUNCTION, p.load(Op.CONSTANT, a=p.keep(Instance)), p.keep("a")), [], [1]),
        (lambda p: p.check(Op.FIELD_IS, 0, p.keep(bool.__mro__), index=order), [bool], [int, str]),
        (lambda p: same_tags(p, 0), [1], []),
        (lambda p: same_tags(p, 1), [], [1]),
        (lambda p: p.check(Op.CALL_IS, 0, p.keep(False), answer[0]), [1], []),
        (lambda p: p.check(Op.CALL_IS, 0, p.keep(True), answer[0]), [], [1]),
        (lambda p: answers(p, 1, 1), [1], []),
        (lambda p: answers(p, 2, 0), [1], []),
        (lambda p: answers(p, 1, 0), [], [1]),
    ]
