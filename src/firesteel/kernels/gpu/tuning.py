"""Which blocks a kernel runs in: a few are measured on the device, on made-up memory of the program's own sizes.

Kernels whose accesses depend on data are not measured, and matrix products have alternatives of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ... import logs
from ...functional.graph import Unsupported
from ...shapes import Expr, Symbol
from ..host.launching import blocks_launcher
from ..ir import Kernel
from ..plan import KernelPlan, launches_of
from ..tuning.kernels import MadeUp, made_up
from ..tuning.measuring import Tuner, Way
from .blocks import LONGEST, Blocks, choose_blocks
from .driver import architecture, install
from .product_printer import is_product
from .statements import flat_nest
from .triton_compiler import Request, compile_all
from .triton_printer import TritonKernel
from .versions import print_versions

MOST_WARPS = 32


def tuned_blocks(plan: KernelPlan, kernels: Sequence[Kernel], hints: Mapping[Symbol, int],
                 even: Mapping[int, Sequence[Symbol]], tuner: Tuner, device: torch.device) -> dict[int, Blocks]:
    """The blocks that measured fastest, by the identity of kernels; ``hints``: the sizes that the program has now."""
    launches = launches_of(plan)
    fastest: dict[int, Blocks] = {}
    for kernel in kernels:
        if is_product(kernel):
            continue
        try:
            data = made_up(kernel, launches[id(kernel)], hints, device)
        except torch.OutOfMemoryError:
            data = "there is not enough memory"
        if isinstance(data, str):
            logs.log("autotune", "%s is not measured: %s", kernel.name, data)
            continue
        chosen = _tune(kernel, data, even.get(id(kernel), ()), tuner, device)
        if chosen is not None:
            fastest[id(kernel)] = chosen
    return fastest


def _tune(kernel: Kernel, data: MadeUp, even: Sequence[Symbol], tuner: Tuner, device: torch.device) -> Blocks | None:
    ways: dict[str, tuple[Blocks, TritonKernel]] = {}
    sources: set[tuple[str, int]] = set()
    for blocks in alternatives(kernel):
        try:
            printed = print_versions(kernel, even, blocks)
        except Unsupported:
            continue
        if (printed.source, printed.warps) not in sources:
            sources.add((printed.source, printed.warps))
            ways[str(blocks)] = blocks, printed
    if len(ways) < 2:
        return None

    @functools.cache
    def compiled() -> dict[str, Callable[[], None]]:
        requests = {name: Request(printed, architecture(device)) for name, (_, printed) in ways.items()}
        runs: dict[str, Callable[[], None]] = {}
        for (name, request), binary in zip(requests.items(), compile_all(list(requests.values())), strict=True):
            if isinstance(binary, Exception):
                raise binary
            installed = install(request.key, request.kernel, binary, device)
            runs[name] = _runner(kernel, installed.address, request.kernel, data)
        return runs

    def prepare(name: str) -> Callable[[], Way]:
        return lambda: compiled()[name]

    usual = next(iter(ways.values()))[1]
    identity = f"{usual.source} {usual.types} {data.sizes} {[t.numel() for t in data.memory]}"
    return ways[tuner.choose(f"{kernel.name} blocks", identity, {name: prepare(name) for name in ways})][0]


def _runner(kernel: Kernel, address: int, printed: TritonKernel, data: MadeUp) -> Callable[[], None]:
    values: dict[Symbol, int] = dict(zip(kernel.sizes, data.sizes, strict=True))

    def number(expr: Expr) -> int:
        return int(expr.evaluate(values))

    launch = blocks_launcher(address, len(data.memory), len(data.sizes), len(data.numbers), printed.extent is not None)
    told = [] if printed.extent is None else [number(printed.extent)]
    return functools.partial(launch, number(printed.programs), *data.memory, *data.sizes, *data.numbers, *told)


def alternatives(kernel: Kernel) -> Iterator[Blocks]:
    """Blocks to choose from; the first are those that are taken without measuring."""
    usual = choose_blocks(kernel)
    yield usual
    if flat_nest(kernel.body) is not None:
        if usual.second:
            sides = ((32, 32), (64, 64), (64, 32), (32, 64))
            yield from (replace(usual, rows=across, second=down, warps=warps)
                        for across, down in sides for warps in (4, 8))
        else:
            sizes = ((256, 2), (512, 2), (512, 4), (1024, 4), (1024, 8), (2048, 4), (2048, 8))
            yield from (replace(usual, rows=block, warps=warps) for block, warps in sizes)
        return
    for warps in (usual.warps // 2, usual.warps * 2):
        if 1 <= warps <= MOST_WARPS:
            yield replace(usual, warps=warps)
    for rows in (usual.rows // 2, usual.rows * 2):
        if rows >= 1 and rows * usual.lanes <= LONGEST:
            yield replace(usual, rows=rows)
            yield replace(usual, rows=rows, warps=max(1, min(MOST_WARPS, usual.warps * rows // usual.rows)))
    if usual.whole < usual.lanes:  # a row is run block by block
        for lanes in (usual.lanes // 2, usual.lanes * 2):
            yield replace(usual, lanes=max(lanes, 1))
            yield replace(usual, lanes=max(lanes, 1), warps=max(1, min(MOST_WARPS, usual.warps * lanes // usual.lanes)))
