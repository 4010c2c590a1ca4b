"""What is recorded of kernels: the operators and lines inside of them, the bytes they move, their source and time."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..functional.size_nodes import hints_of
from ..kernels.drawing import call_name, draw_plan, size_of
from ..kernels.ir import BufferRef, ExternCall, Kernel
from ..kernels.plan import KernelPlan, Launch
from ..shapes import Symbol
from .memory import held_by
from .record import KernelRecord, Place, Program

if TYPE_CHECKING:
    from ..pipeline.compile import Executable

MOST_DRAWN = 40
"""Steps of a plan that is drawn."""
MOST_SOURCE = 2_000_000
"""Characters of generated source that are kept, of all kernels together."""
LARGEST_COPY = 1 << 28


@dataclass(frozen=True)
class _Printable:
    """A kernel whose source is printed when the recording ends."""

    record: KernelRecord
    kernel: Kernel
    launch: Launch
    hints: Mapping[Symbol, int]
    compiled: Any
    on_host: bool


class KernelNotes:
    """Collects kernels while they are made, and finds out about them later what takes time."""

    def __init__(self, measure: bool) -> None:
        self.measure = measure
        self.waiting: list[_Printable] = []
        self.characters = 0

    def of_program(self, program: Program, executable: Executable, kernels: Sequence[Kernel], target: Any) -> None:
        """Note the kernels and calls of a plan, in order."""
        plan, hints = executable.plan, hints_of(executable.functional)
        compiled = {id(kernel): code for kernel, code in zip(kernels, executable.compiled, strict=True)}
        seen: set[int] = set()
        for step in plan.steps:
            if isinstance(step, ExternCall):
                read = _bytes(plan, _buffers_in((step.args, tuple(step.kwargs.values()))), hints)
                written = _bytes(plan, [name for name in step.outputs if name is not None], hints)
                program.kernels.append(KernelRecord(call_name(step.target), operators(step.origins),
                                                    lines(step.origins), read, written, is_call=True))
            elif isinstance(step, Launch) and id(step.kernel) not in seen:
                seen.add(id(step.kernel))
                record = _of_launch(plan, step, hints)
                program.kernels.append(record)
                bare = replace(step.kernel, origins=())  # nodes of graphs hold all there is
                self.waiting.append(_Printable(record, bare, replace(step, kernel=bare), hints,
                                               compiled.get(id(step.kernel)), target.kind.is_host))
        held = held_by(plan, hints)
        if held is not None:
            program.arguments, program.memory = held
        if len(plan.steps) <= MOST_DRAWN:
            program.drawing = draw_plan(plan).to_svg()

    def finish(self) -> None:
        """Print the sources, and run kernels where times are wanted."""
        waiting, self.waiting = self.waiting, []
        for item in waiting:
            if self.characters < MOST_SOURCE:
                item.record.source = _source(item)
                self.characters += len(item.record.source)
            if self.measure:
                _measure(item)


def _of_launch(plan: KernelPlan, launch: Launch, hints: Mapping[Symbol, int]) -> KernelRecord:
    kernel = launch.kernel
    names = dict(zip([buffer.name for buffer in kernel.buffers], launch.buffers, strict=True))
    writes = [actual for name, actual in names.items() if name in kernel.writes]
    reads = [actual for name, actual in names.items() if name not in kernel.writes]
    return KernelRecord(kernel.name, operators(kernel.origins), lines(kernel.origins), _bytes(plan, reads, hints),
                        _bytes(plan, writes, hints), loops=str(kernel))


def operators(origins: Sequence[Any]) -> list[str]:
    """The names of the operators behind a kernel, in the order of the graph."""
    in_order = sorted(origins) if all(isinstance(node, torch.fx.Node) for node in origins) else origins
    targets = [getattr(node, "target", node) for node in in_order]
    return [str(target) for target in targets if target is not operator.getitem]


def lines(origins: Sequence[Any]) -> list[Place]:
    """The lines of the program whose operators are among these, each once."""
    from .recorder import own_places

    frames = [node.meta.get("user_frames", ()) for node in origins if isinstance(node, torch.fx.Node)]
    return list(dict.fromkeys(place for some in frames for place in own_places(some)[-1:]))


def _bytes(plan: KernelPlan, names: Sequence[str], hints: Mapping[Symbol, int]) -> int | None:
    total = 0
    for name in dict.fromkeys(names):
        if name in plan.buffers:
            size = size_of(plan.buffers[name])
            if not size.free_symbols <= hints.keys():
                return None
            total += int(size.evaluate(hints))
    return total


def _buffers_in(value: Any) -> list[str]:
    if isinstance(value, BufferRef):
        return [value.buffer]
    return [name for part in value for name in _buffers_in(part)] if isinstance(value, tuple | list) else []


def _source(item: _Printable) -> str:
    try:
        if item.on_host:
            from ..kernels.cpu.engine import llvm_text

            return llvm_text(item.kernel, name=item.record.name)
        from ..kernels.gpu.versions import print_versions

        return print_versions(item.kernel).source
    except Exception as error:  # what is printed is for people only
        return f"; it cannot be printed: {type(error).__name__}: {error}"


def _measure(item: _Printable) -> None:
    from ..kernels.tuning.kernels import made_up
    from ..kernels.tuning.measuring import measure

    record = item.record
    if not item.on_host or item.compiled is None:
        record.not_measured = "it runs on a GPU"
        return
    data = made_up(item.kernel, item.launch, item.hints)
    if isinstance(data, str):
        record.not_measured = data
        return
    ways = {"kernel": data.runner(item.compiled)}
    moved = (record.read or 0) + (record.written or 0)
    if 0 < moved <= LARGEST_COPY:
        source = torch.zeros(moved // 2 + 1, dtype=torch.uint8)
        target = torch.zeros_like(source)
        ways["copy"] = lambda: ctypes.memmove(target.data_ptr(), source.data_ptr(), source.numel())
    times = measure(ways)
    record.seconds, record.copy_seconds = times["kernel"], times.get("copy")
