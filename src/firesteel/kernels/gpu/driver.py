"""Kernels on the GPU: loaded through CUDA's driver, launched by a small function of machine code.

A launch is `launch(descriptor, words, programs)`, where words are the arguments: addresses of buffers, sizes, numbers.
The descriptor says what is launched and with which functions of the driver and of torch, so that the function itself is
the same in every process. Kernels are compiled for buffers that begin at multiples of 16 bytes. Should one not, the
launch asks for another version of the kernel, which is made then.
"""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from dataclasses import dataclass
from typing import Any

import torch

from ... import torch_compat
from ...debug import log
from ...shapes import Expr
from ..cpu.engine import compile_text
from .triton_compiler import Binary, Request, compile_all
from .triton_printer import TritonKernel
from .values import Unsupported

NO_CONTEXT = 201
"""CUDA's error for threads that have not chosen a device yet."""
LIMIT = 48 * 1024
"""Shared memory that a kernel has without asking for more."""
_FIELDS = ("launcher", "aligned", "unaligned", "words", "buffers", "threads", "shared", "unaligned_shared", "device",
           "make", "number", "stream_of", "launch", "enter")
_AT = {name: 8 * position for position, name in enumerate(_FIELDS)}


@dataclass(frozen=True)
class GpuKernel:
    """A kernel that can be launched: the address of its descriptor, and how many programs it has."""

    name: str
    address: int
    programs: Expr
    key: str


def launcher_text(name: str) -> str:
    """The launching function as LLVM IR: int name(int64_t *descriptor, int64_t *words, int64_t programs)."""
    def field(what: str, kind: str = "i64", register: str = "") -> str:
        register = register or what
        return (f"  %{register}_at = getelementptr i8, ptr %d, i64 {_AT[what]}\n"
                f"  %{register} = load {kind}, ptr %{register}_at, align 8\n")

    return f"""
define i32 @{name}(ptr %d, ptr %given, i64 %programs) {{
entry:
  %none = icmp sle i64 %programs, 0
  br i1 %none, label %nothing, label %begin
nothing:
  ret i32 0
begin:
{field("words")}{field("buffers")}{field("threads")}{field("device")}{field("stream_of", "ptr")}{field("launch", "ptr")}
  %room = add i64 %words, 2
  %parameters = alloca ptr, i64 %room, align 8
  %zero = alloca i64, align 8
  %stream_out = alloca ptr, align 8
  store i64 0, ptr %zero, align 8
  store ptr null, ptr %stream_out, align 8
  br label %loop
loop:
  %i = phi i64 [0, %begin], [%i_next, %one]
  %bits = phi i64 [0, %begin], [%bits_next, %one]
  %done = icmp uge i64 %i, %words
  br i1 %done, label %filled, label %one
one:
  %word_at = getelementptr i64, ptr %given, i64 %i
  %parameter_at = getelementptr ptr, ptr %parameters, i64 %i
  store ptr %word_at, ptr %parameter_at, align 8
  %word = load i64, ptr %word_at, align 8
  %is_buffer = icmp ult i64 %i, %buffers
  %counted = select i1 %is_buffer, i64 %word, i64 0
  %bits_next = or i64 %bits, %counted
  %i_next = add i64 %i, 1
  br label %loop
filled:
  %scratch_at = getelementptr ptr, ptr %parameters, i64 %words
  store ptr %zero, ptr %scratch_at, align 8
  %after = add i64 %words, 1
  %second_at = getelementptr ptr, ptr %parameters, i64 %after
  store ptr %zero, ptr %second_at, align 8
  %low = and i64 %bits, 15
  %is_aligned = icmp eq i64 %low, 0
  br i1 %is_aligned, label %with_aligned, label %with_unaligned
with_aligned:
{field("aligned", "ptr")}{field("shared")}
  br label %run
with_unaligned:
{field("unaligned", "ptr")}
  %missing = icmp eq ptr %unaligned, null
  br i1 %missing, label %ask, label %have
ask:
{field("make", "ptr")}{field("number")}
  %asked = call i32 %make(i64 %number)
  %failed = icmp ne i32 %asked, 0
  br i1 %failed, label %refused, label %have
refused:
  ret i32 1
have:
{field("unaligned", "ptr", "made")}{field("unaligned_shared", "i64", "made_shared")}
  br label %run
run:
  %function = phi ptr [%aligned, %with_aligned], [%made, %have]
  %memory = phi i64 [%shared, %with_aligned], [%made_shared, %have]
  %device32 = trunc i64 %device to i32
  %stream_status = call i32 %stream_of(i32 %device32, ptr %stream_out)
  %stream = load ptr, ptr %stream_out, align 8
  %programs32 = trunc i64 %programs to i32
  %threads32 = trunc i64 %threads to i32
  %memory32 = trunc i64 %memory to i32
  %status = call i32 %launch(ptr %function, i32 %programs32, i32 1, i32 1, i32 %threads32, i32 1, i32 1,
                             i32 %memory32, ptr %stream, ptr %parameters, ptr null)
  %outside = icmp eq i32 %status, {NO_CONTEXT}
  br i1 %outside, label %come_in, label %end
come_in:
{field("enter", "ptr")}{field("number", "i64", "own_number")}
  %entered = call i32 %enter(i64 %own_number)
  %again = call i32 %launch(ptr %function, i32 %programs32, i32 1, i32 1, i32 %threads32, i32 1, i32 1,
                            i32 %memory32, ptr %stream, ptr %parameters, ptr null)
  br label %end
end:
  %answer = phi i32 [%status, %run], [%again, %come_in]
  ret i32 %answer
}}
"""


