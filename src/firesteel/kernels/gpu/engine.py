"""Kernels of a graph on a GPU: printed, compiled together, and put on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ... import logs
from ...functional.graph import Unsupported
from ...shapes import Expr, Symbol
from ..device_target import Refused
from ..ir import Kernel
from ..titles import function_name
from .blocks import Blocks
from .driver import GpuKernel, architecture, install, installed
from .triton_compiler import Binary, Request, compile_all, fetch, load, triton_version
from .triton_printer import TritonKernel, called
from .versions import print_versions


def check_available() -> None:
    """Raise `Unsupported` where there is nothing to compile with."""
    triton_version()


def compile_for_gpu(kernels: Sequence[Kernel], device: torch.device,
                    even: Mapping[int, Sequence[Symbol]] | None = None,
                    blocks: Mapping[int, Blocks] | None = None) -> list[GpuKernel]:
    """All kernels, ready for launches. Raises `Refused` with those that cannot be made.

    ``even``: the sizes that are multiples of 16 as far as is known now, by the identity of kernels; ``blocks``: those
    that were chosen for them, by the same.
    """
    printed: list[TritonKernel] = []
    reasons: dict[str, str] = {}
    origins: set[Any] = set()

    def refuse(kernel: Kernel, reason: object) -> None:
        reasons[kernel.name] = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
        origins.update(kernel.origins)
        logs.log("fallbacks", "kernel %s is not made for the GPU: %s", kernel.name, reason)

    for kernel in kernels:
        try:
            printed.append(called(print_versions(kernel, (even or {}).get(id(kernel), ()),
                                                 (blocks or {}).get(id(kernel))), function_name(kernel)))
        except Unsupported as error:
            refuse(kernel, error)
    if reasons:
        raise Refused(reasons, origins)
    requests = [Request(one, architecture(device)) for one in printed]
    missing = {request.key: request for request in requests if not installed(request.key, device)}
    binaries: dict[str, Binary | Exception] = dict(zip(missing, compile_all(list(missing.values())), strict=True))
    compiled: list[GpuKernel] = []
    by_device = False
    for kernel, request in zip(kernels, requests, strict=True):
        binary = binaries.get(request.key)
        if isinstance(binary, Exception):
            refuse(kernel, binary)
            continue
        try:
            compiled.append(install(request.key, request.kernel, binary, device))
        except Unsupported as error:
            by_device = True
            refuse(kernel, error)
    if reasons:
        raise Refused(reasons, origins, by_device)
    return compiled


def load_for_gpu(keys: Sequence[str], programs: Sequence[tuple[Expr, Expr | None]],
                 device: torch.device) -> list[GpuKernel] | None:
    """Kernels that an earlier process compiled, ready for launches; None unless the code of all is there.

    ``programs``: for each how many programs it has, and how far its indices reach.
    """
    loaded: list[GpuKernel] = []
    fetch(keys)
    for key, (count, extent) in zip(keys, programs, strict=True):
        stored = load(key)
        if stored is None or (stored[0].wide is None) is not (extent is None):
            return None
        kernel, binary = stored
        try:
            loaded.append(install(key, replace(kernel, programs=count, extent=extent), binary, device))
        except Unsupported as error:
            logs.log("cache", "the machine code %s cannot be loaded: %s", key, error)
            return None
    return loaded


def machine_text(device: torch.device) -> str:
    """What kernels are made for and by, and the settings of torch that decide what becomes a kernel."""
    properties = torch.cuda.get_device_properties(device)
    return repr((properties.name, properties.major, properties.minor, properties.multi_processor_count,
                 triton_version(), torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision()))
