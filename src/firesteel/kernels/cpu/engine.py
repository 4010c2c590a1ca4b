"""From kernels to machine code that can be called.

Code is made kernel by kernel, kept for the life of the process, and found again by what the kernel does: in this
process, then in the cache on disk, where it lies as an object file for exactly this CPU, LLVM and printer.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...debug import log
from ...runtime import disk_cache
from ...runtime.native.loader import LoadedObject, load_code
from ..ir import Kernel
from .printer import print_kernel
from .signature import signature
from .target import Target, host, llvm_binding, machine

KIND = "cpu_kernel"


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code: ``void kernel(void **buffers, int64_t *sizes, double *numbers)`` at `address`.

    The code stays in memory until the process ends.
    """

    name: str
    address: int


_lock = threading.RLock()
_compiled: dict[str, CompiledKernel] = {}
_loaded: list[LoadedObject] = []


def _renew_lock() -> None:
    """In a forked child the thread that held the lock does not exist."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def compile_kernels(kernels: Sequence[Kernel], target: Target | None = None) -> list[CompiledKernel]:
    """Machine code for each kernel; equal ones share it.

    Raises `Unsupported` for a kernel that has no code.
    """
    target = target or host()
    keys = [disk_cache.digest(_maker(), target.description, signature(kernel)) for kernel in kernels]
    with _lock:
        for key, kernel in zip(keys, kernels, strict=True):
            if key not in _compiled:
                _compiled[key] = _load(key) or _make(key, kernel, target)
        return [_compiled[key] for key in keys]


@functools.cache
def _maker() -> str:
    """What makes the code: LLVM's version and the sources of this printer."""
    made = hashlib.sha256()
    folder = os.path.dirname(os.path.abspath(__file__))
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as file:
                made.update(file.read())
    llvm = llvm_binding()
    return f"{llvm.llvm_version_info} {made.hexdigest()}"


def _name(key: str) -> str:
    return f"firesteel_{key[:24]}"


def _load(key: str) -> CompiledKernel | None:
    """The code from the disk."""
    data = disk_cache.get(KIND, key)
    if data is None:
        return None
    try:
        return _install(key, data)
    except RuntimeError as error:
        log("cache", "the machine code %s cannot be loaded: %s", key, error)
        return None


def _make(key: str, kernel: Kernel, target: Target) -> CompiledKernel:
    start = time.perf_counter()
    data = object_code(llvm_text(kernel, target, _name(key)), target)
    made = _install(key, data)
    disk_cache.put(KIND, key, data)
    log("kernels", "kernel %s: %d bytes of machine code in %.1f ms", kernel.name, len(data),
        1e3 * (time.perf_counter() - start))
    return made


def llvm_text(kernel: Kernel, target: Target | None = None, name: str = "kernel") -> str:
    """A kernel as LLVM IR, before LLVM's own passes."""
    return print_kernel(kernel, target or host()).text(name)


def object_code(text: str, target: Target) -> bytes:
    """LLVM IR as an object file."""
    llvm = llvm_binding()
    with _lock:
        module = llvm.parse_assembly(text)
        module.verify()
        optimise(module, target)
        data: bytes = machine(target).emit_object(module)
        return data


def assembly(kernel: Kernel, target: Target | None = None) -> str:
    """A kernel as assembly, for people."""
    llvm = llvm_binding()
    target = target or host()
    with _lock:
        module = llvm.parse_assembly(llvm_text(kernel, target))
        optimise(module, target)
        text: str = machine(target).emit_assembly(module)
        return text


def optimise(module: Any, target: Target) -> None:
    """The few passes that code with explicit vectors needs; LLVM's standard pipeline takes ten times as long."""
    manager, builder = _passes(target)
    for function in module.functions:
        if not function.is_declaration:
            manager.run(function, builder)


@functools.cache
def _passes(target: Target) -> tuple[Any, Any]:
    llvm = llvm_binding()
    builder = llvm.create_pass_builder(machine(target), llvm.create_pipeline_tuning_options(speed_level=2))
    manager = llvm.create_new_function_pass_manager()
    manager.add_sroa_pass()
    manager.add_instruction_combine_pass()
    manager.add_simplify_cfg_pass()
    return manager, builder


def _install(key: str, data: bytes) -> CompiledKernel:
    """Put an object file into memory."""
    loaded = load_code(data, llvm_binding())
    address = loaded.address(_name(key))
    if not address:
        raise RuntimeError("the function is not in it")
    _loaded.append(loaded)
    return CompiledKernel(_name(key), address)
