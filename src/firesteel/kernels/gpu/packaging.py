"""The machine code of kernels that go into a shared object, for sizes of which nothing is known."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import torch
import torch.fx

from ... import logs, torch_compat
from ...functional.graph import Unsupported
from ...functional.subprograms import Subprogram
from ..ir import ExternCall, Kernel
from ..plan import KernelPlan
from ..shared_object import own_calls
from ..shared_object.planned import Planned
from . import driver, triton_compiler
from .triton_compiler import Binary, Request
from .versions import print_versions


def add_machine_code(planned: Planned, device: torch.device,
                     without: Set[torch.fx.Node]) -> Set[torch.fx.Node]:
    """Compile the kernels of a plan, unless it has calls that need Python beside those ``without`` kernels.

    Returns the nodes of these calls, or of kernels that cannot be made; none where all is done.
    """
    refused = _python_calls(planned.plan)
    if not refused - without:
        codes, refused = _compile(planned.kernels, driver.architecture(device))
        planned.binaries, planned.wide = [usual for usual, _ in codes], [wide for _, wide in codes]
    return refused


def _python_calls(plan: KernelPlan) -> set[torch.fx.Node]:
    """What is done by functions that exist in Python only."""
    calls: set[torch.fx.Node] = set()
    for step in plan.steps:
        if isinstance(step, ExternCall) and not isinstance(step.target, Subprogram | torch_compat.OpOverload) \
                and step.target not in own_calls.CALLS:
            calls.update(step.origins)
    return calls


def _compile(kernels: Sequence[Kernel], arch: int) \
        -> tuple[list[tuple[tuple[Request, Binary], tuple[Request, Binary] | None]], set[torch.fx.Node]]:
    """The machine code of kernels, with that for indices of 64 bits where sizes decide; or the nodes of the graph whose
    kernels there are none of."""
    versions: list[list[Request]] = []
    refused: set[torch.fx.Node] = set()

    def refuse(kernel: Kernel, reason: Exception) -> None:
        logs.log("fallbacks", "kernel %s is not made for the GPU: %s", kernel.name, reason)
        refused.update(kernel.origins)

    for kernel in kernels:
        try:
            printed = print_versions(kernel)
        except Unsupported as error:
            refuse(kernel, error)
        else:
            usual = Request(replace(printed, wide=None), arch)
            versions.append([usual] if printed.wide is None else [usual, Request(printed.wide, arch)])
    if refused:
        return [], refused
    answers = iter(triton_compiler.compile_all([request for requests in versions for request in requests]))
    codes = []
    for kernel, requests in zip(kernels, versions, strict=True):
        pairs: list[tuple[Request, Binary]] = []
        for request, binary in zip(requests, answers, strict=False):
            if isinstance(binary, Exception):
                refuse(kernel, binary)
            else:
                pairs.append((request, binary))
        if len(pairs) == len(requests):
            codes.append((pairs[0], pairs[1] if len(pairs) > 1 else None))
    return codes, refused
