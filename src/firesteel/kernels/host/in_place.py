"""Writes to inputs without a copy: the kernel that computes an input's new contents stores them where they belong.

    before: buf0 = empty(...); k0(a, buf0); x.copy_(buf0)
    after:  buf0 = written_memory(x, a); k0(a, buf0); finish_write(x, buf0)

``written_memory`` is the input itself, unless it shares memory with something that is used while it is written or
after that: then it is a new tensor, and ``finish_write`` copies. So guards on memory need not be relied on here.

Several inputs that are looked at when the program starts, such as the parameters that an optimizer changes, are looked
at together: where no two tensors share memory nothing has to be compared pair by pair.

The old contents must not be wanted any more once the kernel runs, other than at the place that it writes, and nothing
that could raise may come after it. The library calls of a GPU raise for lack of memory only: a network's statistics,
which eager has changed by then as well, are written in front of them.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch

from ...devices import kind_of
from ...records import dataclass
from ...shapes import Const
from ...shapes.expr import ZERO
from ..ir import Buffer, BufferRef, ExternCall
from ..plan import Allocate, KernelPlan, Launch, Step, WriteBack

WORTHWHILE = 1 << 16
"""Copying fewer bytes costs no more than finding out whether a copy is needed."""
MANY = 8
"""With so many inputs, finding that out for all at once costs less than copying any."""
_ATEN = torch.ops.aten
LIBRARY = frozenset(map(id, (
    _ATEN.convolution.default, _ATEN.convolution_backward.default, _ATEN.mm.default, _ATEN.addmm.default,
    _ATEN.bmm.default, _ATEN.baddbmm.default)))
"""Operators that take arguments of these sizes always or never."""


def written_memory(target: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """Memory for the new contents of an input: its own if none of the others lies there too."""
    start, end = _span(target)
    for other in others:
        first, last = _span(other)
        if first < end and start < last:
            return torch.empty_strided(target.shape, target.stride(), dtype=target.dtype, device=target.device)
    if target.is_inference() and not torch.is_inference_mode_enabled():
        return torch.empty_strided(target.shape, target.stride(), dtype=target.dtype, device=target.device)
    return target


def finish_write(target: torch.Tensor, memory: torch.Tensor) -> None:
    """The new contents of an input are in ``memory``: what is left to do."""
    if memory is target:
        torch.autograd.graph.increment_version(target)
    else:
        target.copy_(memory)


_itemsize = attrgetter("itemsize")


def written_memories(count: int, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """`written_memory` for the first ``count`` tensors; all the others are what must not lie there."""
    targets = tensors[:count]
    if _are_apart(tensors) and not any(map(torch.Tensor.is_inference, targets)):
        return list(targets)
    return [written_memory(target, *tensors[:at], *tensors[at + 1 :]) for at, target in enumerate(targets)]


_apart: dict[Any, bool] = {}
"""Whether tensors lie apart, by where they are and how: those of a network are mostly the ones of the last call."""


def _are_apart(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether no two of the tensors share memory."""
    key = (tuple(map(torch.Tensor.data_ptr, tensors)), tuple(map(torch.Tensor.size, tensors)),
           tuple(map(torch.Tensor.stride, tensors)), tuple(map(_itemsize, tensors)))
    known = _apart.get(key)
    if known is None:
        spans = sorted(map(_span, tensors))
        ends = [end for _, end in spans]
        known = all(start >= end for (start, _), end in zip(spans[1:], ends, strict=False))
        if len(_apart) >= 64:
            _apart.clear()
        _apart[key] = known
    return known


def finish_writes(count: int, *tensors: torch.Tensor) -> None:
    """`finish_write` for the first ``count`` tensors, whose new contents are in the others."""
    changed = []
    for target, memory in zip(tensors[:count], tensors[count:], strict=True):
        if memory is target:
            changed.append(target)
        else:
            target.copy_(memory)
    torch.autograd.graph.increment_version(changed)


def _span(t: torch.Tensor) -> tuple[int, int]:
    """The addresses of a tensor's first byte and behind its last."""
    start = t.data_ptr()
    if t.is_contiguous():
        return start, start + t.nbytes
    last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    return start, start + (last + 1) * t.itemsize


def write_in_place(plan: KernelPlan) -> KernelPlan:
    """The plan with kernels that write to inputs themselves, wherever that cannot be told from a copy at the end."""
    chances: list[tuple[WriteBack, _Chance]] = []
    for step in plan.steps:
        chance = _chance(plan, step) if isinstance(step, WriteBack) else None
        if chance is not None:
            assert isinstance(step, WriteBack)
            chances.append((step, chance))
    together = [(write, chance) for write, chance in chances if chance.at_once]
    if len(together) < MANY:
        chances = [(write, chance) for write, chance in chances if not _is_small(plan.buffers[write.target])]
        together = [(write, chance) for write, chance in chances if chance.at_once]
    if not chances:
        return plan
    replaced: dict[int, Step | None] = {}
    early: list[Step] = []
    late: list[Step] = []
    if len(together) > 1:
        begin, finish = _all_at_once(together)
        early, late = [begin], [finish]
        for write, chance in together:
            replaced[id(chance.allocation)] = replaced[id(write)] = None
        chances = [pair for pair in chances if not pair[1].at_once]
    for write, chance in chances:
        target = BufferRef(write.target)
        begin = ExternCall(written_memory, (target, *map(BufferRef, chance.others)), {}, (write.source.buffer,))
        replaced[id(chance.allocation)] = None if chance.at_once else begin
        if chance.at_once:
            early.append(begin)
        replaced[id(write)] = ExternCall(finish_write, (target, BufferRef(write.source.buffer)), {}, ())
    steps = [replaced.get(id(step), step) for step in plan.steps]
    return replace(plan, steps=[*early, *(step for step in steps if step is not None), *late])


