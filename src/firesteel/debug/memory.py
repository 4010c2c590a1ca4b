"""Memory: what a plan holds while it runs, step by step, and what the process has at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from ..kernels.drawing import call_name, size_of
from ..kernels.ir import ExternCall
from ..kernels.plan import Allocate, Free, KernelPlan, Launch
from ..shapes import Symbol

_STATM = "/proc/self/statm"
MOST_STEPS = 1000
"""Steps of a plan that are kept; of more, the largest of each stretch."""


def held_by(plan: KernelPlan, hints: Mapping[Symbol, int]) -> tuple[int, list[tuple[str, int]]] | None:
    """The bytes of a plan's arguments and constants, and for each kernel and call in order those that the plan itself
    holds meanwhile; None where sizes are not known before a call."""
    sizes: dict[str, int] = {}
    for name, buffer in plan.buffers.items():
        size = size_of(buffer)
        if not size.free_symbols <= hints.keys():
            return None
        sizes[name] = int(size.evaluate(hints))
    given = {one.name for one in plan.inputs if not isinstance(one, Symbol)} | set(plan.constants)
    held: dict[str, int] = {}
    steps: list[tuple[str, int]] = []
    for step in plan.steps:
        if isinstance(step, Allocate):
            name = step.buffer.name
            held[name] = held.pop(step.reuse) if step.reuse is not None and step.reuse in held else sizes.get(name, 0)
        elif isinstance(step, ExternCall):
            if not step.out:
                held.update({name: sizes.get(name, 0) for name in step.outputs if name is not None})
            steps.append((call_name(step.target), sum(held.values())))
        elif isinstance(step, Launch):
            steps.append((step.kernel.name, sum(held.values())))
        elif isinstance(step, Free):
            for name in step.buffers:
                held.pop(name, None)
    return sum(sizes.get(name, 0) for name in given), thinned(steps)


def thinned(steps: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Of many steps the largest of each stretch.

    >>> thinned([("a", 1), ("b", 3)])
    [('a', 1), ('b', 3)]
    """
    stretch = -(-len(steps) // MOST_STEPS)
    if stretch <= 1:
        return steps
    return [max(steps[at:at + stretch], key=lambda step: step[1]) for at in range(0, len(steps), stretch)]


def of_process() -> tuple[int, int]:
    """The bytes of this process in memory, and those of its tensors on the GPU; 0 where that is not known."""
    resident = 0
    if os.path.exists(_STATM):
        with open(_STATM, encoding="ascii") as file:
            resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, torch.cuda.memory_allocated() if torch.cuda.is_available() and torch.cuda.is_initialized() else 0
