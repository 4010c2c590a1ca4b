"""The host machine: LLVM IR that walks the table of a native stretch: allocates, launches kernels, returns tensors.

It is one fast-call builtin over CPython's C API and the functions that torch's libraries export for compiled models,
compiled once per process and kept on disk. A stretch that fails raises RuntimeError and gives back all that it had.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from ... import disk_cache, torch_compat
from ...errors import NUMBER_TOO_LARGE
from ...locks import new_lock
from ...native import arithmetic
from ...native.builtins import builtin_maker
from ...native.loader import load_code
from ...native.objects import ITEMS, NativeUnavailable, c_function, check_layout
from ...native.program import ROW
from ...native.program import Op as Arithmetic
from ...systems import process_library
from ...torch_compat import c_interface, native_calls
from .program import ARITHMETIC, HEADER, LARGE, HostProgram, Op

ALIGNMENT = {"i64": 8, "ptr": 8, "i32": 4, "double": 8}
PAGE, HUGE_PAGES = 4096, 14
"""The size of a page and Linux's number for ``MADV_HUGEPAGE``."""
PYTHON_FUNCTIONS = (
    "PyTuple_GetItem", "PyTuple_New", "PyBytes_AsString", "Py_IncRef", "Py_DecRef", "PyLong_AsLongLong",
    "PyFloat_AsDouble", "PyErr_Occurred", "PyErr_SetString", "PyEval_SaveThread", "PyEval_RestoreThread",
)
TORCH_FUNCTIONS = (
    "get_data_ptr", "get_sizes", "get_strides", "empty_strided", "_reinterpret_tensor", "delete_tensor_object",
)


class HostMachine:
    """The compiled machine."""

    def __init__(self) -> None:
        check_layout()
        implementation = native_calls.implementation_offset()
        if implementation is None:
            raise NativeUnavailable("tensors of this torch are not laid out as expected")
        addresses = {name: c_function(name) for name in PYTHON_FUNCTIONS}
        for name in TORCH_FUNCTIONS:
            addresses[f"torch_{name}"] = _address(c_interface.c_function(name), name)
        addresses["wrap_tensor"] = _address(native_calls.tensor_wrapping_function(), "wrapping of tensors")
        libc = process_library()
        for name in ("posix_memalign", "free", "madvise"):
            addresses[name] = _address(getattr(libc, name, None), name)
        addresses["RuntimeError"] = id(RuntimeError)
        code, address = _load(source(implementation), addresses)
        self._new = builtin_maker("firesteel_host", address, code)

    def function(self, table: tuple[bytes, tuple[Any, ...]]) -> Callable[..., Any]:
        """The builtin that runs a finished program."""
        return self._new(table)


_machine: HostMachine | NativeUnavailable | None = None
_lock = new_lock()


def machine() -> HostMachine:
    """The machine of this process, made on first use. Raises NativeUnavailable where there can be none."""
    global _machine
    if _machine is None:
        with _lock:
            if _machine is None:
                try:
                    with torch_compat.without_modes():
                        made = HostMachine()
                        self_test(made)
                    _machine = made
                except NativeUnavailable as error:
                    _machine = error
    if isinstance(_machine, NativeUnavailable):
        raise _machine
    return _machine


def _address(function: Any, name: str) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value if function is not None else None
    if address is None:
        raise NativeUnavailable(f"not exported: {name}")
    return address


def _load(text: str, addresses: dict[str, int]) -> tuple[Any, int]:
    """Compile, or fetch from disk; names that the code refers to are found by their addresses."""
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ImportError as error:
        raise NativeUnavailable(f"llvmlite cannot be imported: {error}") from None
    try:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for name, address in addresses.items():
            llvm.add_symbol(f"firesteel_{name}", address)
        # The first call waits for this: optimised code takes 15 ms longer to make and saves 0.03 us of a call.
        target = llvm.Target.from_default_triple().create_target_machine(
            opt=0, jit=True, reloc="pic", codemodel="small")
        key = disk_cache.digest("host machine", "small, quick", text, llvmlite.__version__, llvm.get_default_triple())
        code = disk_cache.get("host_machine", key)
        if code is None:
            module = llvm.parse_assembly(text)
            module.verify()
            code = target.emit_object(module)
            disk_cache.put("host_machine", key, code)
        loaded = load_code(code, llvm)
        return loaded, loaded.address("firesteel_host")
    except RuntimeError as error:
        raise NativeUnavailable(f"LLVM: {error}") from None


