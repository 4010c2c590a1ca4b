"""Who uses which buffer when: the segments of a plan between calls of ATen, and how each buffer is kept.

    Allocate buf0          segment 0
    Launch k0(x, buf0)     segment 0
    ExternCall mm(buf0, w) -> buf1
    Allocate buf2          segment 1
    Launch k1(buf1, buf2)  segment 1

A segment runs as native code. A buffer that nothing outside of one segment sees is plain memory; any other is a tensor.
Lifetimes are found from the uses, so a plan's `Free` steps need not be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from ...records import dataclass
from ..ir import BufferRef, ExternCall
from ..plan import Allocate, Free, KernelPlan, Launch, Step, WriteBack

END = 1 << 60
"""The position of the return, behind all steps."""
Part = list[tuple[int, Step]] | tuple[int, Step]
"""A segment, as its steps with their positions, or a single step between two of them."""


@dataclass
class Lifetimes:
    """What is known about the buffers of a plan."""

    plan: KernelPlan
    reuse: bool = True
    parts: list[Part] = field(default_factory=list)
    root: dict[str, str] = field(default_factory=dict)
    """The buffer whose memory another one uses, itself if it has its own."""
    allocated: dict[str, int] = field(default_factory=dict)
    """Where a buffer's memory is allocated: the position of a step."""
    last: dict[str, int] = field(default_factory=dict)
    """The position of the last use, of a root: of all that use its memory."""
    tensors: set[str] = field(default_factory=set)
    """Roots that are tensors, not plain memory."""
    objects: set[str] = field(default_factory=set)
    """Buffers that are used as tensors, not by their address only."""
    layouts: set[str] = field(default_factory=set)
    """Buffers whose strides matter: kernels and views find elements by them."""
    segment: dict[int, int] = field(default_factory=dict)
    """The part that a step belongs to."""
    seen: set[str] | None = None
    """Buffers that are tensors for others than kernels, once somebody has asked."""
    _ending: dict[int, list[str]] | None = None

    def group(self, buffer: str) -> str:
        """The buffer in whose memory a buffer lies, itself if it has its own."""
        return self.root.get(buffer, buffer)

    def is_same_tensor(self, buffer: str) -> bool:
        """Whether a buffer is not only in the memory of another one, but laid out like it."""
        root = self.group(buffer)
        if root == buffer:
            return False
        new, old = self.plan.buffers[buffer], self.plan.buffers[root]
        return (new.shape, new.strides, new.dtype) == (old.shape, old.strides, old.dtype)

    def is_new_tensor(self, buffer: str) -> bool:
        """Whether the allocation of a buffer makes a tensor."""
        root = self.group(buffer)
        return buffer in self.tensors if root == buffer else buffer in self.objects and not self.is_same_tensor(buffer)

    def ending(self, position: int) -> list[str]:
        """Roots whose memory is not needed after a step."""
        if self._ending is None:
            self._ending = {}
            for root, last in self.last.items():
                self._ending.setdefault(last, []).append(root)
        return self._ending.get(position, [])


def references(value: Any) -> Iterator[BufferRef]:
    """The buffers in the arguments of a call."""
    if isinstance(value, BufferRef):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references(item)


def lifetimes(plan: KernelPlan, reuse: bool = True, longest: int = END) -> Lifetimes:
    """Look at all uses of all buffers. Without ``reuse`` every buffer has memory of its own; no segment has more than
    ``longest`` steps."""
    result = Lifetimes(plan, reuse)
    for position, step in enumerate(plan.steps):
        if isinstance(step, (Allocate, Launch)):
            segment = result.parts[-1] if result.parts else None
            if not isinstance(segment, list) or len(segment) >= longest:
                segment = []
                result.parts.append(segment)
            segment.append((position, step))
        elif isinstance(step, (ExternCall, WriteBack)):
            result.parts.append((position, step))
        else:
            assert isinstance(step, Free), step
            continue
        result.segment[position] = len(result.parts) - 1
    for position, step in enumerate(plan.steps):
        _note(result, position, step)
    for output in plan.outputs:
        if isinstance(output, BufferRef):
            _as_tensor(result, output.buffer, END, output)
    for buffer in result.objects:
        result.tensors.add(result.group(buffer))
    return result


def _use(lifetimes: Lifetimes, buffer: str, position: int) -> None:
    root = lifetimes.group(buffer)
    lifetimes.last[root] = max(lifetimes.last.get(root, -1), position)
    made_in, used_in = lifetimes.segment.get(lifetimes.allocated.get(root, -1)), lifetimes.segment.get(position)
    if root in lifetimes.allocated and made_in != used_in:
        lifetimes.tensors.add(root)


def _as_tensor(lifetimes: Lifetimes, buffer: str, position: int, reference: BufferRef | None = None) -> None:
    lifetimes.objects.add(buffer)
    _use(lifetimes, buffer, position)
    if reference is not None and reference.shape is not None:
        lifetimes.layouts.add(buffer)


def _note(lifetimes: Lifetimes, position: int, step: Step) -> None:
    if isinstance(step, Allocate):
        name = step.buffer.name
        old = step.reuse
        if old is not None and not (lifetimes.reuse and _fits(lifetimes, name, old)):
            old = None
        lifetimes.root[name] = lifetimes.group(old) if old is not None else name
        if old is None:
            lifetimes.allocated[name] = position
        else:
            lifetimes.layouts.add(lifetimes.group(old))
        _use(lifetimes, name, position)
    elif isinstance(step, Launch):
        for buffer in step.buffers:
            _use(lifetimes, buffer, position)
            lifetimes.layouts.add(buffer)
    elif isinstance(step, ExternCall):
        for reference in references((step.args, step.kwargs)):
            _as_tensor(lifetimes, reference.buffer, position, reference)
        for output in step.outputs:
            if output is not None:
                lifetimes.allocated.setdefault(lifetimes.group(output), position)
                lifetimes.root.setdefault(output, output)
                _as_tensor(lifetimes, output, position)
    elif isinstance(step, WriteBack):
        _as_tensor(lifetimes, step.source.buffer, position)


def _fits(lifetimes: Lifetimes, name: str, old: str) -> bool:
    """Whether memory can be used again: always by its address; as a tensor only under the same dtype."""
    new, base = lifetimes.plan.buffers.get(name), lifetimes.plan.buffers.get(lifetimes.group(old))
    if new is None or base is None or base.kind in ("input", "constant"):
        return False
    if new.dtype is base.dtype:
        return True
    if lifetimes.seen is None:
        lifetimes.seen = _seen(lifetimes.plan)
    return name not in lifetimes.seen


def _seen(plan: KernelPlan) -> set[str]:
    """The buffers that are arguments or results of the program or of calls of ATen."""
    seen = {output.buffer for output in plan.outputs if isinstance(output, BufferRef)}
    for step in plan.steps:
        if isinstance(step, ExternCall):
            seen.update(name for name in step.outputs if name is not None)
            seen.update(reference.buffer for reference in references((step.args, step.kwargs)))
        elif isinstance(step, WriteBack):
            seen.add(step.source.buffer)
    return seen
