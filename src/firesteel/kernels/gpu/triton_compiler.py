"""From Triton source to the machine code of a GPU. It needs Triton, but no GPU and no C compiler.

Code is kept on disk under the source, the architecture and Triton's version, so that a process that finds all of it
there does not even import Triton.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import json
import linecache
import os
import struct
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ...debug import log
from ...runtime import disk_cache
from .triton_printer import TritonKernel
from .values import Unsupported

KIND = "gpu_kernel"
THREADS = 16
_LENGTH = struct.Struct("=q")
_serial = itertools.count()
_import_lock = threading.Lock()


@dataclass(frozen=True)
class Binary:
    """Machine code of one kernel."""

    code: bytes
    name: str
    shared: int
    """Bytes of shared memory."""


@dataclass(frozen=True)
class Request:
    """A kernel to be compiled; ``aligned``: every buffer begins at a multiple of 16 bytes."""

    kernel: TritonKernel
    arch: int
    aligned: bool = True

    @property
    def key(self) -> str:
        kernel = self.kernel
        return disk_cache.digest("triton", triton_version(), self.arch, self.aligned, kernel.warps, kernel.types,
                                 kernel.source)


@functools.cache
def triton_version() -> str:
    """The version of the Triton that is installed. Raises `Unsupported` if there is none."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise Unsupported("Triton is not installed") from None


def compile_all(requests: Sequence[Request]) -> list[Binary | Exception]:
    """Machine code, or why there is none, for each request; several are compiled at a time."""
    found: dict[str, Binary | Exception] = {}
    missing: dict[str, Request] = {}
    keys = [request.key for request in requests]
    for key, request in zip(keys, requests, strict=True):
        if key not in found and key not in missing:
            stored = _load(key)
            if stored is None:
                missing[key] = request
            else:
                found[key] = stored
    if len(missing) == 1:
        [(key, request)] = missing.items()
        found[key] = _make(key, request)
    elif missing:
        _import_triton()
        with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1, len(missing))) as pool:
            found.update(zip(missing, pool.map(_make, missing, missing.values()), strict=True))
    return [found[key] for key in keys]


def _load(key: str) -> Binary | None:
    data = disk_cache.get(KIND, key)
    if data is None:
        return None
    [length] = _LENGTH.unpack_from(data)
    head = json.loads(data[_LENGTH.size:_LENGTH.size + length])
    return Binary(data[_LENGTH.size + length:], head["name"], head["shared"])


def _make(key: str, request: Request) -> Binary | Exception:
    try:
        made = _compile(request)
    except Exception as error:
        return error
    head = json.dumps({"name": made.name, "shared": made.shared}).encode()
    disk_cache.put(KIND, key, b"".join((_LENGTH.pack(len(head)), head, made.code)))
    log("kernels", "kernel %s: %d bytes of machine code", request.kernel.name, len(made.code))
    return made


def _import_triton() -> Any:
    with _import_lock:
        import triton
        import triton.backends.compiler
        import triton.compiler

        return triton


def _compile(request: Request) -> Binary:
    triton = _import_triton()
    kernel = request.kernel
    function = _function(kernel)
    pointers = [number for number, kind in enumerate(kernel.types) if kind.startswith("*")]
    source = triton.compiler.ASTSource(
        fn=function, signature=dict(zip(function.arg_names, kernel.types, strict=True)), constexprs={},
        attrs={(number,): [["tt.divisibility", 16]] for number in pointers} if request.aligned else {})
    # Eager rounds every operation and keeps the smallest numbers, so the compiler must not change that.
    options = {"num_warps": kernel.warps, "enable_fp_fusion": False, "enable_reflect_ftz": False}
    code, data = _stages(triton, source, triton.backends.compiler.GPUTarget("cuda", request.arch, 32), options)
    if data.get("global_scratch_size") or data.get("profile_scratch_size"):
        raise Unsupported("a kernel that needs memory of its own")
    return Binary(code, data["name"], data["shared"])


def _stages(triton: Any, source: Any, target: Any, options: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Triton's stages one after the other, without the cache around them: that hashes all of Triton first, and keeps
    what we keep ourselves. Where they are not as expected, its own entry does the same."""
    try:
        from triton._C.libtriton import ir

        backend = triton.compiler.make_backend(target)
        parsed = backend.parse_options({**options, **source.parse_options()})
        context, data = ir.context(), {**parsed.__dict__}
        ir.load_dialects(context)
        backend.load_dialects(context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, parsed, source.language)
        module = source.make_ir(target, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(),
                                context)
    except (ImportError, AttributeError, TypeError):
        made = triton.compile(source, target=target, options=options)
        return made.asm["cubin"], made.metadata._asdict()
    for stage in stages.values():
        module = stage(module, data)
    return module, data


def _function(kernel: TritonKernel) -> Any:
    """The function of a kernel's source; Triton asks for the source of functions again."""
    file = f"<firesteel kernel {next(_serial)}>"
    linecache.cache[file] = (len(kernel.source), None, kernel.source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": file}
    exec(compile(kernel.source, file, "exec", dont_inherit=True), names)
    return names[kernel.name]
