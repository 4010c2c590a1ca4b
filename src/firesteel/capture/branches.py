"""A Python ``if`` on the value of a tensor, captured as a ``cond`` (option ``capture_branches``).

    if x.sum() > 0:                 gt = x.sum() > 0
        y = x.sin()         ->      cond = cond(gt, true_graph_0, false_graph_0, (x,))
    else:                           y = cond[0]
        y = x.cos()

Both ways are executed symbolically on copies of the frame, each as a region, until they meet again or return. They
must not change anything that was there before; then every variable that is still read, and every slot of the stack,
is either the same on both ways or a tensor of equal metadata, or a new container of such. Otherwise the branch breaks
the graph, as it does without the option.

A tensor from before that one way leaves as it is becomes a copy. That could be seen if the copy left the graph, or if
one of the two were changed in place: `check_copies` looks for that when the capture ends, and begins it again with a
break at the branch.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..fake.dims import known_equal, layout_of, numel_of, storage_size
from .branch_copies import Copy
from .bytecode.instructions import Instruction
from .bytecode.join_points import join_point
from .bytecode.liveness import live_locals
from .control_flow import add_cond, new_result, tensor_difference
from .guards import same_constant
from .opcode_handlers import HANDLERS
from .regions import Region, capture_region, reachable
from .signals import GraphBreak, NotConstant, Restart, UserRaise
from .values.base import LazyValue, Value
from .values.constants import ConstantValue, NumberValue
from .values.mappings import DictValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer

MAX_NESTING = 12


@dataclass
class _End:
    """Where a way ends: at the join point, or with a value that the frame returns."""

    frame: Frame
    returned: Value | None


def capture_branch(frame: Frame, inst: Instruction, condition: Value, jumps_when: bool) -> Value | None:
    """Go on after both ways, or return what the frame returns on both. Raises `GraphBreak`."""
    try:
        return _Branch(frame, inst).run(condition, jumps_when)
    except BranchBreak:
        raise
    except (GraphBreak, NotConstant) as error:
        if isinstance(condition.realize(), TensorValue) and frame.user_frame().is_loop:
            condition.truth(frame.tx)  # says that it is a loop
        reason = error.reason if isinstance(error, GraphBreak) else f"a value is not known while capturing: {error}"
        hint = error.hint if isinstance(error, GraphBreak) else ""
        raise BranchBreak(reason, hint) from error


class BranchBreak(GraphBreak):
    """A branch on the value of a tensor is no cond."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"a branch depends on the value of a tensor and cannot become a cond: {reason}",
                         hint or "use torch.where or fs.cond, or move the decision out of the compiled function")