# The machine


def source(implementation: int) -> str:
    """The machine as LLVM IR. ``implementation`` is the offset of a tensor's C++ part in its Python object."""

    def field(name: str, base: str, offset: int, kind: str = "i64") -> str:
        return (f"  %{name}_at = getelementptr i8, ptr {base}, i64 {offset}\n"
                f"  %{name} = load {kind}, ptr %{name}_at, align {ALIGNMENT[kind]}\n")

    def block(op: Op, text: str) -> str:
        return f"op_{op.name}:\n{text}\n"

    def succeeded(name: str, then: str, otherwise: str = "failed") -> str:
        """Go on if a function of torch's C interface succeeded."""
        return (f"  %{name}_ok = icmp eq i32 %{name}_status, 0\n"
                f"  br i1 %{name}_ok, label %{then}, label %{otherwise}\n{then}:\n")

    def handle(op: Op) -> str:
        return f"  %{op.name}_tensor = getelementptr i8, ptr %v, i64 {implementation}\n"

    def store(value: str, kind: str = "i64") -> str:
        return f"  store {kind} {value}, ptr %slot, align 8\n  br label %next\n"

    def asked(op: Op, function: str) -> str:
        return (handle(op) + f"  %{op.name}_status = call i32 @firesteel_{function}(ptr %{op.name}_tensor, ptr %out)\n"
                + succeeded(op.name, f"{op.name}_read"))

    def extent(op: Op, function: str) -> str:
        n = op.name
        return (asked(op, function) + field(f"{n}_index", "%pc", 12, "i32")
                + f"  %{n}_all = load ptr, ptr %out, align 8\n"
                f"  %{n}_at = getelementptr i64, ptr %{n}_all, i32 %{n}_index\n"
                f"  %{n}_value = load i64, ptr %{n}_at, align 8\n" + store(f"%{n}_value"))

    def number(op: Op, function: str, kind: str, unlikely: str) -> str:
        """A Python number. The value that also stands for an error is looked at again."""
        n = op.name
        compare = "fcmp oeq double" if kind == "double" else "icmp eq i64"
        return (f"  %{n}_value = call {kind} @firesteel_{function}(ptr %v)\n"
                f"  %{n}_suspect = {compare} %{n}_value, {unlikely}\n"
                f"  br i1 %{n}_suspect, label %{n}_look, label %{n}_store\n{n}_look:\n"
                f"  %{n}_error = call ptr @firesteel_PyErr_Occurred()\n  %{n}_fine = icmp eq ptr %{n}_error, null\n"
                f"  br i1 %{n}_fine, label %{n}_store, label %raised\n{n}_store:\n" + store(f"%{n}_value", kind))

    def extents(op: Op) -> str:
        """Sizes and strides of a new tensor: %…_rank, %…_sizes, %…_strides."""
        n = op.name
        return (field(f"{n}_index", "%pc", 12, "i32") + f"  %{n}_rank32 = and i32 %{n}_index, 65535\n"
                f"  %{n}_rank = zext i32 %{n}_rank32 to i64\n  %{n}_table = icmp ult i32 %{n}_index, 65536\n"
                f"  %{n}_in_table = getelementptr i8, ptr %program, i64 %ai\n"
                f"  %{n}_in_registers = getelementptr i64, ptr %registers, i64 %ai\n"
                f"  %{n}_sizes = select i1 %{n}_table, ptr %{n}_in_table, ptr %{n}_in_registers\n"
                f"  %{n}_strides = getelementptr i64, ptr %{n}_sizes, i64 %{n}_rank\n")

    def wrapped(op: Op) -> str:
        """The Python object of the tensor in %out, which is let go."""
        n = op.name
        return (f"  %{n}_made = load ptr, ptr %out, align 8\n"
                f"  %{n}_object = call ptr @firesteel_wrap_tensor(ptr %{n}_made)\n"
                f"  %{n}_gone = call i32 @firesteel_torch_delete_tensor_object(ptr %{n}_made)\n"
                f"  %{n}_null = icmp eq ptr %{n}_object, null\n  br i1 %{n}_null, label %raised, label %{n}_keep\n"
                f"{n}_keep:\n  store ptr %{n}_object, ptr %slot, align 8\n")

    def copied(name: str, count: str, array: str, start: str, before: str, then: str) -> str:
        """Copy registers named by a list into an array."""
        return (f"  br label %{name}_loop\n{name}_loop:\n"
                f"  %{name}_i = phi i64 [0, %{before}], [%{name}_i_next, %{name}_one]\n"
                f"  %{name}_done = icmp uge i64 %{name}_i, {count}\n"
                f"  br i1 %{name}_done, label %{then}, label %{name}_one\n{name}_one:\n"
                f"  %{name}_which_at = getelementptr i64, ptr {start}, i64 %{name}_i\n"
                f"  %{name}_which = load i64, ptr %{name}_which_at, align 8\n"
                f"  %{name}_from = getelementptr i64, ptr %registers, i64 %{name}_which\n"
                f"  %{name}_word = load i64, ptr %{name}_from, align 8\n"
                f"  %{name}_to = getelementptr i64, ptr {array}, i64 %{name}_i\n"
                f"  store i64 %{name}_word, ptr %{name}_to, align 8\n"
                f"  %{name}_i_next = add i64 %{name}_i, 1\n  br label %{name}_loop\n{then}:\n")

    blocks = [
        f"op_CONSTANT:\n{store('%ai')}\n",
        block(Op.MOVE, store("%v", "ptr")),
        block(Op.INTEGER, number(Op.INTEGER, "PyLong_AsLongLong", "i64", "-1")),
        block(Op.FLOAT, number(Op.FLOAT, "PyFloat_AsDouble", "double", "-1.0")),
        block(Op.POINTER, asked(Op.POINTER, "torch_get_data_ptr")
              + "  %address = load ptr, ptr %out, align 8\n" + store("%address", "ptr")),
        block(Op.SIZE, extent(Op.SIZE, "torch_get_sizes")),
        block(Op.STRIDE, extent(Op.STRIDE, "torch_get_strides")),
        block(Op.EMPTY,
              extents(Op.EMPTY) + "  %kind = trunc i64 %b to i32\n  %dtype = and i32 %kind, 255\n"
              "  %kind_of_device = lshr i32 %kind, 8\n  %device_type = and i32 %kind_of_device, 255\n"
              "  %device_index = lshr i32 %kind, 16\n"
              "  %EMPTY_status = call i32 @firesteel_torch_empty_strided(i64 %EMPTY_rank, ptr %EMPTY_sizes, "
              "ptr %EMPTY_strides, i32 %dtype, i32 %device_type, i32 %device_index, ptr %out)\n"
              + succeeded("EMPTY", "EMPTY_address", "no_memory") + "  %fresh = load ptr, ptr %out, align 8\n"
              "  %address_status = call i32 @firesteel_torch_get_data_ptr(ptr %fresh, ptr %second_out)\n"
              "  %fresh_address = load ptr, ptr %second_out, align 8\n"
              "  %address_slot = getelementptr ptr, ptr %registers, i32 %source\n"
              "  store ptr %fresh_address, ptr %address_slot, align 8\n" + wrapped(Op.EMPTY) + "  br label %next\n"),
        block(Op.VIEW,
              handle(Op.VIEW) + extents(Op.VIEW)
              + "  %VIEW_offset_at = getelementptr i64, ptr %VIEW_strides, i64 %VIEW_rank\n"
              "  %VIEW_offset = load i64, ptr %VIEW_offset_at, align 8\n"
              "  %VIEW_status = call i32 @firesteel_torch__reinterpret_tensor(ptr %VIEW_tensor, i64 %VIEW_rank, "
              "ptr %VIEW_sizes, ptr %VIEW_strides, i64 %VIEW_offset, ptr %out)\n" + succeeded("VIEW", "VIEW_wrap")
              + wrapped(Op.VIEW) + "  br label %next\n"),
        block(Op.MEMORY,
              "  %bytes = ptrtoint ptr %v to i64\n"
              "  %MEMORY_status = call i32 @firesteel_posix_memalign(ptr %slot, i64 64, i64 %bytes)\n"
              + succeeded("MEMORY", "MEMORY_got", "MEMORY_none") + "  br label %next\nMEMORY_none:\n"
              "  store ptr null, ptr %slot, align 8\n  br label %no_memory\n"),
        block(Op.ADVISE,
              "  %advised_at = getelementptr i64, ptr %registers, i64 %ai\n"
              "  %advised = load i64, ptr %advised_at, align 8\n"
              f"  %is_large = icmp sge i64 %advised, {LARGE}\n"
              "  br i1 %is_large, label %advise_now, label %next\nadvise_now:\n"
              "  %advised_start = ptrtoint ptr %v to i64\n  %advised_end = add i64 %advised_start, %advised\n"
              f"  %advised_up = add i64 %advised_start, {PAGE - 1}\n  %first_page = and i64 %advised_up, {-PAGE}\n"
              f"  %behind_pages = and i64 %advised_end, {-PAGE}\n"
              "  %whole_pages = sub i64 %behind_pages, %first_page\n  %pages = inttoptr i64 %first_page to ptr\n"
              f"  %ignored = call i32 @firesteel_madvise(ptr %pages, i64 %whole_pages, i32 {HUGE_PAGES})\n"
              "  br label %next\n"),
        block(Op.FREE,
              "  call void @firesteel_free(ptr %v)\n  %freed = getelementptr ptr, ptr %registers, i32 %source\n"
              "  store ptr null, ptr %freed, align 8\n  br label %next\n"),
        block(Op.LAUNCH,
              "  %list = getelementptr i8, ptr %program, i64 %b\n"
              + field("buffer_count", "%list", 0) + field("size_count", "%list", 8) + field("number_count", "%list", 16)
              + "  %all_buffers = getelementptr i8, ptr %list, i64 24\n"
              "  %two_counts = add i64 %buffer_count, %size_count\n"
              "  %all_counts = add i64 %two_counts, %number_count\n"
              "  %size_array = getelementptr i64, ptr %array, i64 %buffer_count\n"
              "  %number_array = getelementptr i64, ptr %array, i64 %two_counts\n"
              + copied("words", "%all_counts", "%array", "%all_buffers", "op_LAUNCH", "launch_now")
              + field("release", "%pc", 12, "i32") + "  %let_go = icmp ne i32 %release, 0\n"
              "  br i1 %let_go, label %launch_released, label %launch_held\nlaunch_held:\n"
              "  call void %a(ptr %array, ptr %size_array, ptr %number_array)\n  br label %next\nlaunch_released:\n"
              "  %thread = call ptr @firesteel_PyEval_SaveThread()\n"
              "  call void %a(ptr %array, ptr %size_array, ptr %number_array)\n"
              "  call void @firesteel_PyEval_RestoreThread(ptr %thread)\n  br label %next\n"),
        block(Op.DROP,
              "  call void @firesteel_Py_DecRef(ptr %v)\n  %dropped = getelementptr ptr, ptr %registers, i32 %source\n"
              "  store ptr null, ptr %dropped, align 8\n  br label %next\n"),
        block(Op.LAUNCH_BLOCKS,
              "  %blocks_list = getelementptr i8, ptr %program, i64 %b\n" + field("blocks_count", "%blocks_list", 0)
              + "  %blocks_words = getelementptr i8, ptr %blocks_list, i64 8\n"
              + copied("blocks", "%blocks_count", "%array", "%blocks_words", "op_LAUNCH_BLOCKS", "blocks_now")
              + "  %blocks_programs = ptrtoint ptr %v to i64\n  %blocks_launcher = load ptr, ptr %a, align 8\n"
              "  %blocks_status = call i32 %blocks_launcher(ptr %a, ptr %array, i64 %blocks_programs)\n"
              + succeeded("blocks", "blocks_launched", "not_launched") + "  br label %next\n"),
        *(f"op_{op.name}:\n{text}\n" for op, text in arithmetic.blocks(None, field).items() if op in ARITHMETIC),
    ]
    ops = [*Op, Arithmetic.CONSTANT, *sorted(ARITHMETIC)]
    cases = "\n".join(f"    i32 {op.value}, label %op_{op.name}" for op in ops)
    return f"""
define ptr @firesteel_host(ptr %self, ptr %arguments, i64 %given) {{
entry:
  %out = alloca ptr, align 8
  %second_out = alloca ptr, align 8
  %table = call ptr @firesteel_PyTuple_GetItem(ptr %self, i64 0)
  %program = call ptr @firesteel_PyBytes_AsString(ptr %table)
  %wanted = load i64, ptr %program, align 8
{field('registers_count', '%program', 8)}{field('array_count', '%program', 16)}{field('at_owned', '%program', 24)}
{field('memory_count', '%program', 32)}{field('object_count', '%program', 40)}{field('at_results', '%program', 48)}
{field('result_count', '%program', 56)}
  %count_ok = icmp eq i64 %wanted, %given
  br i1 %count_ok, label %prepare, label %wrong_count
wrong_count:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_arguments)
  ret ptr null
prepare:
  %registers = alloca i64, i64 %registers_count, align 8
  %array = alloca i64, i64 %array_count, align 8
  %owned = getelementptr i8, ptr %program, i64 %at_owned
  %owned_objects = getelementptr i64, ptr %owned, i64 %memory_count
  %results = getelementptr i8, ptr %program, i64 %at_results
  %register_bytes = mul i64 %registers_count, 8
  call void @llvm.memset.p0.i64(ptr align 8 %registers, i8 0, i64 %register_bytes, i1 false)
  %argument_bytes = mul i64 %given, 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %registers, ptr align 8 %arguments, i64 %argument_bytes, i1 false)
  %first = getelementptr i8, ptr %program, i64 {HEADER.size}
  br label %loop
loop:
  %pc = phi ptr [%first, %prepare], [%pc_next, %next]
  %op = load i32, ptr %pc, align 8
{field('destination', '%pc', 4, 'i32')}{field('source', '%pc', 8, 'i32')}{field('ai', '%pc', 16)}{field('b', '%pc', 24)}
  %a = inttoptr i64 %ai to ptr
  %slot = getelementptr ptr, ptr %registers, i32 %destination
  %source_slot = getelementptr ptr, ptr %registers, i32 %source
  %v = load ptr, ptr %source_slot, align 8
  switch i32 %op, label %none [
    i32 0, label %success
{cases}
  ]
next:
  %pc_next = getelementptr i8, ptr %pc, i64 {ROW.size}
  br label %loop

{"".join(blocks)}
none:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_number)
  br label %raised
failed:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_torch)
  br label %raised
no_memory:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_memory)
  br label %raised
not_launched:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_launch)
  br label %raised
success:
  %single = icmp slt i64 %result_count, 0
  br i1 %single, label %give_one, label %give_tuple
give_one:
  %one_number = load i64, ptr %results, align 8
  %one_at = getelementptr ptr, ptr %registers, i64 %one_number
  %one = load ptr, ptr %one_at, align 8
  call void @firesteel_Py_IncRef(ptr %one)
  br label %leave
give_tuple:
  %tuple = call ptr @firesteel_PyTuple_New(i64 %result_count)
  %tuple_null = icmp eq ptr %tuple, null
  br i1 %tuple_null, label %leave_tuple, label %fill_tuple
fill_tuple:
  %items = getelementptr i8, ptr %tuple, i64 {ITEMS}
  br label %fill
fill:
  %i = phi i64 [0, %fill_tuple], [%i_next, %fill_one]
  %filled = icmp uge i64 %i, %result_count
  br i1 %filled, label %leave_tuple, label %fill_one
fill_one:
  %result_at = getelementptr i64, ptr %results, i64 %i
  %result_number = load i64, ptr %result_at, align 8
  %result_slot = getelementptr ptr, ptr %registers, i64 %result_number
  %result = load ptr, ptr %result_slot, align 8
  call void @firesteel_Py_IncRef(ptr %result)
  %item = getelementptr ptr, ptr %items, i64 %i
  store ptr %result, ptr %item, align 8
  %i_next = add i64 %i, 1
  br label %fill
leave_tuple:
  br label %leave
raised:
  br label %leave
leave:
  %answer = phi ptr [%one, %give_one], [%tuple, %leave_tuple], [null, %raised]
  br label %memory_loop
memory_loop:
  %m = phi i64 [0, %leave], [%m_next, %memory_one]
  %m_done = icmp uge i64 %m, %memory_count
  br i1 %m_done, label %object_loop, label %memory_one
memory_one:
  %m_at = getelementptr i64, ptr %owned, i64 %m
  %m_number = load i64, ptr %m_at, align 8
  %m_slot = getelementptr ptr, ptr %registers, i64 %m_number
  %m_pointer = load ptr, ptr %m_slot, align 8
  call void @firesteel_free(ptr %m_pointer)
  %m_next = add i64 %m, 1
  br label %memory_loop
object_loop:
  %o = phi i64 [0, %memory_loop], [%o_next, %object_next]
  %o_done = icmp uge i64 %o, %object_count
  br i1 %o_done, label %done, label %object_one
object_one:
  %o_at = getelementptr i64, ptr %owned_objects, i64 %o
  %o_number = load i64, ptr %o_at, align 8
  %o_slot = getelementptr ptr, ptr %registers, i64 %o_number
  %o_pointer = load ptr, ptr %o_slot, align 8
  call void @firesteel_Py_DecRef(ptr %o_pointer)
  br label %object_next
object_next:
  %o_next = add i64 %o, 1
  br label %object_loop
done:
  ret ptr %answer
}}
{_declarations()}
"""


