"""From kernels to machine code that can be called.

Code is made kernel by kernel, kept for the life of the process, and found again by what the kernel does: in this
process, then in the cache on disk, where it lies as an object file for exactly this CPU, LLVM and printer.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence

from ... import disk_cache
from ...events import OBSERVERS, note
from ...locks import new_rlock
from ...logs import log
from ...native import perf_map
from ...native.loader import LoadedObject, load_code
from ...records import dataclass
from .. import llvm_writer, operations
from ..ir import Kernel
from . import object_emitter
from .printer import print_kernel
from .signature import signature
from .target import Target, host, llvm_binding

KIND = "cpu_kernel"


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code: ``void kernel(void **buffers, int64_t *sizes, double *numbers)`` at `address`.

    The code stays in memory until the process ends.
    """

    name: str
    address: int
    key: str
    """Under which the code is found again, in this process and on disk."""
    functions: tuple[tuple[int, int], ...] = ()
    """Addresses and sizes of the functions that it consists of, where these are known."""


_lock = new_rlock()
_compiled: dict[str, CompiledKernel] = {}
_loaded: list[LoadedObject] = []


def compile_kernels(kernels: Sequence[Kernel], target: Target | None = None) -> list[CompiledKernel]:
    """Machine code for each kernel; equal ones share it.

    Raises `Unsupported` for a kernel that has no code.
    """
    target = target or host()
    keys = [disk_cache.digest(maker(), target.description, signature(kernel)) for kernel in kernels]
    with _lock:
        missing: dict[str, Kernel] = {}
        for key, kernel in zip(keys, kernels, strict=True):
            if OBSERVERS and key in _compiled:
                note("cache", name="kernels in this process", hit=True)
            if key not in _compiled and key not in missing:
                stored = _load(key)
                if stored is not None:
                    _compiled[key] = stored
                else:
                    missing[key] = kernel
        if missing:
            disk_cache.made_once(KIND, list(missing), _take,
                                 lambda wanted: _make({key: missing[key] for key in wanted}, target))
        return [_compiled[key] for key in keys]


def compile_text(subject: str, text: Callable[[str], str], target: Target | None = None) -> CompiledKernel:
    """Machine code of a function that is no kernel: ``text`` writes the LLVM IR of one with the name it is given.

    ``subject`` is what tells it from others of the same sources.
    """
    target = target or host()
    key = disk_cache.digest(maker(), target.description, subject)
    with _lock:
        if key not in _compiled and not _take(key):
            def make(_: Sequence[str]) -> None:
                data = object_emitter.object_code(text(_name(key)), target)
                _compiled[key] = _install(key, data)
                disk_cache.put(KIND, key, data)
                log("kernels", "%s: %d bytes of machine code", subject, len(data))

            disk_cache.made_once(KIND, [key], _take, make)
        compiled = _compiled[key]
        perf_map.note(compiled.functions, subject.splitlines()[0])
        return compiled


def load_kernels(keys: Sequence[str]) -> list[CompiledKernel] | None:
    """The code of kernels that were compiled before; None unless all of it is there."""
    with _lock:
        missing = [key for key in dict.fromkeys(keys) if key not in _compiled and not _take(key)]
        if missing:
            disk_cache.fetch(KIND, missing)
        if not all([_take(key) for key in missing]):
            return None
        return [_compiled[key] for key in keys]


def machine_text() -> str:
    """What code is made for and by."""
    return f"{host().description} {maker()}"


@functools.cache
def maker() -> str:
    """What makes the code: LLVM's version and the sources of this printer and of the table of operations."""
    sources_hash = hashlib.sha256()
    folder = os.path.dirname(os.path.abspath(__file__))
    sources = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith((".py", ".ll"))]
    for path in (*sources, *[os.path.abspath(str(module.__file__)) for module in (llvm_writer, operations)]):
        with open(path, "rb") as file:
            sources_hash.update(file.read())
    llvm = llvm_binding()
    return f"{llvm.llvm_version_info} {sources_hash.hexdigest()}"


def _name(key: str) -> str:
    return f"firesteel_{key[:24]}"


def _load(key: str) -> CompiledKernel | None:
    """The code from the disk."""
    data = disk_cache.get(KIND, key)
    if data is None:
        return None
    try:
        return _install(key, data)
    except Exception as error:  # what was kept is whole, but who knows what it is
        log("cache", "the machine code %s cannot be loaded: %s", key, error)
        return None


def _take(key: str) -> bool:
    """Load code that is on the disk; whether it is there."""
    stored = _load(key)
    if stored is not None:
        _compiled[key] = stored
    return stored is not None


def _make(missing: Mapping[str, Kernel], target: Target) -> None:
    """Compile kernels, several at a time."""
    texts = (llvm_text(kernel, target, _name(key)) for key, kernel in missing.items())
    objects = object_emitter.object_codes(texts, len(missing), target)
    for number, ((key, kernel), data) in enumerate(zip(missing.items(), objects, strict=True), 1):
        note("kernel made", done=number, total=len(missing))
        _compiled[key] = _install(key, data)
        disk_cache.put(KIND, key, data)
        log("kernels", "kernel %s: %d bytes of machine code", kernel.name, len(data))


def llvm_text(kernel: Kernel, target: Target | None = None, name: str = "kernel") -> str:
    """A kernel as LLVM IR, before LLVM's own passes."""
    return print_kernel(kernel, target or host()).text(name)


def assembly(kernel: Kernel, target: Target | None = None) -> str:
    """A kernel as assembly, for people."""
    target = target or host()
    with object_emitter.emitter(target) as mine:
        return mine.assembly(llvm_text(kernel, target))


def _install(key: str, data: bytes) -> CompiledKernel:
    """Put an object file into memory."""
    loaded = load_code(data, llvm_binding())
    address = loaded.address(_name(key))
    if not address:
        raise RuntimeError("the function is not in it")
    _loaded.append(loaded)
    return CompiledKernel(_name(key), address, key, loaded.functions())
