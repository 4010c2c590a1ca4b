"""Kernels of a graph on a GPU: printed, compiled together, and put on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import debug
from ..ir import Kernel
from .driver import GpuKernel, architecture, install
from .triton_compiler import Request, compile_all, triton_version
from .triton_printer import TritonKernel, print_triton
from .values import Unsupported


class Refused(Exception):
    """Some kernels cannot be made: what they compute has to be done by calls of ATen."""

    def __init__(self, reasons: dict[str, str], origins: set[Any]) -> None:
        super().__init__("; ".join(f"{name}: {reason}" for name, reason in reasons.items()))
        self.origins = origins
        """The nodes of the graph that the kernels compute."""


def check_available() -> None:
    """Raise `Unsupported` where there is nothing to compile with."""
    triton_version()


def compile_for_gpu(kernels: Sequence[Kernel], device: torch.device) -> list[GpuKernel]:
    """All kernels, ready for launches. Raises `Refused` with those that cannot be made."""
    printed: dict[int, TritonKernel] = {}
    reasons: dict[str, str] = {}
    origins: set[Any] = set()

    def refuse(kernel: Kernel, reason: object) -> None:
        reasons[kernel.name] = str(reason).splitlines()[0] if str(reason) else type(reason).__name__
        origins.update(kernel.origins)
        debug.log("fallbacks", "kernel %s is not made for the GPU: %s", kernel.name, reason)

    for number, kernel in enumerate(kernels):
        try:
            printed[number] = print_triton(kernel)
        except Unsupported as error:
            refuse(kernel, error)
    if reasons:
        raise Refused(reasons, origins)
    requests = [Request(printed[number], architecture(device)) for number in range(len(kernels))]
    made = compile_all(requests)
    for kernel, binary in zip(kernels, made, strict=True):
        if isinstance(binary, Exception):
            refuse(kernel, binary)
    if reasons:
        raise Refused(reasons, origins)
    return [install(request, binary, device) for request, binary in zip(requests, made, strict=True)
            if not isinstance(binary, Exception)]
