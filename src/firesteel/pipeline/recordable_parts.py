"""What of a plan can be recorded: parts that can, as large as they can be, and what has to run by itself in between.

    before: number = item(scale); buf0 = empty(...); k0(x, number, buf0); buf1 = nonzero(buf0); k1(x, buf2); return buf1
    after:  left out (it is on the device cpu):    number = item(scale)
            recorded:                              k0(x, number, buf0); k1(x, buf2)
            left out (nonzero waits for the GPU):  buf1 = nonzero(buf0)

A step is moved past others only where neither reads what the other writes. What recorded parts need of the host is done
first, what they do not need, such as counting on, behind them, while the device is busy. Nothing is moved in front of a
step that may raise, or behind a change of an input that it may be read from.

Each part is a plan of its own, whose inputs and results are buffers and numbers of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import torch

from .. import torch_compat
from ..kernels.host.in_place import finish_write, finish_writes, kept_memory, written_memories, written_memory
from ..kernels.host.launching import numbers_on_device, put_numbers
from ..kernels.host.lifetimes import references
from ..kernels.ir import Buffer, BufferRef, ExternCall
from ..kernels.plan import Allocate, Free, KernelPlan, Launch, Step, WriteBack
from ..records import dataclass
from ..shapes import Expr, Symbol

Name = str | Symbol
"""A buffer or a number of a plan."""
KERNEL, CALL = 2.0, 7.0
"""What launching a kernel and a call of ATen cost, in microseconds."""
TOLD = 3
"""How many reasons are told of one part."""
_SEEDED = torch.Tag.nondeterministic_seeded


@dataclass(frozen=True)
class PlanPart:
    """Some steps of a plan, which are a plan themselves."""

    plan: KernelPlan
    reason: str | None
    """Why it is not recorded; None for one that is."""

    @property
    def inputs(self) -> list[Name]:
        """What it reads of what was there before."""
        return [entry.name if isinstance(entry, Buffer) else entry for entry in self.plan.inputs]

    @property
    def results(self) -> list[Name]:
        """What it gives to others."""
        return [result.buffer for result in self.plan.outputs if isinstance(result, BufferRef)] \
            + [result for result in self.plan.outputs if isinstance(result, Symbol)]


def launch_cost(steps: Sequence[Step]) -> float:
    """How long it takes to launch steps one by one, in microseconds."""
    return sum(KERNEL if isinstance(step, Launch) else CALL if isinstance(step, ExternCall) else 0.0 for step in steps)


def recordable_parts(plan: KernelPlan, device: torch.device, least: float) -> tuple[list[PlanPart], list[Buffer]]:
    """The parts of a plan, in the order in which they run; what costs less than ``least`` to launch is not recorded.

    With them the memory that stays where it is, into which the host puts numbers in every call.
    """
    uses = _Uses(plan, device)
    runs: list[tuple[list[str], list[int]]] = []
    """Why steps are not recorded, and the steps."""
    for numbers in _in_turns(uses):
        reasons = list(dict.fromkeys(filter(None, (uses.reasons[number] for number in numbers))))
        if not reasons and launch_cost([plan.steps[number] for number in numbers]) < least:
            reasons = ["the others launch too little"]
        if reasons and runs and runs[-1][0]:
            runs[-1] = list(dict.fromkeys([*runs[-1][0], *reasons])), [*runs[-1][1], *numbers]
        else:
            runs.append((reasons, numbers))
    held = {name: plan.buffers[name] for step in plan.steps if _puts_numbers(step) for name in _buffers(step)[-1:]}
    steps = [_into_memory(step) for step in plan.steps]
    return _plans(plan, [([steps[number] for number in numbers], _in_short(reasons)) for reasons, numbers in runs],
                  [*_there(plan), *held]), list(held.values())


def _in_short(reasons: Sequence[str]) -> str | None:
    """Reasons in one line."""
    more = f" and {len(reasons) - TOLD} more" if len(reasons) > TOLD else ""
    return "; ".join(reasons[:TOLD]) + more or None


def _puts_numbers(step: Step) -> bool:
    return isinstance(step, ExternCall) and step.target is numbers_on_device


def _into_memory(step: Step) -> Step:
    """A step that puts numbers into memory that is there, where it put them into new memory."""
    if not isinstance(step, ExternCall) or not _puts_numbers(step):
        return step
    [memory] = step.outputs
    assert memory is not None
    return ExternCall(put_numbers, (BufferRef(memory), list(step.args[2:])), {}, (), origins=step.origins)


def halves(whole: KernelPlan, part: PlanPart) -> list[PlanPart]:
    """A part of the plan ``whole`` as two, between which there is a call; nothing where it has one call or none."""
    calls = [number for number, step in enumerate(part.plan.steps) if isinstance(step, ExternCall)]
    if len(calls) < 2:
        return []
    middle = calls[len(calls) // 2]
    return _plans(whole, [(part.plan.steps[:middle], None), (part.plan.steps[middle:], None)],
                  part.inputs, part.results)


def results_part(plan: KernelPlan) -> PlanPart:
    """What is left to do when all steps have run: the results of the plan as it gives them."""
    names: dict[Name, None] = {}
    for output in plan.outputs:
        names.update((name, None) for name in named(output) if name not in plan.constants)
    return PlanPart(_plan(plan, [], list(names), plan.outputs), None)


# What can be recorded


def obstacle(step: Step, plan: KernelPlan, device: torch.device, unknown: frozenset[Symbol]) -> str | None:
    """Why a step cannot be recorded. ``unknown`` are numbers that each call finds out for itself."""
    if isinstance(step, (Allocate, Free)):
        return None
    if any(symbol in unknown for name in _names(step, plan) if isinstance(symbol := name, Symbol)):
        return "it depends on a number that each call finds out for itself"
    if isinstance(step, Launch):
        return None
    name = f"writing to {step.target}" if isinstance(step, WriteBack) else _title(step.target)
    for buffer in _buffers(step):
        known = plan.buffers.get(buffer)
        if known is None:
            return f"{name} is a number for the host"
        if known.device != device:
            return f"{name} is on the device {known.device}"
    if isinstance(step, ExternCall):
        if waits(step.target, [plan.buffers[ref.buffer].dtype for ref in references(step.args[1:2])
                               if ref.buffer in plan.buffers]):
            return f"{name} waits for the GPU"
        if hasattr(step.target, "with_bodies") or torch_compat.is_collective(step.target):
            return f"{name} may wait"
    return None


def waits(target: Any, chosen_by: Sequence[torch.dtype]) -> bool:
    """Whether an operator waits for the GPU, because data decide on its result's size or on a number.

    ``chosen_by``: the dtypes of its indices, if it has some. Only masks have to be counted.
    """
    if not isinstance(target, torch_compat.OpOverload) or not torch_compat.is_data_dependent(target):
        return False
    return target is not torch.ops.aten.index.Tensor or any(
        dtype in (torch.bool, torch.uint8) for dtype in chosen_by)


def _title(target: Any) -> str:
    return str(target) if isinstance(target, torch_compat.OpOverload) else getattr(target, "__name__", str(target))


# Who reads and writes what


@dataclass
class _Uses:
    """For each step of a plan what has to come before it, and why it cannot be recorded."""

    plan: KernelPlan
    device: torch.device
    reasons: dict[int, str | None] = field(default_factory=dict)
    before: dict[int, set[int]] = field(default_factory=dict)
    """Of all steps but allocations, which go where memory is used first."""
    root: dict[str, str] = field(default_factory=dict)
    """For buffers that may be the memory of others, one of them."""

    def __post_init__(self) -> None:
        plan = self.plan
        self.given = {entry.name for entry in plan.inputs if isinstance(entry, Buffer)} | plan.constants.keys()
        called = {name for step in plan.steps if isinstance(step, ExternCall) for name in step.outputs}
        unknown = frozenset([symbol for symbol, (buffer, _, _) in plan.symbols.items() if buffer in called])
        self.written: dict[Name, int] = {}
        self.read: dict[Name, list[int]] = {}
        self.of_inputs: dict[torch.device, list[int]] = {}
        """The steps that use inputs, by device, from the last one on that changes some."""
        last_raising: int | None = None
        last_draw: int | None = None
        for number, step in enumerate(self.plan.steps):
            if isinstance(step, (Allocate, Free)):
                continue
            reason = self.reasons[number] = obstacle(step, self.plan, self.device, unknown)
            before = self.before[number] = set()
            self._note(number, step, before)
            raises = reason is not None and _may_raise(step)
            if last_raising is not None and (raises or reason is None or self._changes(step)):
                before.add(last_raising)
            if raises:
                last_raising = number
            if _draws(step):
                before.update(() if last_draw is None else (last_draw,))
                last_draw = number

    def _find(self, buffer: str) -> str:
        while buffer in self.root:
            buffer = self.root[buffer]
        return buffer

    def _note(self, number: int, step: Step, before: set[int]) -> None:
        written = {self._find(name) for name in _written(step)}
        read: set[Name] = {self._find(name) if isinstance(name, str) else name for name in _names(step, self.plan)}
        for name in read:
            if name in self.written:
                before.add(self.written[name])
            self.read.setdefault(name, []).append(number)
        if isinstance(step, ExternCall):
            for new, old in _same_memory(step):
                if self._find(new) != self._find(old):
                    self.root[new] = self._find(old)
            self.written.update(dict.fromkeys(_told(step, self.plan), number))
        for root in written:
            before.update(reader for reader in self.read.get(root, ()) if reader != number)
            if root in self.written:
                before.add(self.written[root])
            self.written[self._find(root)] = number
            self.read[root] = []
        for device in {self._device(name) for name in read | written if name in self.given}:
            users = self.of_inputs.setdefault(device, [])
            if self._changes(step):
                before.update(users)
                users.clear()
            users.append(number)

    def _changes(self, step: Step) -> bool:
        """Whether an input is written to."""
        return isinstance(step, WriteBack) or any(self._find(name) in self.given for name in _written(step))

    def _device(self, name: Name) -> torch.device:
        buffer = self.plan.buffers.get(name) if isinstance(name, str) else None
        return self.device if buffer is None else buffer.device


def _in_turns(uses: _Uses) -> Iterator[list[int]]:
    """The steps in turns: what can be recorded and what cannot, as much as possible at a time."""
    left = dict(uses.before)
    needed: set[int] = set()
    """What is not recorded, and has to come before something that is."""
    for number in reversed(left):
        if uses.reasons[number] is None or number in needed:
            needed |= uses.before[number]
    done: set[int] = set()

    def take(wanted: set[int]) -> list[int]:
        taken = []
        for number in [number for number in left if number in wanted]:
            if uses.before[number] <= done:
                taken.append(number)
                done.add(number)
                del left[number]
        return taken

    recorded = {number for number, reason in uses.reasons.items() if reason is None}
    while left:
        for wanted in (needed - recorded, recorded):
            numbers = take(wanted)
            if numbers:
                yield numbers
        if left and not recorded.intersection(left):
            yield take(set(left))


def _same_memory(call: ExternCall) -> Iterator[tuple[str, str]]:
    """Results of a call that may be the memory of arguments."""
    target, outputs = call.target, [name for name in call.outputs if name is not None]
    given = [reference.buffer for reference in references((call.args, call.kwargs))]
    if target in (written_memory, kept_memory):
        given = given[:1]
    elif target is written_memories:
        yield from zip(outputs, given[: call.args[0]], strict=True)
        return
    elif target is numbers_on_device or call.out or isinstance(target, torch_compat.OpOverload) and not any(
            returned.alias_info for returned in torch_compat.schema_of(target).returns):
        return
    for output in outputs:
        for name in given:
            yield output, name


def _may_raise(step: Step) -> bool:
    """Whether a step that is not recorded may be there for what it raises, or does besides its results."""
    if not isinstance(step, ExternCall) or step.target is numbers_on_device:
        return False
    if not isinstance(step.target, torch_compat.OpOverload):
        return True
    return not any(step.outputs) or torch_compat.mutates_arguments(step.target)


def _draws(step: Step) -> bool:
    return isinstance(step, ExternCall) and _SEEDED in getattr(step.target, "tags", ())


def _written(step: Step) -> list[str]:
    if isinstance(step, Launch):
        pairs = zip(step.kernel.buffers, step.buffers, strict=True)
        return [name for parameter, name in pairs if parameter.kind == "output"]
    if isinstance(step, WriteBack):
        return [step.target]
    assert isinstance(step, ExternCall)
    written = [name for name in step.outputs if name is not None]
    if step.target in (finish_write, finish_writes) or isinstance(step.target, torch_compat.OpOverload) \
            and torch_compat.mutates_arguments(step.target):
        written += [reference.buffer for reference in references((step.args, step.kwargs))]
    return written


def _buffers(step: Step) -> list[str]:
    """The buffers that a step names."""
    if isinstance(step, Allocate):
        return [step.buffer.name]
    if isinstance(step, Launch):
        return list(step.buffers)
    if isinstance(step, WriteBack):
        return [step.target, step.source.buffer]
    if isinstance(step, ExternCall):
        return [*(ref.buffer for ref in references((step.args, step.kwargs))),
                *(name for name in step.outputs if name is not None)]
    return []


def _names(step: Step, plan: KernelPlan) -> Iterator[Name]:
    """The buffers and the numbers that a step reads, or names for what it writes; no numbers that it finds out."""
    told = _told(step, plan)
    names: list[Name] = list(_buffers(step))
    if isinstance(step, Launch):
        names += named((step.sizes, step.numbers))
    else:
        for name in _buffers(step):
            if name in plan.buffers:
                names += named((plan.buffers[name].shape, plan.buffers[name].strides))
    if isinstance(step, ExternCall):
        names += named((step.args, step.kwargs))
    elif isinstance(step, WriteBack):
        names += named(step.source)
    return (name for name in names if name not in told)


def _told(step: Step, plan: KernelPlan) -> list[Symbol]:
    """The numbers that a call finds out."""
    if not isinstance(step, ExternCall):
        return []
    return [symbol for symbol, (buffer, _, _) in plan.symbols.items() if buffer in step.outputs]


def named(value: Any) -> Iterator[Name]:
    """The buffers and the numbers in an argument or a result."""
    if isinstance(value, BufferRef):
        yield value.buffer
        yield from named((value.shape, value.strides, value.offset))
    elif isinstance(value, Expr):
        yield from value.free_symbols
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from named(item)
    elif isinstance(value, dict):
        yield from named(tuple(value.values()))
    elif isinstance(value, slice):
        yield from named((value.start, value.stop, value.step))


# Parts as plans


def _there(plan: KernelPlan) -> list[Name]:
    """What is there when a plan begins: its inputs, and the numbers that these tell."""
    inputs: list[Name] = [entry.name if isinstance(entry, Buffer) else entry for entry in plan.inputs]
    return [*inputs, *(symbol for symbol, (buffer, _, _) in plan.symbols.items() if buffer in inputs)]


def _plans(plan: KernelPlan, runs: Sequence[tuple[Sequence[Step], str | None]], given: Sequence[Name],
           wanted: Sequence[Name] | None = None) -> list[PlanPart]:
    """Runs of steps as plans, each buffer allocated where it is used first.

    ``given`` is there before all of them. ``wanted`` after, unless it is said what the plan returns.
    """
    allocations = {step.buffer.name: step for step in plan.steps if isinstance(step, Allocate)}
    later: set[Name] = set(wanted if wanted is not None else results_part(plan).inputs)
    needs: list[set[Name]] = []
    """What comes after each run needs."""
    for steps, _ in reversed(runs):
        needs.append(set(later))
        later |= {name for step in steps for name in _names(step, plan)}
    needs.reverse()
    there = set(given)
    parts = []
    for (steps, reason), after in zip(runs, needs, strict=True):
        own: dict[Name, None] = {}
        inputs: dict[Name, None] = {}
        whole: list[Step] = []
        for step in steps:
            for name in _buffers(step):
                if name in allocations and name not in there and name not in own and not isinstance(step, Allocate):
                    whole.append(allocations[name])
                    own[name] = None
            if isinstance(step, Allocate):
                own[step.buffer.name] = None
            elif isinstance(step, ExternCall):
                own.update((name, None) for name in step.outputs if name is not None and name not in there)
                own.update(dict.fromkeys(_told(step, plan)))
            inputs.update((name, None) for name in _names(step, plan) if name not in own
                          and name not in plan.constants)
            whole.append(step)
        results = [name for name in own if name in after and (isinstance(name, Symbol) or name in plan.buffers)]
        outputs = [*(BufferRef(name) for name in results if isinstance(name, str)),
                   *(name for name in results if isinstance(name, Symbol))]
        parts.append(PlanPart(_plan(plan, _with_reuse(whole, results, reason), list(inputs), outputs), reason))
        there |= set(own)
    return parts


def _with_reuse(steps: Sequence[Step], results: Sequence[Name], reason: str | None) -> list[Step]:
    """Steps whose allocations take memory again only where nobody outside of these steps reads what was in it.

    Those that are not recorded may have changed their order.
    """
    root: dict[str, str] = {}
    groups: dict[str, set[str]] = {}
    there: set[str] = set()
    changed: list[Step] = []
    for step in steps:
        if isinstance(step, Allocate):
            old = step.reuse
            if old is not None and (reason is not None or old not in there
                                    or not groups[root[old]].isdisjoint(name for name in results)):
                step, old = replace(step, reuse=None), None
            name = step.buffer.name
            root[name] = name if old is None else root[old]
            groups.setdefault(root[name], set()).add(name)
            there.add(name)
        elif isinstance(step, ExternCall):
            for output in step.outputs:
                if output is not None and output not in there:
                    there.add(output)
                    root[output] = output
                    groups[output] = {output}
        changed.append(step)
    return changed


def _plan(plan: KernelPlan, steps: list[Step], inputs: Sequence[Name], outputs: Sequence[Any]) -> KernelPlan:
    """A plan of some steps of another one."""
    known = set(inputs)
    return replace(
        plan, steps=steps, outputs=list(outputs), new_results=frozenset(),
        inputs=[plan.buffers[name] if isinstance(name, str) else name for name in inputs],
        symbols={symbol: place for symbol, place in plan.symbols.items() if symbol not in known})