def _declarations() -> str:
    messages = {
        "arguments": "firesteel: a native function was called with a wrong number of arguments",
        "number": NUMBER_TOO_LARGE,
        "torch": "firesteel: torch refused to describe or view a tensor",
        "memory": "firesteel: there is not enough memory",
        "launch": "firesteel: CUDA refused to run a kernel",
    }
    constants = "\n".join(f'@message_{name} = private constant [{len(text) + 1} x i8] c"{text}\\00"'
                          for name, text in messages.items())
    return f"""{constants}
@firesteel_RuntimeError = external global i8
declare ptr @firesteel_PyTuple_GetItem(ptr, i64)
declare ptr @firesteel_PyTuple_New(i64)
declare ptr @firesteel_PyBytes_AsString(ptr)
declare void @firesteel_Py_IncRef(ptr)
declare void @firesteel_Py_DecRef(ptr)
declare i64 @firesteel_PyLong_AsLongLong(ptr)
declare double @firesteel_PyFloat_AsDouble(ptr)
declare ptr @firesteel_PyErr_Occurred()
declare void @firesteel_PyErr_SetString(ptr, ptr)
declare ptr @firesteel_PyEval_SaveThread()
declare void @firesteel_PyEval_RestoreThread(ptr)
declare i32 @firesteel_torch_get_data_ptr(ptr, ptr)
declare i32 @firesteel_torch_get_sizes(ptr, ptr)
declare i32 @firesteel_torch_get_strides(ptr, ptr)
declare i32 @firesteel_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @firesteel_torch__reinterpret_tensor(ptr, i64, ptr, ptr, i64, ptr)
declare i32 @firesteel_torch_delete_tensor_object(ptr)
declare ptr @firesteel_wrap_tensor(ptr)
declare i32 @firesteel_posix_memalign(ptr, i64, i64)
declare void @firesteel_free(ptr)
declare i32 @firesteel_madvise(ptr, i64, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
{arithmetic.DECLARATIONS}"""


# Trying it out


def self_test(made: HostMachine) -> None:
    """Make, view and read a tensor, and see that it goes away again."""
    import weakref

    program = HostProgram(1)
    tensor, _ = program.empty([2, 3], [3, 1], native_calls.dtype_number(torch.float32), None)
    view = program.view(0, [3], [2], 1, None)
    run = made.function(program.finish([tensor, view], True))
    base = torch.arange(6.0)
    fresh, seen = run(base)
    fits = type(fresh) is torch.Tensor and fresh.shape == (2, 3) and fresh.stride() == (3, 1) \
        and fresh.dtype is torch.float32 and fresh.device == base.device and seen.tolist() == [1.0, 3.0, 5.0]
    dead = weakref.ref(fresh)
    del fresh
    if not fits or dead() is not None:
        raise NativeUnavailable("the self-test failed")