class _Branch:
    def __init__(self, frame: Frame, inst: Instruction) -> None:
        self.frame = frame
        self.inst = inst
        self.tx: Tracer = frame.tx
        self.before: set[int] | None = None
        self.pairs: dict[tuple[int, int], Value] = {}
        self.partners: tuple[dict[int, Value], dict[int, Value]] = ({}, {})
        # pairs of tensors that become results of the cond, and the values that stand for them
        self.tensors: list[tuple[TensorValue, TensorValue]] = []
        self.kept: list[Value] = []

    def run(self, condition: Value, jumps_when: bool) -> Value | None:
        frame, tx = self.frame, self.tx
        stop = join_point(frame.decoded, self.inst.index)
        here = (frame.code, self.inst.index)
        if stop is None or frame.is_generator:
            raise GraphBreak("its ways never meet again")
        if here in tx.branches.entered or len(tx.branches.entered) >= MAX_NESTING:
            raise GraphBreak("it is the condition of a loop, or branches nest too deep")
        pred = _predicate(tx, condition)
        ways = (self.inst.argval, self.inst.index + 1) if jumps_when else (self.inst.index + 1, self.inst.argval)
        tx.branches.entered.append(here)
        try:
            regions = tuple([
                capture_region(tx, title, lambda way=way: self.follow(way, stop))  # type: ignore[misc]
                for title, way in zip(("the way where it is true", "the way where it is false"), ways, strict=True)])
        finally:
            tx.branches.entered.pop()
        one, other = regions[0].result, regions[1].result
        return self.join(pred, (regions[0], regions[1]), one, other, stop)

    def follow(self, index: int, stop: int) -> _End:
        """Execute one way on a copy of the frame."""
        way = copy.copy(self.frame)
        way.stack, way.locals, way.cells = list(way.stack), dict(way.locals), dict(way.cells)
        way.index = index
        tx = self.tx
        assert tx.frames[-1] is self.frame
        tx.frames[-1] = way
        try:
            while way.index != stop:
                instruction = way.current = way.decoded.instructions[way.index]
                way.index += 1
                try:
                    outcome = HANDLERS[instruction.op](way, instruction)
                except UserRaise as raised:
                    way.unwind(instruction, raised)
                    continue
                if outcome is not None:
                    return _End(way, outcome)
        finally:
            tx.frames[-1] = self.frame
        return _End(way, None)

    # Joining

    def join(self, pred: Value, regions: tuple[Region, Region], one: _End, other: _End, stop: int) -> Value | None:
        frame = self.frame
        if (one.returned is None) != (other.returned is None):
            raise GraphBreak("only one of its ways returns")
        if one.returned is not None and other.returned is not None:
            result = self.merge(one.returned, other.returned)
            results = self.emit(pred, regions)
            return _settled(result, results)
        if len(one.frame.stack) != len(other.frame.stack) or one.frame.handled is not other.frame.handled \
                or one.frame.handled is not frame.handled or one.frame.cells != other.frame.cells:
            raise GraphBreak("its ways leave different things behind")
        live = live_locals(frame.decoded, stop)
        names = [name for name in one.frame.locals if name in live]
        if names != [name for name in other.frame.locals if name in live] and \
                set(names) != {name for name in other.frame.locals if name in live}:
            raise GraphBreak("a variable is set on one of its ways only")
        locals_ = {name: self.merge(one.frame.locals[name], other.frame.locals[name]) for name in names}
        stack = [self.merge(a, b) for a, b in zip(one.frame.stack, other.frame.stack, strict=True)]
        results = self.emit(pred, regions)
        frame.locals = {name: _settled(value, results) for name, value in locals_.items()}
        frame.stack = [_settled(value, results) for value in stack]
        frame.index = stop
        return None

    def merge(self, one: Value, other: Value) -> Value:
        """What stands for two values after the branch. Tensors get their place when all are known."""
        if one is other:
            return one
        one, other = _realized(one), _realized(other)
        if one is other:
            return one
        if isinstance(one, ConstantValue) and isinstance(other, ConstantValue):
            if type(one.value) is type(other.value) and same_constant(one.value, other.value):
                return one
            raise GraphBreak(f"a variable is {one.value!r} on one way and {other.value!r} on the other")
        if isinstance(one, NumberValue) and isinstance(other, NumberValue) and one.expr == other.expr:
            return one
        known = self.pairs.get((id(one), id(other)))
        if known is not None:
            return known
        for partners, left, right in ((self.partners[0], one, other), (self.partners[1], other, one)):
            if partners.setdefault(id(left), right) is not right:
                raise GraphBreak("two variables hold one object on one way and two on the other")
        self.kept += [one, other]
        if isinstance(one, TensorValue) and isinstance(other, TensorValue):
            merged: Value = _Result(len(self.tensors))
            self.tensors.append((one, other))
        elif isinstance(one, TupleValue) and isinstance(other, TupleValue) and one.cls is other.cls \
                and len(one.items) == len(other.items):
            merged = TupleValue([self.merge(a, b) for a, b in zip(one.items, other.items, strict=True)], one.cls)
        elif isinstance(one, ListValue) and isinstance(other, ListValue) and self.are_new(one, other) \
                and len(one.elements(self.tx)) == len(other.elements(self.tx)):
            merged = ListValue([self.merge(a, b) for a, b in
                                zip(one.elements(self.tx), other.elements(self.tx), strict=True)])
        elif isinstance(one, DictValue) and isinstance(other, DictValue) and self.are_new(one, other) \
                and one.cls is other.cls and list(one.items) == list(other.items):
            merged = DictValue({key: (one.items[key][0], self.merge(one.items[key][1], other.items[key][1]))
                                for key in one.items}, cls=one.cls)
        else:
            raise GraphBreak(f"a variable is {one.describe()} on one way and {other.describe()} on the other")
        self.pairs[id(one), id(other)] = merged
        return merged

    def are_new(self, *values: Value) -> bool:
        """Whether containers were made on their ways."""
        if self.before is None:
            frames = self.tx.frames
            self.before = reachable([[frame.stack, frame.locals, frame.cells] for frame in frames])
        return all(value.source is None and id(value) not in self.before for value in values)

    def emit(self, pred: Value, regions: tuple[Region, Region]) -> list[Value]:
        """Add the operation; the values that stand for its results."""
        tx = self.tx
        copied: tuple[set[int], set[int]] = (set(), set())
        for position, pair in enumerate(self.tensors):
            _check_pair(tx, *pair)
            for region, value, copies in zip(regions, pair, copied, strict=True):
                if not region.is_new(value):
                    if not _is_dense(value.fake):
                        raise GraphBreak("a tensor with gaps or overlaps is left as it is on one of its ways")
                    copies.add(position)
        for index in (0, 1):
            storages = [torch_compat.storage_address(pair[index].fake) for position, pair in enumerate(self.tensors)
                        if position not in copied[index]]
            if len(set(storages)) != len(storages):
                raise GraphBreak("two variables share memory on one of its ways")
        if not self.tensors and not any(region.nodes for region in regions):
            return []
        nodes = ([pair[0].node for pair in self.tensors], [pair[1].node for pair in self.tensors])
        passed = [node for results, region in zip(nodes, regions, strict=True) for node in results
                  if node not in region.nodes]
        operands = list(dict.fromkeys([*regions[0].free, *regions[1].free, *passed]))
        fakes = [new_result([one.fake, other.fake]) for one, other in self.tensors]
        values = add_cond(tx, pred, regions, operands, nodes, fakes, (frozenset(copied[0]), frozenset(copied[1])))
        for copies, index in zip(copied, (0, 1), strict=True):
            for position in sorted(copies):
                source = self.tensors[position][index].fake
                tx.branches.copies.append(Copy(tx.root_step, fakes[position], source, torch_compat.version_of(source)))
        return values