@functools.cache
def launcher() -> int:
    """The address of the launching function."""
    return compile_text("gpu launcher", launcher_text).address


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unsupported(f"CUDA's driver cannot be loaded: {error}") from None


@functools.cache
def _stream_function() -> int:
    function = torch_compat.cuda_library_function("aoti_torch_get_current_cuda_stream")
    if function is None:
        raise Unsupported("torch does not tell its current stream")
    return _address(function)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _check(status: int, what: str) -> None:
    if status:
        raise Unsupported(f"CUDA's {what} failed with error {status}")


def load(binary: Binary, device: torch.device) -> int:
    """Put machine code on a device; the handle of its function."""
    driver = _driver()
    with torch.cuda.device(device):
        enter(device)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary.code), "cuModuleLoadData")
        _check(driver.cuModuleGetFunction(ctypes.byref(function), module, binary.name.encode()), "cuModuleGetFunction")
        if binary.shared > LIMIT:
            _check(driver.cuFuncSetAttribute(function, 8, ctypes.c_int(binary.shared)), "cuFuncSetAttribute")
    return function.value or 0


def enter(device: torch.device) -> None:
    """Make the context of a device, which torch uses too, that of this thread, if it has none."""
    driver, context = _driver(), ctypes.c_void_p()
    _check(driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
    if not context.value:
        context = _context(device)
        _check(driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")


@functools.cache
def _context(device: torch.device) -> ctypes.c_void_p:
    torch.cuda.init()
    context, number = ctypes.c_void_p(), ctypes.c_int()
    _check(_driver().cuDeviceGet(ctypes.byref(number), device.index or 0), "cuDeviceGet")
    _check(_driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), number), "cuDevicePrimaryCtxRetain")
    return context


class _Descriptors:
    """All descriptors of the process; they live as long as it does."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.found: dict[tuple[str, torch.device], tuple[Any, TritonKernel]] = {}
        self.all: list[tuple[Any, TritonKernel, torch.device]] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64)
        self.make, self.enter = kind(self._make_unaligned), kind(self._enter)

    def get(self, request: Request, binary: Binary, device: torch.device) -> int:
        with self.lock:
            key = (request.key, device)
            if key not in self.found:
                kernel = request.kernel
                buffers = sum(kind.startswith("*") for kind in kernel.types)
                values = {
                    "launcher": launcher(), "aligned": load(binary, device), "unaligned": 0,
                    "words": len(kernel.types), "buffers": buffers, "threads": 32 * kernel.warps,
                    "shared": binary.shared, "unaligned_shared": 0, "device": device.index or 0,
                    "make": _address(self.make), "number": len(self.all), "stream_of": _stream_function(),
                    "launch": _address(_driver().cuLaunchKernel), "enter": _address(self.enter),
                }
                made = (ctypes.c_int64 * len(_FIELDS))(*(values[name] for name in _FIELDS))
                self.found[key] = made, kernel
                self.all.append((made, kernel, device))
            return ctypes.addressof(self.found[key][0])

    def _enter(self, number: int) -> int:
        """Called from a launch in a thread without a context."""
        enter(self.all[number][2])
        return 0

    def _make_unaligned(self, number: int) -> int:
        """Called from a launch. Returns whether it failed."""
        made, kernel, device = self.all[number]
        try:
            with self.lock:
                if not made[_FIELDS.index("unaligned")]:
                    [binary] = compile_all([Request(kernel, architecture(device), aligned=False)])
                    if isinstance(binary, Exception):
                        raise binary
                    made[_FIELDS.index("unaligned_shared")] = binary.shared
                    made[_FIELDS.index("unaligned")] = load(binary, device)
            return 0
        except Exception as error:
            log("kernels", "no kernel for buffers that are not aligned: %s", error)
            return 1


_descriptors = _Descriptors()


def _renew_lock() -> None:
    """In a forked child the thread that held the lock does not exist."""
    _descriptors.lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def architecture(device: torch.device) -> int:
    """A device's compute capability as Triton writes it: 90 for 9.0."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def install(request: Request, binary: Binary, device: torch.device) -> GpuKernel:
    """A kernel made ready for launches on a device."""
    address = _descriptors.get(request, binary, device)
    return GpuKernel(request.kernel.name, address, request.kernel.programs, request.key)