def _all_at_once(chances: list[tuple[WriteBack, _Chance]]) -> tuple[ExternCall, ExternCall]:
    """The calls before and after a program that writes to several inputs in place."""
    targets = [write.target for write, _ in chances]
    others = dict.fromkeys(name for _, chance in chances for name in chance.others if name not in targets)
    sources = tuple([write.source.buffer for write, _ in chances])
    begin = ExternCall(written_memories, (len(targets), *map(BufferRef, (*targets, *others))), {}, sources)
    return begin, ExternCall(finish_writes, (len(targets), *map(BufferRef, (*targets, *sources))), {}, ())


@dataclass(frozen=True)
class _Chance:
    """A write that needs no copy."""

    allocation: Allocate
    others: tuple[str, ...]
    """What must not lie in the same memory."""
    at_once: bool
    """Whether all of these are there when the program starts: looking at them then does not part kernels."""


def _chance(plan: KernelPlan, write: WriteBack) -> _Chance | None:
    source, target = write.source.buffer, write.target
    if not _same_layout(plan, write):
        return None
    if any(isinstance(output, BufferRef) and output.buffer == source for output in plan.outputs):
        return None
    allocations = [step for step in plan.steps if isinstance(step, Allocate) and step.buffer.name == source]
    writers = [number for number, step in enumerate(plan.steps) if source in _written(step)]
    if len(allocations) != 1 or len(writers) != 1:
        return None
    kernel = plan.steps[writers[0]]
    if not isinstance(kernel, Launch):
        return None
    others: dict[str, None] = {}
    kind = kind_of(plan.buffers[target].device)
    for step in plan.steps[writers[0]:]:
        if isinstance(step, Allocate) and step.reuse == source:
            return None
        if isinstance(step, ExternCall):
            read = _read(step)
            if kind.raises_for_values or id(step.target) not in LIBRARY or target in read:
                return None  # it could raise
            others.update(dict.fromkeys(read))
        if isinstance(step, WriteBack) and step is not write:
            if step.source.buffer in (source, target) or step.target == target:
                return None
            others.update(dict.fromkeys((step.source.buffer, step.target)))
        elif isinstance(step, Launch):
            if target in step.buffers and not (step is kernel and _reads_before_writing(step, source, target)):
                return None
            others.update(dict.fromkeys(step.buffers))
    for name in (source, target):
        others.pop(name, None)
    own = {step.buffer.name for step in plan.steps if isinstance(step, Allocate)}
    for step in plan.steps:
        if isinstance(step, ExternCall) and id(step.target) in LIBRARY:
            own.update(_written(step))  # new memory
    given = {item.name for item in plan.inputs if isinstance(item, Buffer)} | plan.constants.keys()
    named = tuple(name for name in others if name not in own)
    return _Chance(allocations[0], named, given.issuperset(named))


def _same_layout(plan: KernelPlan, write: WriteBack) -> bool:
    """Whether the new contents are a whole buffer that is laid out like the input."""
    source, target = plan.buffers.get(write.source.buffer), plan.buffers.get(write.target)
    if source is None or target is None or write.source.dtype not in (None, source.dtype):
        return False
    layout = (target.shape, target.strides, target.dtype, target.device)
    if (source.shape, source.strides, source.dtype, source.device) != layout:
        return False
    if write.source.shape is None:
        return True
    offset = write.source.offset
    return (write.source.shape, write.source.strides) == layout[:2] and (offset is None or offset is ZERO)


def _is_small(buffer: Buffer) -> bool:
    elements = 1
    for size in buffer.shape:
        if not isinstance(size, Const):
            return False
        elements *= int(size)
    return elements * buffer.dtype.itemsize < WORTHWHILE


def _written(step: Step) -> list[str]:
    if isinstance(step, Launch):
        parameters = zip(step.kernel.buffers, step.buffers, strict=True)
        return [name for parameter, name in parameters if parameter.name in step.kernel.writes]
    return [name for name in step.outputs if name is not None] if isinstance(step, ExternCall) else []


def _read(call: ExternCall) -> list[str]:
    names: list[str] = []
    open_values: list[Any] = [call.args, call.kwargs]
    while open_values:
        value = open_values.pop()
        if isinstance(value, BufferRef):
            names.append(value.buffer)
        elif isinstance(value, (tuple, list)):
            open_values.extend(value)
        elif isinstance(value, dict):
            open_values.extend(value.values())
    return names


def _reads_before_writing(step: Launch, source: str, target: str) -> bool:
    """Whether a kernel reads every element of the input before it writes its new value."""
    if step.buffers.count(source) != 1 or step.buffers.count(target) != 1:
        return False
    names = dict(zip(step.buffers, (parameter.name for parameter in step.kernel.buffers), strict=True))
    return (names[source], names[target]) in step.kernel.in_place