def choose(tx: Tracer, condition: TensorValue, one: TensorValue, other: TensorValue) -> Value | None:
    """``one if condition else other`` of two numbers in tensors as one operation; None where more than that differs.

    What stands for them is a copy. Gradients are left to Python: the one that is not chosen has none, where an
    operation would give it zeros, and pass them on. So are functions that a transform is applied to: vmap asks for a
    decision, and refuses it.
    """
    history = torch.is_grad_enabled() and (one.fake.requires_grad or other.fake.requires_grad)
    if one is other or history or one.fake.dim() or other.fake.dim() or tx.effects.changes is not None:
        return None
    try:
        _check_pair(tx, one, other)
    except GraphBreak:
        return None
    result = tx.call_torch("where", [one, condition, other], {}).realize()
    assert isinstance(result, TensorValue)
    for value in (one, other):
        tx.branches.copies.append(Copy(tx.root_step, result.fake, value.fake, torch_compat.version_of(value.fake)))
    return result


class _Result(Value):
    """Stands for a result of the cond until that is there."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        super().__init__(None)
        self.position = position


def _settled(value: Value, results: list[Value]) -> Value:
    """The value with results of the cond in their places."""
    if isinstance(value, _Result):
        return results[value.position]
    if isinstance(value, TupleValue) and value.source is None:
        if any(_has_result(item) for item in value.items):
            return TupleValue([_settled(item, results) for item in value.items], value.cls)
    elif isinstance(value, ListValue) and value.source is None and value.items is not None:
        value.items[:] = [_settled(item, results) for item in value.items]
    elif isinstance(value, DictValue) and value.source is None:
        for key, (name, item) in list(value.items.items()):
            value.items[key] = (name, _settled(item, results))
    return value


def _has_result(value: Value) -> bool:
    if isinstance(value, _Result):
        return True
    if isinstance(value, TupleValue):
        return any(map(_has_result, value.items))
    if isinstance(value, ListValue):
        return any(map(_has_result, value.items or ()))
    return isinstance(value, DictValue) and any(_has_result(item) for _, item in value.items.values())


def _realized(value: Value) -> Value:
    return value.realize() if isinstance(value, LazyValue) else value


def _predicate(tx: Tracer, condition: Value) -> Value:
    """The condition as a bool."""
    if isinstance(condition, TensorValue):
        if any(not isinstance(size, int) or size != 1 for size in condition.fake.shape):
            raise GraphBreak("the truth of a tensor with several elements")
        if condition.fake.dtype is not torch.bool:
            condition = tx.call_torch("ne", [condition, tx.constant(0)], {}).realize()
        return condition
    assert isinstance(condition, NumberValue)
    return condition if condition.expr.kind == "bool" else tx.compare("!=", condition, tx.constant(0)).realize()


def _check_pair(tx: Tracer, one: TensorValue, other: TensorValue) -> None:
    difference = tensor_difference(tx, one.fake, other.fake)
    if difference:
        raise GraphBreak(f"two tensors on its ways {difference}")
    if one.fake.requires_grad != other.fake.requires_grad:
        raise GraphBreak("a tensor needs gradients on one of its ways only")
    if one.cls is not torch.Tensor or other.cls is not torch.Tensor or one.attrs or other.attrs:
        raise GraphBreak("a variable is a parameter, or a tensor of another class, on one of its ways")
    if one.fake.is_inference() or other.fake.is_inference():
        raise GraphBreak("a tensor of inference mode")


def _is_dense(fake: Any) -> bool:
    return known_equal(storage_size(*layout_of(fake)), numel_of(fake))


def check_copies(tx: Tracer, outputs: list[Any]) -> None:
    """Begin the capture again with a break where a copy that stands for a tensor itself can be told from it."""
    if not tx.branches.copies:
        return
    addresses = [(torch_compat.storage_address(known.made), known) for known in tx.branches.copies]
    inputs = {torch_compat.storage_address(entry.example) for entry in tx.graph.inputs
              if isinstance(entry.example, torch.Tensor)}

    def possible(memory: int) -> tuple[set[int], list[Copy]]:
        """The storages that a tensor may have in eager, and the copies in the way."""
        memories, copies, open_memory = {memory}, [], [memory]
        while open_memory:
            at = open_memory.pop()
            for own, known in addresses:
                if own == at:
                    copies.append(known)
                    source = torch_compat.storage_address(known.source)
                    if source not in memories:
                        memories.add(source)
                        open_memory.append(source)
        return memories, copies

    returned = set(outputs)
    leaving = dict.fromkeys(torch_compat.storage_address(value.fake) for value in tx.tensor_of_fake.values()
                            if isinstance(value, TensorValue) and value.node in returned)
    taken: set[int] = set(inputs)
    for memory in sorted(leaving, key=lambda at: len(possible(at)[1])):
        storages, copies = possible(memory)
        if copies and storages & taken:
            raise Restart(copies[-1].step, BranchBreak(
                "an input, or another tensor that leaves the function, may be what leaves it", _COPY))
        taken |= storages
    for known in tx.branches.copies:
        if torch_compat.version_of(known.made) or torch_compat.version_of(known.source) != known.version:
            raise Restart(known.step, BranchBreak("a tensor from before the branch may be changed in place", _COPY))


_COPY = "use a copy on the way that leaves the tensor as it is: .clone()"
