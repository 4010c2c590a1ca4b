"""When buffers are made and given up, and which of them take over the memory of others.

A buffer is allocated before the step that fills it and freed after the last one that reads it. Memory that is free and
of exactly the same size is used again; a kernel that reads every element of a dying buffer before it writes the same
element of a new one works in place. Large memory does not wait for that while a library is called, which may need it
for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from ...shapes import Expr
from ...shapes.expr import ONE, ZERO
from ..ir import Buffer, ExternCall
from ..plan import Allocate, Free, Launch, Step, WriteBack
from .fusion import accesses
from .indices import estimate

LARGE = 1 << 16
"""Bytes from which memory that nobody uses is given back before a call, rather than kept for a later buffer."""


def place_buffers(
    steps: Sequence[Launch | ExternCall | WriteBack],
    buffers: Mapping[str, Buffer],
    outputs: frozenset[str],
    given: frozenset[str],
) -> list[Step]:
    """The program with allocations and frees. ``given`` are inputs and constants, ``outputs`` must stay."""
    last: dict[str, int] = {}
    first: dict[str, int] = {}
    uses = [_accesses(step) for step in steps]
    for number, (reads, writes) in enumerate(uses):
        for name in (*reads, *writes):
            last[name] = number
        for name in writes:
            first.setdefault(name, number)
    result: list[Step] = []
    free: dict[Expr, list[str]] = {}
    reusable: set[str] = set()
    for number, step in enumerate(steps):
        reads, writes = uses[number]
        dying = [name for name in dict.fromkeys((*reads, *writes))
                 if last[name] == number and name not in outputs and name not in given]  # fmt: skip
        taken: set[str] = set()
        if not isinstance(step, WriteBack):
            if isinstance(step, ExternCall):
                free = {size: names for size, names in free.items() if estimate(size) < LARGE}
            for name in writes:
                if first[name] != number or name in given:
                    continue
                if isinstance(step, ExternCall) and not step.out:
                    if _is_fresh(step) and name in buffers:  # a number is no buffer
                        reusable.add(name)
                    continue
                result.append(Allocate(buffers[name], _find(name, step, dying, taken, free, reusable, buffers)))
                reusable.add(name)
        result.append(step)
        gone = [name for name in dying if name not in taken]
        for name in gone:
            if name in reusable:
                free.setdefault(_bytes(buffers[name]), []).append(name)
        if gone:
            result.append(Free(tuple(gone)))
    return _without_reused_frees(result)


def _find(
    name: str, step: Launch | ExternCall, dying: list[str], taken: set[str], free: dict[Expr, list[str]],
    reusable: set[str], buffers: Mapping[str, Buffer],
) -> str | None:  # fmt: skip
    """A buffer whose memory the new one can have."""
    size = _bytes(buffers[name])
    if isinstance(step, Launch):
        kernel = step.kernel
        names = dict(zip([buffer.name for buffer in kernel.buffers], step.buffers, strict=True))
        for written, read in sorted(kernel.in_place):
            old = names[read]
            if names[written] != name or old not in dying or old in taken or old not in reusable:
                continue
            # One memory twice among the arguments would be read under another name too.
            alike = _bytes(buffers[old]) is size and buffers[old].device == buffers[name].device
            if alike and step.buffers.count(old) == 1:
                taken.add(old)
                return old
    waiting = free.get(size)
    for at in range(len(waiting or ()) - 1, -1, -1):
        assert waiting is not None
        if buffers[waiting[at]].device == buffers[name].device:
            return waiting.pop(at)
    return None


def _without_reused_frees(steps: list[Step]) -> list[Step]:
    """Memory that is used again is not given up in between: the first `Free` of it is dropped."""
    reused = {step.reuse for step in steps if isinstance(step, Allocate) and step.reuse is not None}
    result: list[Step] = []
    for step in steps:
        if isinstance(step, Free):
            kept = tuple([name for name in step.buffers if name not in reused])
            if kept:
                result.append(Free(kept))
        else:
            result.append(step)
    return result


def _accesses(step: Launch | ExternCall | WriteBack) -> tuple[list[str], list[str]]:
    if isinstance(step, WriteBack):
        return [step.source.buffer], [step.target]
    if isinstance(step, ExternCall):
        return accesses(step)
    writes = [name for parameter, name in zip(step.kernel.buffers, step.buffers, strict=True)
              if parameter.name in step.kernel.writes]  # fmt: skip
    return [name for name in step.buffers if name not in writes], writes


def _is_fresh(call: ExternCall) -> bool:
    """Whether the results of a call are memory of their own, going by its signature."""
    schema: Any = getattr(call.target, "_schema", None)
    return schema is not None and not any(result.alias_info is not None for result in schema.returns)


def _bytes(buffer: Buffer) -> Expr:
    """The memory from a buffer's first element to its last."""
    return _extent(buffer.shape, buffer.strides, buffer.dtype.itemsize)


@lru_cache(maxsize=1 << 12)
def _extent(shape: tuple[Expr, ...], strides: tuple[Expr, ...], itemsize: int) -> Expr:
    last: Expr = ZERO
    for size, stride in zip(shape, strides, strict=True):
        if size is ZERO:
            return ZERO
        last = last + (size - 1) * stride
    return (last + ONE) * itemsize


def peak_bytes(steps: Sequence[Step], buffers: Mapping[str, Buffer], values: Mapping[Any, int]) -> int:
    """The most memory that buffers made by the program take at once, for given sizes."""
    live: dict[str, int] = {}
    peak = 0
    for step in steps:
        if isinstance(step, Allocate):
            if step.reuse is not None:
                live.pop(step.reuse, None)
            live[step.buffer.name] = int(_bytes(step.buffer).evaluate(values))
        elif isinstance(step, ExternCall) and not step.out:
            for name in step.outputs:
                if name is not None and isinstance(buffers[name].dtype, torch.dtype):
                    live[name] = int(_bytes(buffers[name]).evaluate(values))
        peak = max(peak, sum(live.values()))
        if isinstance(step, Free):
            for name in step.buffers:
                live.pop(name, None)
    return peak
