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
    made: dict[str, int] = field(default_factory=dict)
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
    _ending: dict[int, list[str]] | None = None

    def group(self, buffer: str) -> str:
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


def lifetimes(plan: KernelPlan, reuse: bool = True) -> Lifetimes:
    """Look at all uses of all buffers. Without ``reuse`` every buffer has memory of its own."""
    found = Lifetimes(plan, reuse)
    for position, step in enumerate(plan.steps):
        if isinstance(step, (Allocate, Launch)):
            if not found.parts or not isinstance(found.parts[-1], list):
                found.parts.append([])
            segment = found.parts[-1]
            assert isinstance(segment, list)
            segment.append((position, step))
        elif isinstance(step, (ExternCall, WriteBack)):
            found.parts.append((position, step))
        else:
            assert isinstance(step, Free), step
            continue
        found.segment[position] = len(found.parts) - 1
    for position, step in enumerate(plan.steps):
        _note(found, position, step)
    for output in plan.outputs:
        if isinstance(output, BufferRef):
            _as_tensor(found, output.buffer, END, output)
    for buffer in found.objects:
        found.tensors.add(found.group(buffer))
    return found


def _use(found: Lifetimes, buffer: str, position: int) -> None:
    root = found.group(buffer)
    found.last[root] = max(found.last.get(root, -1), position)
    if root in found.made and found.segment.get(found.made[root]) != found.segment.get(position):
        found.tensors.add(root)


def _as_tensor(found: Lifetimes, buffer: str, position: int, reference: BufferRef | None = None) -> None:
    found.objects.add(buffer)
    _use(found, buffer, position)
    if reference is not None and reference.shape is not None:
        found.layouts.add(buffer)


def _note(found: Lifetimes, position: int, step: Step) -> None:
    if isinstance(step, Allocate):
        name = step.buffer.name
        old = step.reuse
        if old is not None and not (found.reuse and _fits(found, name, old)):
            old = None
        found.root[name] = found.group(old) if old is not None else name
        if old is None:
            found.made[name] = position
        else:
            found.layouts.add(found.group(old))
        _use(found, name, position)
    elif isinstance(step, Launch):
        for buffer in step.buffers:
            _use(found, buffer, position)
            found.layouts.add(buffer)
    elif isinstance(step, ExternCall):
        for reference in references((step.args, step.kwargs)):
            _as_tensor(found, reference.buffer, position, reference)
        for output in step.outputs:
            if output is not None:
                found.made.setdefault(found.group(output), position)
                found.root.setdefault(output, output)
                _as_tensor(found, output, position)
    elif isinstance(step, WriteBack):
        _as_tensor(found, step.source.buffer, position)


def _fits(found: Lifetimes, name: str, old: str) -> bool:
    """Whether memory can be used again: always by its address; as a tensor only under the same dtype."""
    new, base = found.plan.buffers.get(name), found.plan.buffers.get(found.group(old))
    if new is None or base is None or base.kind in ("input", "constant"):
        return False
    return new.dtype is base.dtype or not _seen(found.plan, name)


def _seen(plan: KernelPlan, name: str) -> bool:
    """Whether a buffer is an argument or a result of the program or of a call of ATen."""
    if any(isinstance(output, BufferRef) and output.buffer == name for output in plan.outputs):
        return True
    for step in plan.steps:
        if isinstance(step, ExternCall):
            if name in step.outputs or any(ref.buffer == name for ref in references((step.args, step.kwargs))):
                return True
        elif isinstance(step, WriteBack) and step.source.buffer == name:
            return True
    return False
