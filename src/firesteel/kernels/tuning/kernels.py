"""How each kernel is printed: how far loops are unrolled, how many accumulators, how wide vectors, how many threads.

One thing after the other is varied, from the best so far: first the code that one thread runs, then the threads. A
kernel runs on made-up memory of the sizes that the program was captured with; where it cannot be told what memory it
reads (indices that data decides), it is not measured.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ... import logs
from ...records import dataclass
from ...shapes import Interval, Symbol
from ...shapes.ranges import RangeAnalysis, point
from ..cpu import printer as cpu_printer
from ..cpu.engine import CompiledKernel, compile_kernels
from ..cpu.signature import signature
from ..cpu.target import UNTUNED, Target, host
from ..cpu.vectorising import nodes
from ..ir import Axis, Kernel, Loop, Place, Reduce, Scan, Statement, Store, Value
from ..operations import OPERATIONS
from ..plan import KernelPlan, Launch, launches_of
from .measuring import Tuner, Way

MOST_BYTES = 1 << 31
"""Kernels that need more memory than this are not measured."""
ROOM = 4
"""Reads may go beyond a buffer's own elements by this factor, as far as can be told; otherwise it is not measured."""
ALONE = 1 << 60
"""A grain that nothing reaches: one thread."""

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def tuned_targets(plan: KernelPlan, kernels: Sequence[Kernel], hints: Mapping[Symbol, int],
                  tuner: Tuner) -> list[Target]:
    """For each kernel the target that its code is made for, with the choices that measured fastest."""
    launches = launches_of(plan)
    targets = []
    for kernel in kernels:
        data = made_up(kernel, launches[id(kernel)], hints)
        if isinstance(data, str):
            logs.log("autotune", "%s is not measured: %s", kernel.name, data)
            targets.append(host())
        else:
            targets.append(_tune(kernel, data, tuner))
    return targets


def _tune(kernel: Kernel, data: MadeUp, tuner: Tuner) -> Target:
    best = host()
    identity = f"{signature(kernel)} {data.sizes} {[t.numel() for t in data.memory]}"
    for step, variants in _variations(kernel, data):
        ways: dict[str, Target] = {_describe(best): best}
        for vary in variants:
            target = vary(best)
            ways.setdefault(_describe(target), target)
        if len(ways) == 1:
            continue

        def prepare(target: Target, alone: bool = step != "threads") -> Callable[[], Way]:
            if alone:
                target = replace(target, tuning=replace(target.tuning, grain=ALONE))
            return lambda: data.runner(compile_kernels([kernel], target)[0])

        prepared = {name: prepare(target) for name, target in ways.items()}
        what, about = f"{kernel.name} {step}", f"{identity} {step} {_describe(best)}"
        best = ways[tuner.choose(what, about, prepared, one_thread=step != "threads")]
    return best


def _describe(target: Target) -> str:
    width = "" if target.vector_bytes == host().vector_bytes else f"vectors={8 * target.vector_bytes} "
    return f"{width}{target.tuning}" if width or target.tuning != UNTUNED else "default"


Vary = Callable[[Target], Target]


