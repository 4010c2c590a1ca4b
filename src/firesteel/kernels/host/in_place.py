"""Writes to inputs without a copy: the kernel that computes an input's new contents stores them where they belong.

    before: buf0 = empty(...); k0(a, buf0); x.copy_(buf0)
    after:  buf0 = written_memory(x, a); k0(a, buf0); finish_write(x, buf0)

``written_memory`` is the input itself, unless it shares memory with something that is used while it is written or
after that: then it is a new tensor, and ``finish_write`` copies. So guards on memory need not be relied on here.

An input of which a part is written, such as a cache that gets one more row, is not copied for that either:

    before: buf0 = empty(...); k0(x, buf0); k1(row, at, buf0); use(buf0); x.copy_(buf0)         k0 copies x
    after:  buf0 = kept_memory(x, row, at); k1(row, at, buf0); use(buf0); finish_write(x, buf0)

Several inputs that are looked at when the program starts, such as the parameters that an optimizer changes, are looked
at together: where no two tensors share memory nothing has to be compared pair by pair.

The old contents must not be wanted any more once the kernel runs, other than at the place that it writes, and nothing
that could raise may come after it. The library calls of a GPU raise for lack of memory only: a network's statistics,
which eager has changed by then as well, are written in front of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import attrgetter, itemgetter
from typing import Any

import torch

from ...devices import kind_of
from ...records import dataclass
from ...shapes import Const
from ...shapes.expr import ZERO
from ..ir import Buffer, BufferRef, ExternCall, Loop, Store
from ..plan import Allocate, KernelPlan, Launch, Step, WriteBack

WORTHWHILE = 1 << 16
"""Copying fewer bytes costs no more than finding out whether a copy is needed."""
MANY = 8
"""With so many inputs, finding that out for all at once costs less than copying any."""
_ATEN = torch.ops.aten
LIBRARY = frozenset(map(id, (
    _ATEN.convolution.default, _ATEN.convolution_backward.default, _ATEN.mm.default, _ATEN.addmm.default,
    _ATEN.bmm.default, _ATEN.baddbmm.default, _ATEN._scaled_dot_product_flash_attention.default,
    _ATEN._scaled_dot_product_efficient_attention.default, _ATEN._scaled_dot_product_cudnn_attention.default)))
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


def kept_memory(target: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    """`written_memory` with the old contents of the input in it."""
    memory = written_memory(target, *others)
    return target if memory is target else memory.copy_(target)


def finish_write(target: torch.Tensor, memory: torch.Tensor) -> None:
    """The new contents of an input are in ``memory``: what is left to do."""
    if memory is target:
        torch.autograd.graph.increment_version(target)
    else:
        target.copy_(memory)


_itemsize = attrgetter("itemsize")


def written_memories(count: int, kept: int, *tensors: torch.Tensor) -> list[torch.Tensor]:
    """`written_memory` for the first ``count`` tensors; all the others are what must not lie there.

    The first ``kept`` have the old contents in it.
    """
    targets = tensors[:count]
    if _are_apart(tensors) and not any(map(torch.Tensor.is_inference, targets)):
        return list(targets)
    return [(kept_memory if at < kept else written_memory)(target, *tensors[:at], *tensors[at + 1 :])
            for at, target in enumerate(targets)]


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
    if not any(isinstance(step, WriteBack) for step in plan.steps):
        return plan
    places = _Places(plan)
    chances: list[tuple[WriteBack, _Chance]] = []
    for number, step in enumerate(plan.steps):
        chance = _chance(plan, places, number, step) if isinstance(step, WriteBack) else None
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
        begin, finish = _all_at_once(together, places)
        early, late = [begin], [finish]
        for write, chance in together:
            replaced[id(chance.allocation)] = replaced[id(write)] = None
            if chance.copy is not None:
                replaced[id(chance.copy)] = None
        chances = [pair for pair in chances if not pair[1].at_once]
    for write, chance in chances:
        target = BufferRef(write.target)
        others = [name for name in places.others([chance.writer]) if name != write.target]
        memory = written_memory if chance.copy is None else kept_memory
        begin = ExternCall(memory, (target, *map(BufferRef, others)), {}, (write.source.buffer,))
        if chance.copy is not None:
            replaced[id(chance.copy)] = None
        replaced[id(chance.allocation)] = None if chance.at_once else begin
        if chance.at_once:
            early.append(begin)
        replaced[id(write)] = ExternCall(finish_write, (target, BufferRef(write.source.buffer)), {}, ())
    steps = [replaced.get(id(step), step) for step in plan.steps]
    return replace(plan, steps=[*early, *(step for step in steps if step is not None), *late])


def _all_at_once(chances: list[tuple[WriteBack, _Chance]], places: _Places) -> tuple[ExternCall, ExternCall]:
    """The calls before and after a program that writes to several inputs in place."""
    chances = sorted(chances, key=lambda pair: pair[1].copy is None)
    kept = sum(1 for _, chance in chances if chance.copy is not None)
    targets = dict.fromkeys(write.target for write, _ in chances)
    others = [name for name in places.others([chance.writer for _, chance in chances]) if name not in targets]
    sources = tuple([write.source.buffer for write, _ in chances])
    begin = ExternCall(written_memories, (len(targets), kept, *map(BufferRef, (*targets, *others))), {}, sources)
    return begin, ExternCall(finish_writes, (len(targets), *map(BufferRef, (*targets, *sources))), {}, ())


@dataclass(frozen=True)
class _Chance:
    """A write that needs no copy."""

    allocation: Allocate
    writer: int
    """Which step computes the new contents. Memory that is used from there on must be other memory."""
    at_once: bool
    """Whether all of that is there when the program starts: looking at it then does not part kernels."""
    copy: Launch | None = None
    """What copies the old contents before a part of them is written."""


class _Places:
    """Where the buffers of a plan occur, found in one walk over its steps: each write asks for some of them."""

    def __init__(self, plan: KernelPlan) -> None:
        self.returned = {output.buffer for output in plan.outputs if isinstance(output, BufferRef)}
        self.allocations: dict[str, list[Allocate]] = {}
        self.writers: dict[str, list[int]] = {}
        self.copies: dict[str, list[int]] = {}
        """The steps that copy a buffer into an input, or into this input."""
        self.last_reuse: dict[str, int] = {}
        self.last_read: dict[str, int] = {}
        """Of calls."""
        self.last_launch: dict[str, int] = {}
        self.last_call = self.last_other_call = -1
        """The last call, and the last one that is not of a library operator."""
        self.mentioned: list[Iterable[str]] = []
        """For each step, buffers that inputs written since must not share memory with."""
        own: set[str] = set()
        for number, step in enumerate(plan.steps):
            self._note(number, step, own)
        self._own = own
        given = {item.name for item in plan.inputs if isinstance(item, Buffer)} | plan.constants.keys()
        foreign = {name: number for number, names in enumerate(self.mentioned) for name in names
                   if name not in own and name not in given}
        #: buffers that are neither there when the program starts nor new memory, with their last steps, latest first
        self._foreign = sorted(foreign.items(), key=itemgetter(1), reverse=True)

    def _note(self, number: int, step: Step, own: set[str]) -> None:
        names: Iterable[str] = ()
        if isinstance(step, Allocate):
            own.add(step.buffer.name)
            self.allocations.setdefault(step.buffer.name, []).append(step)
            if step.reuse is not None:
                self.last_reuse[step.reuse] = number
        elif isinstance(step, ExternCall):
            names = _read(step)
            self.last_call = number
            if id(step.target) in LIBRARY:
                own.update(_written(step))  # new memory
            else:
                self.last_other_call = number
            self.last_read.update(dict.fromkeys(names, number))
        elif isinstance(step, WriteBack):
            names = (step.source.buffer, step.target)
            for name in {*names}:
                self.copies.setdefault(name, []).append(number)
        elif isinstance(step, Launch):
            names = step.buffers
            self.last_launch.update(dict.fromkeys(names, number))
        for name in dict.fromkeys(_written(step)):
            self.writers.setdefault(name, []).append(number)
        self.mentioned.append(names)

    def others(self, writers: Iterable[int]) -> list[str]:
        """Buffers that occur from any of these steps on, but for new memory."""
        names: dict[str, None] = {}
        lowest = len(self.mentioned)
        for writer in writers:
            for mentioned in self.mentioned[writer:lowest]:
                names.update(dict.fromkeys(mentioned))
            lowest = min(lowest, writer)
        return [name for name in names if name not in self._own]

    def all_given(self, writer: int, target: str) -> bool:
        """Whether everything that occurs from a step on, but for new memory, is there when the program starts."""
        for name, number in self._foreign:
            if number < writer:
                break
            if name != target:
                return False
        return True


def _chance(plan: KernelPlan, places: _Places, number: int, write: WriteBack) -> _Chance | None:
    source, target = write.source.buffer, write.target
    if not _same_layout(plan, write) or source in places.returned:
        return None
    allocations, writers = places.allocations.get(source, ()), places.writers.get(source, ())
    if len(allocations) != 1 or not writers:
        return None
    copying = plan.steps[writers[0]] if len(writers) > 1 else None
    if not all(isinstance(plan.steps[writer], Launch) for writer in writers) or copying is not None and not (
            isinstance(copying, Launch) and _is_copy(copying, source, target)):
        return None
    writer, first = writers[0], writers[0 if copying is None else 1]
    kernel = plan.steps[first]
    assert isinstance(kernel, Launch)
    if places.last_reuse.get(source, -1) >= writer:
        return None
    raising = places.last_call if kind_of(plan.buffers[target].device).raises_for_values else places.last_other_call
    if max(raising, places.last_read.get(target, -1)) >= first:
        return None  # it could raise
    for name in (source, target):
        for copy in places.copies.get(name, ()):
            if copy >= writer and copy != number:
                return None
    last = places.last_launch.get(target, -1)
    if last > first or last == first and (copying is not None or not _reads_before_writing(kernel, source, target)):
        return None
    return _Chance(allocations[0], writer, places.all_given(writer, target),
                   copying if isinstance(copying, Launch) else None)


def _is_copy(step: Launch, source: str, target: str) -> bool:
    """Whether a kernel does nothing but copy elements of the input to the same places."""
    if len(step.buffers) != 2 or {*step.buffers} != {source, target} or step.kernel.scratch:
        return False
    statements = step.kernel.body
    while len(statements) == 1 and isinstance(loop := statements[0], Loop):
        statements = loop.body
    store = statements[0] if len(statements) == 1 else None
    if not isinstance(store, Store) or store.mode != "set" or store.place.indirect or store.place.masked:
        return False
    value, place = store.value, store.place
    return value.op == "load" and not value.args and value.data.index == place.index and not value.data.indirect


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
