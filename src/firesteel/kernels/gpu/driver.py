"""Kernels on the GPU: loaded through CUDA's driver, launched by a small function of machine code.

A launch is `launch(descriptor, words, programs)`, where words are the arguments: addresses of buffers, sizes, numbers,
and, for kernels whose sizes decide on the width of indices, how far these reach. The descriptor says what is launched
and with which functions of the driver and of torch, so that the function itself is the same in every process. It has
room for the versions of a kernel (see `versions`): a launch takes the one that its arguments allow, and asks for it
where it is not there yet.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass, replace
from typing import Any

import torch

from ... import disk_cache
from ...functional.graph import Unsupported
from ...locks import new_rlock
from ...logs import log
from ...native.templates import filled
from ...shapes import Expr
from ...torch_compat import c_interface
from ..cpu.engine import compile_text
from .triton_compiler import PLAIN_SHARED, Binary, Request, compile_all
from .triton_printer import TritonKernel
from .versions import COUNT, LIMIT, UNALIGNED, UNEVEN, WIDE

NO_CONTEXT = 201
"""CUDA's error for threads that have not chosen a device yet."""
_FIELDS = ("launcher", "words", "kinds", "threads", "device", "make", "number", "stream_of", "launch", "enter",
           "extent_at", "limit", *(f"function{version}" for version in range(COUNT)),
           *(f"shared{version}" for version in range(COUNT)))
_AT = {name: 8 * position for position, name in enumerate(_FIELDS)}
NO_LIMIT = (1 << 63) - 1


@dataclass(frozen=True)
class GpuKernel:
    """A kernel that can be launched: the address of its descriptor, and how many programs it has."""

    name: str
    address: int
    programs: Expr
    key: str
    """Under which its code is found again on disk."""
    extent: Expr | None = None
    """How far its indices reach, where a launch has to know that."""


def launcher_text(name: str) -> str:
    """The launching function as LLVM IR: int name(int64_t *descriptor, int64_t *words, int64_t programs)."""
    return filled("kernels/gpu/launcher.ll", {
        "NAME": name, "WIDE": WIDE, "NO_CONTEXT": NO_CONTEXT, "LAUNCH_WORDS": filled("kernels/gpu/launch_words.ll", {}),
        **{f"AT_{field}": place for field, place in _AT.items()}})


@functools.cache
def launcher() -> int:
    """The address of the launching function."""
    return compile_text(f"gpu launcher {disk_cache.digest(launcher_text(''))[:16]}", launcher_text).address


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unsupported(f"CUDA's driver cannot be loaded: {error}") from None


@functools.cache
def _stream_function() -> int:
    function = c_interface.c_function("get_current_cuda_stream")
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
    if binary.shared > PLAIN_SHARED:
        most = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", None)
        if most is not None and binary.shared > most:
            raise Unsupported(f"it needs {binary.shared} bytes of shared memory, and the device has {most}")
    with torch.cuda.device(device):
        enter(device)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary.code), "cuModuleLoadData")
        _check(driver.cuModuleGetFunction(ctypes.byref(function), module, binary.name.encode()), "cuModuleGetFunction")
        if binary.shared > PLAIN_SHARED:
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


class _Descriptor:
    """What a launch reads, and what other versions of the kernel are made of."""

    def __init__(self, kernel: TritonKernel, device: torch.device) -> None:
        self.kernel = kernel
        self.device = device
        self.words = (ctypes.c_int64 * len(_FIELDS))()
        kinds = [UNALIGNED if kind.startswith("*") else UNEVEN if number in kernel.even else 0
                 for number, kind in enumerate(kernel.types)]
        self.kinds = (ctypes.c_int64 * max(len(kinds), 1))(*kinds)

    def set(self, **values: int) -> None:
        for name, value in values.items():
            self.words[_AT[name] // 8] = value

    def set_version(self, version: int, binary: Binary) -> None:
        """Make a version's code ready; the function comes last, for those who look meanwhile."""
        function = load(binary, self.device)
        self.set(**{f"shared{version}": binary.shared})
        self.set(**{f"function{version}": function})

    def has_version(self, version: int) -> bool:
        return bool(self.words[_AT[f"function{version}"] // 8])


def request_of(kernel: TritonKernel, arch: int, version: int) -> Request:
    """What to compile for a version of a kernel."""
    if version & WIDE and kernel.wide is not None:
        kernel = replace(kernel.wide, even=kernel.even)
    return Request(kernel, arch, not version & UNALIGNED, not version & UNEVEN)


class _Descriptors:
    """All descriptors of the process; they live as long as it does."""

    def __init__(self) -> None:
        self.lock = new_rlock()
        self.found: dict[tuple[str, torch.device], _Descriptor] = {}
        self.all: list[_Descriptor] = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        self.make, self.enter = kind(self._make), kind(self._enter)

    def find(self, key: str, device: torch.device) -> int | None:
        descriptor = self.found.get((key, device))
        return None if descriptor is None else ctypes.addressof(descriptor.words)

    def add(self, key: str, kernel: TritonKernel, binary: Binary, device: torch.device) -> int:
        with self.lock:
            if (key, device) not in self.found:
                descriptor = _Descriptor(kernel, device)
                descriptor.set_version(0, binary)
                descriptor.set(
                    launcher=launcher(), words=len(kernel.types), kinds=ctypes.addressof(descriptor.kinds),
                    threads=32 * kernel.warps, device=device.index or 0, make=_address(self.make),
                    number=len(self.all), stream_of=_stream_function(), launch=_address(_driver().cuLaunchKernel),
                    enter=_address(self.enter), extent_at=0 if kernel.wide is None else len(kernel.types),
                    limit=NO_LIMIT if kernel.wide is None else LIMIT)
                self.all.append(descriptor)
                self.found[key, device] = descriptor
            return ctypes.addressof(self.found[key, device].words)

    def _enter(self, number: int, _: int) -> int:
        """Called from a launch in a thread without a context."""
        enter(self.all[number].device)
        return 0

    def _make(self, number: int, version: int) -> int:
        """Called from a launch whose version of a kernel is not there. Returns whether it failed."""
        descriptor = self.all[number]
        try:
            with self.lock:
                if not descriptor.has_version(version):
                    request = request_of(descriptor.kernel, architecture(descriptor.device), version)
                    [binary] = compile_all([request])
                    if isinstance(binary, Exception):
                        raise binary
                    descriptor.set_version(version, binary)
            return 0
        except Exception as error:
            log("kernels", "no version %d of the kernel %s: %s", version, descriptor.kernel.name, error)
            return 1


_descriptors = _Descriptors()


def architecture(device: torch.device) -> int:
    """A device's compute capability as Triton writes it: 90 for 9.0."""
    major, minor = torch.cuda.get_device_capability(device)
    return 10 * major + minor


def installed(key: str, device: torch.device) -> bool:
    """Whether a kernel's code is on a device."""
    return _descriptors.find(key, device) is not None


def install(key: str, kernel: TritonKernel, binary: Binary | None, device: torch.device) -> GpuKernel:
    """A kernel made ready for launches on a device, unless it is: then its code is not needed."""
    address = _descriptors.find(key, device)
    if address is None:
        assert binary is not None
        address = _descriptors.add(key, kernel, binary, device)
    return GpuKernel(kernel.name, address, kernel.programs, key, kernel.extent)