def _variations(kernel: Kernel, data: MadeUp) -> Iterator[tuple[str, list[Vary]]]:
    """What can be varied, in turn, each with its alternatives."""

    def tuning(**changes: int) -> Vary:
        return lambda target: replace(target, tuning=replace(target.tuning, **changes))

    yield "vectors", [lambda target: replace(target, vector_bytes=32)] if host().vector_bytes == 64 else []
    yield "unroll", [tuning(unroll=count) for count in (1, 2, 4)]
    if any(isinstance(statement, Reduce) for statement in _statements(kernel.body)):
        yield "accumulators", [tuning(accumulators=count) for count in (1, 2, 8)]
    written = sum(t.numel() * t.itemsize for buffer, t in zip(kernel.buffers, data.memory, strict=True)
                  if buffer.name in kernel.writes)
    if written >= cpu_printer.STREAM // 8:
        streams = written >= cpu_printer.STREAM
        yield "stores", [tuning(stream=ALONE if streams else max(written // 2, 1))]
    if torch.get_num_threads() > 1 and any(isinstance(s, Loop) and s.parallel for s in kernel.body):
        grains = [cpu_printer.GRAIN // 8, cpu_printer.GRAIN // 2, 4 * cpu_printer.GRAIN, ALONE]
        yield "threads", [tuning(grain=grain) for grain in grains]


def _statements(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from _statements(statement.body)


# ---------------------------------------------------------------------------------------------------------------------
# made-up data


@dataclass
class MadeUp:
    """Memory and numbers that a kernel can run on."""

    memory: list[torch.Tensor]
    sizes: list[int]
    numbers: list[float]

    def runner(self, compiled: CompiledKernel) -> Way:
        """A function that runs machine code on this data."""
        pointers = (ctypes.c_void_p * max(len(self.memory), 1))(*[tensor.data_ptr() for tensor in self.memory])
        sizes = (ctypes.c_int64 * max(len(self.sizes), 1))(*self.sizes)
        numbers = (ctypes.c_double * max(len(self.numbers), 1))(*self.numbers)
        function = _CALL(compiled.address)
        kept = (pointers, sizes, numbers)
        arguments = [ctypes.addressof(array) for array in kept]

        def run(kept: Any = kept) -> None:
            function(*arguments)

        return run


def made_up(kernel: Kernel, launch: Launch, hints: Mapping[Symbol, int],
            device: torch.device | None = None) -> MadeUp | str:
    """Data for a kernel, or why there can be none."""
    values: dict[Symbol, int] = {}
    for symbol, expr in zip(kernel.sizes, launch.sizes, strict=True):
        if not expr.free_symbols <= hints.keys():
            return f"the size {expr} is not known before it runs"
        values[symbol] = int(expr.evaluate(hints))
    places = list(_places(kernel.body))
    if any(place.indirect for place, _ in places):
        return "what it reads depends on data"
    if any(_may_divide_by_zero(node) for node in nodes(kernel.body)):
        return "it divides integers, which must not be 0"
    ranges = _ranges(kernel, values)
    needed: dict[str, int] = {}
    for place, masked in places:
        reach = ranges.interval(place.index)
        if not reach.is_finite or (reach.lower < 0 and not masked):
            return f"it cannot be told how far {place.buffer}[{place.index}] reaches"
        needed[place.buffer] = max(needed.get(place.buffer, 1), int(reach.upper) + 1)
    memory, total = [], 0
    for buffer in kernel.buffers:
        if not all(expr.free_symbols <= values.keys() for expr in (*buffer.shape, *buffer.strides)):
            extent = needed.get(buffer.name, 1)
        else:
            sizes = [int(expr.evaluate(values)) for expr in buffer.shape]
            strides = [int(expr.evaluate(values)) for expr in buffer.strides]
            extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size > 0)
        count = max(extent, needed.get(buffer.name, 1), 1)
        if count > ROOM * max(extent, 1) + 4096:
            return f"{buffer.name} may be read far beyond its end"
        total += count * buffer.dtype.itemsize
        if total > MOST_BYTES:
            return "it works on too much memory"
        memory.append(torch.full((count,), 1, dtype=buffer.dtype, device=device))
    return MadeUp(memory, [values[symbol] for symbol in kernel.sizes], [1.0] * len(kernel.numbers))


def _may_divide_by_zero(node: Value) -> bool:
    """Whether a division of integers is by something that need not be 1 when everything in memory is."""
    if node.op not in OPERATIONS or not OPERATIONS[node.op].divides or node.dtype.is_floating_point:
        return False
    divisor = node.args[1]
    while divisor.op == "cast":
        divisor = divisor.args[0]
    return divisor.op != "load" if divisor.op != "const" else not divisor.data


def _places(body: Sequence[Statement]) -> Iterator[tuple[Place, bool]]:
    """All places that are read or written, and whether a mask may keep an access from happening."""
    for statement in _statements(body):
        if isinstance(statement, Loop):
            continue
        values: tuple[Value, ...] = (statement.value,)
        if isinstance(statement, Store | Scan):
            values = (*values, *statement.args)
            yield statement.place, statement.place.masked
        for value in values:
            for node in value.walk():
                if node.op == "load":
                    yield node.data, node.data.masked


def _ranges(kernel: Kernel, values: Mapping[Symbol, int]) -> RangeAnalysis:
    """What indices can be, with all loops between 0 and their last iteration."""
    known: dict[Any, Interval] = {symbol: point(value) for symbol, value in values.items()}
    for axis in _axes(kernel.body):
        upper = RangeAnalysis(known).interval(axis.size).upper
        earlier = known.get(axis.symbol)
        known[axis.symbol] = Interval(0, max(upper - 1, 0, earlier.upper if earlier is not None else 0))
    return RangeAnalysis(known)


def _axes(body: Sequence[Statement]) -> Iterator[Axis]:
    for statement in body:
        if isinstance(statement, Loop):
            yield statement.axis
            yield from _axes(statement.body)
        elif isinstance(statement, Reduce):
            yield from statement.axes
        elif isinstance(statement, Scan):
            yield statement.axis
