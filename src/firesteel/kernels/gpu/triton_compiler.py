"""From Triton source to the machine code of a GPU. It needs Triton, but no GPU and no C compiler.

Code is kept on disk under the source, the architecture and Triton's version, so that a process that finds all of it
there does not even import Triton. The source lies beside it, for those versions of a kernel that are made later.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from ... import config, disk_cache
from ...events import note
from ...functional.graph import Unsupported
from ...logs import log
from ...shapes import const
from . import triton_worker, workers
from .triton_printer import TritonKernel

KIND = "gpu_kernel"
THREADS = 16
PLAIN_SHARED = 48 * 1024
"""Bytes of shared memory that a kernel has without asking for more."""
_LENGTH = struct.Struct("=q")


@dataclass(frozen=True)
class Binary:
    """Machine code of one kernel."""

    code: bytes
    name: str
    shared: int
    """Bytes of shared memory."""


@dataclass(frozen=True)
class Request:
    """A kernel to be compiled, and which of the things that it takes for granted hold."""

    kernel: TritonKernel
    arch: int
    aligned: bool = True
    """Every buffer begins at a multiple of 16 bytes."""
    even: bool = True
    """The sizes that are said to be multiples of 16 are."""

    @functools.cached_property
    def key(self) -> str:
        """Of its code; kernels that differ in their names only share it."""
        kernel = self.kernel
        return disk_cache.digest("triton", triton_version(), self.arch, self.aligned, kernel.even if self.even else (),
                                 kernel.warps, kernel.stages, kernel.types, _nameless(kernel),
                                 kernel.wide and _nameless(kernel.wide))


def _nameless(kernel: TritonKernel) -> str:
    return kernel.source.replace(f"def {kernel.name}(", "def kernel(")


@functools.cache
def triton_version() -> str:
    """The version of the Triton that is installed. Raises `Unsupported` if there is none."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise Unsupported("Triton is not installed") from None


def compile_all(requests: Sequence[Request]) -> list[Binary | Exception]:
    """Machine code, or why there is none, for each request; several are compiled at a time."""
    binaries: dict[str, Binary | Exception] = {}
    requested = {request.key: request for request in requests}

    def take(key: str) -> bool:
        stored = _load(key)
        if stored is not None:
            binaries[key] = stored
        return stored is not None

    def make(keys: Sequence[str]) -> None:
        binaries.update(_make_all({key: requested[key] for key in keys}))

    missing = [key for key in requested if not take(key)]
    if missing:
        disk_cache.made_once(KIND, missing, take, make)
    return [binaries[request.key] for request in requests]


def _make_all(missing: Mapping[str, Request]) -> dict[str, Binary | Exception]:
    if len(missing) == 1:
        return {key: _make(key, request) for key, request in missing.items()}
    binaries: dict[str, Binary | Exception] = {}
    workers.expect_kernels(len(missing))
    if workers.current() is None:
        triton_worker.import_triton()
    # The longest first, so that none of them is left to the end.
    order = sorted(missing, key=lambda key: len(missing[key].kernel.source), reverse=True)
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1, len(missing))) as pool:
        results = pool.map(_make, order, [missing[key] for key in order])
        for number, (key, binary) in enumerate(zip(order, results, strict=True), 1):
            binaries[key] = binary
            note("kernel made", done=number, total=len(missing))
    return binaries


def is_cold() -> bool:
    """Whether nothing that was compiled before can be found."""
    folder = disk_cache.directory()
    return folder is None or not os.path.isdir(os.path.join(folder, KIND))


def _load(key: str) -> Binary | None:
    stored = load(key)
    return None if stored is None else stored[1]


def fetch(keys: Sequence[str]) -> None:
    """Look elsewhere for kernels that are not on this machine's disk."""
    if config.remote_cache:
        disk_cache.fetch(KIND, [key for key in dict.fromkeys(keys) if disk_cache.get(KIND, key) is None])


def load(key: str) -> tuple[TritonKernel, Binary] | None:
    """A kernel that was compiled before, and its machine code. How many programs it has is not known here."""
    data = disk_cache.get(KIND, key)
    if data is None:
        return None
    try:
        [length] = _LENGTH.unpack_from(data)
        head = json.loads(data[_LENGTH.size:_LENGTH.size + length])
        binary = Binary(data[_LENGTH.size + length:], head["name"], head["shared"])
        return _kernel(head["kernel"]), binary
    except (struct.error, ValueError, KeyError, TypeError) as error:
        log("cache", "the machine code %s cannot be read: %s: %s", key, type(error).__name__, error)
        return None


def _make(key: str, request: Request) -> Binary | Exception:
    try:
        binary = _compile(request)
    except Exception as error:
        return error
    kernel = request.kernel if request.even else replace(request.kernel, even=())
    head = json.dumps({"name": binary.name, "shared": binary.shared, "kernel": _described(kernel)}).encode()
    disk_cache.put(KIND, key, b"".join((_LENGTH.pack(len(head)), head, binary.code)))
    log("kernels", "kernel %s: %d bytes of machine code", request.kernel.name, len(binary.code))
    return binary


def _described(kernel: TritonKernel) -> dict[str, Any]:
    """All of a kernel but what stands in plans."""
    kept = ("name", "source", "types", "warps", "stages", "even")
    return {**{name: getattr(kernel, name) for name in kept}, "wide": kernel.wide and _described(kernel.wide)}


def _kernel(given: dict[str, Any]) -> TritonKernel:
    wide = given["wide"]
    return TritonKernel(given["name"], given["source"], const(0), tuple(given["types"]), given["warps"],
                        given["stages"], tuple(given["even"]), wide and _kernel(wide))


def _compile(request: Request) -> Binary:
    kernel = request.kernel
    multiples = [number for number, kind in enumerate(kernel.types) if kind.startswith("*") and request.aligned]
    multiples += kernel.even if request.even else ()
    # Eager rounds every operation and keeps the smallest numbers, so the compiler must not change that.
    options: dict[str, Any] = {"num_warps": kernel.warps, "num_stages": kernel.stages, "enable_fp_fusion": False,
               "enable_reflect_ftz": False}
    if "tl.device_assert(" in kernel.source:
        options |= {"debug": True, "sanitize_overflow": False}  # without the first Triton leaves assertions out
    given: dict[str, Any] = {"source": kernel.source, "name": kernel.name, "types": kernel.types, "arch": request.arch,
                             "multiples": multiples, "options": options}
    others = workers.current()
    binary = others.compile(given) if others is not None else None
    if binary is None:
        try:
            binary = triton_worker.machine_code(**given)
        except triton_worker.NeedsMemory as error:
            raise Unsupported(str(error)) from None
    return Binary(*binary)
