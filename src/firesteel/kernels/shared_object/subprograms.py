"""Branches and loops as code: their bodies are functions of their own, called on values.

    i32 fs.body0(model, inputs, outputs)

A branch calls one of two bodies. A loop asks its first body whether to go on and calls the second. A scan calls its
body on one slice of its operands after the other, and copies what it gives to the slices of its results. What loops
carry lies in slots, so that it is released in case of a failure too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ...functional.subprograms import Body, Cond, Scan, Subprogram, WhileLoop
from ...shapes import Expr, as_expr
from ..ir import BufferRef, ExternCall
from .operators import NotCallable

if TYPE_CHECKING:
    from .program import ProgramPrinter

_TENSOR, _INTEGER, _NUMBER, _TRUTH = 1, 2, 3, 4
_VALUE = "{ i32, i32, i64 }"

def call_subprogram(program: ProgramPrinter, step: ExternCall) -> None:
    """Write a branch or a loop."""
    target: Subprogram = step.target
    if isinstance(target, Cond):
        _branch(program, step, target)
    elif isinstance(target, WhileLoop):
        _loop(program, step, target)
    elif isinstance(target, Scan):
        _scan(program, step, target)
    else:
        raise NotCallable(f"{target.title} runs in Python only")


def _values(program: ProgramPrinter, operands: Sequence[Any]) -> str:
    """An array of operands, lent."""
    code = program.code
    values = code.alloca(f"[{max(len(operands), 1)} x {_VALUE}]")
    for position, operand in enumerate(operands):
        if isinstance(operand, BufferRef):
            kind, typed = _TENSOR, f"ptr {program.argument(operand)}"
        elif isinstance(operand, (Expr, bool, int, float)):
            expr = as_expr(operand)
            kind = {"int": _INTEGER, "float": _NUMBER, "bool": _TRUTH}[expr.kind]
            typed = (f"double {program.numbers.double(expr)}" if kind == _NUMBER
                     else f"i64 {program.numbers.integer(expr)}")
        else:
            raise NotCallable(f"an operand of type {type(operand).__name__}")
        _store(program, values, position, kind, typed)
    return values


def _store(program: ProgramPrinter, values: str, position: int, kind: int, typed: str) -> None:
    code = program.code
    at = code.value(f"getelementptr {_VALUE}, ptr {values}, i64 {position}")
    code.line(f"store i32 {kind}, ptr {at}, align 8")
    code.line(f"store {typed}, ptr {_place(program, values, position)}, align 8")


def _place(program: ProgramPrinter, values: str, position: int) -> str:
    return program.code.value(f"getelementptr {_VALUE}, ptr {values}, i64 {position}, i32 2")


def _body(program: ProgramPrinter, body: Body, inputs: str, outputs: str) -> None:
    """Call a body; one that failed has said why."""
    code = program.code
    error = code.value(f"call i32 @{program.bodies[id(body)]}(ptr %model, ptr {inputs}, ptr {outputs})")
    code.leave_unless(code.value(f"icmp eq i32 {error}, 0"), "failed")


def _branch(program: ProgramPrinter, step: ExternCall, target: Cond) -> None:
    code = program.code
    pred, *operands = step.args
    if isinstance(pred, BufferRef):
        code.call_torch("item_bool", [f"ptr {program.argument(pred)}", f"ptr {code.scratch('i8')}"])
        condition = code.value(f"icmp ne i8 {code.load('i8', code.scratch('i8'))}, 0")
    else:
        condition = program.numbers.truth(as_expr(pred))
    inputs = _values(program, operands)
    outputs = code.alloca(f"[{max(len(step.outputs), 1)} x {_VALUE}]")
    then, otherwise, after = code.labels("then", "otherwise", "after")
    code.branch(condition, then, otherwise)
    for label, body in zip((then, otherwise), target.bodies, strict=True):
        code.start(label)
        _body(program, body, inputs, outputs)
        code.jump(after)
    code.start(after)
    slots = [program.slot_for(output) for output in step.outputs]
    for position, slot in enumerate(slots):
        code.line(f"store ptr {code.load('ptr', _place(program, outputs, position))}, ptr {slot}, align 8")
    program.take_results(step, slots)


def _loop(program: ProgramPrinter, step: ExternCall, target: WhileLoop) -> None:
    code = program.code
    current = _values(program, step.args)
    slots = [program.slot_for(output) for output in step.outputs]
    asked, given = code.alloca(_VALUE), code.alloca(f"[{max(target.carried, 1)} x {_VALUE}]")
    head, turn, after = code.labels("head", "turn", "after")
    code.jump(head)
    code.start(head)
    _body(program, target.bodies[0], current, asked)
    code.module.declare_torch("item_bool")
    code.checked(f"@fs.is_true(ptr {asked}, ptr {code.scratch('i8')})", "the condition of a loop")
    goes_on = code.value(f"icmp ne i8 {code.load('i8', code.scratch('i8'))}, 0")
    code.branch(goes_on, turn, after)
    code.start(turn)
    _body(program, target.bodies[1], current, given)
    _carry(program, slots, given, current)
    code.jump(head)
    code.start(after)
    _copy_unturned(program, slots, current)
    program.take_results(step, slots)


def _carry(program: ProgramPrinter, slots: Sequence[str], given: str, current: str) -> None:
    """What a turn gave is what the next one takes."""
    code = program.code
    for position, slot in enumerate(slots):
        # The old value goes when the new one is there; in the first turn there is none of our own.
        code.line(f"call void @fs.drop(ptr {slot})")
        handle = code.load("ptr", _place(program, given, position))
        code.line(f"store ptr {handle}, ptr {slot}, align 8")
        code.line(f"store ptr {handle}, ptr {_place(program, current, position)}, align 8")


def _copy_unturned(program: ProgramPrinter, slots: Sequence[str], current: str) -> None:
    """Without a single turn the results are copies of what came in."""
    code = program.code
    for position, slot in enumerate(slots):
        with code.when(code.value(f"icmp eq ptr {code.load('ptr', slot)}, null")):
            code.call_torch("clone", [f"ptr {code.load('ptr', _place(program, current, position))}", f"ptr {slot}"])


@dataclass(frozen=True)
class _Rows:
    """A tensor whose slices along its first dimension are wanted."""

    handle: str
    count: str
    distance: str
    sizes: str
    strides: str
    dimensions: int

    @staticmethod
    def of(program: ProgramPrinter, reference: BufferRef) -> _Rows:
        buffer = program.plan.buffers[reference.buffer]
        shape = buffer.shape if reference.shape is None else reference.shape
        strides = buffer.strides if reference.strides is None else reference.strides
        code, numbers = program.code, program.numbers
        handle = program.laid_out(program.argument(reference), shape, strides, reference, program.slot())
        return _Rows(handle, numbers.integer(shape[0]), numbers.integer(strides[0]),
                     code.array("i64", [numbers.integer(size) for size in shape[1:]]),
                     code.array("i64", [numbers.integer(stride) for stride in strides[1:]]), len(shape) - 1)

    def row(self, program: ProgramPrinter, index: str, slot: str) -> str:
        """The handle of a slice, in a slot."""
        code = program.code
        code.line(f"call void @fs.drop(ptr {slot})")
        offset = code.value(f"mul i64 {index}, {self.distance}")
        code.call_torch("_reinterpret_tensor", [
            f"ptr {self.handle}", f"i64 {self.dimensions}", f"ptr {self.sizes}", f"ptr {self.strides}",
            f"i64 {offset}", f"ptr {slot}"])
        return code.load("ptr", slot)


def _scan(program: ProgramPrinter, step: ExternCall, target: Scan) -> None:
    code, carried = program.code, target.carried
    current = _values(program, step.args)
    slots = [program.slot_for(output) for output in step.outputs[:carried]]
    sources = [_Rows.of(program, operand) for operand in step.args[carried : carried + target.sliced]]
    slices = [program.slot() for _ in sources]
    results: list[_Rows | None] = []
    for output in step.outputs[carried:]:
        if output is not None:
            program.new_tensor(program.plan.buffers[output])
        results.append(_Rows.of(program, BufferRef(output)) if output is not None else None)
    row, turn_result = program.slot(), program.slot()
    given = code.alloca(f"[{max(len(step.outputs), 1)} x {_VALUE}]")
    counter = code.alloca("i64")
    code.line(f"store i64 0, ptr {counter}, align 8")
    head, turn, after = code.labels("head", "turn", "after")
    code.jump(head)
    code.start(head)
    index = code.load("i64", counter)
    code.branch(code.value(f"icmp slt i64 {index}, {sources[0].count}"), turn, after)
    code.start(turn)
    for position, (source, slot) in enumerate(zip(sources, slices, strict=True)):
        handle = source.row(program, index, slot)
        code.line(f"store ptr {handle}, ptr {_place(program, current, carried + position)}, align 8")
    _body(program, target.bodies[0], current, given)
    _carry(program, slots, given, current)
    for position, result in enumerate(results, carried):
        code.line(f"call void @fs.drop(ptr {turn_result})")
        handle = code.load("ptr", _place(program, given, position))
        code.line(f"store ptr {handle}, ptr {turn_result}, align 8")
        if result is not None:
            code.call_torch("copy_", [f"ptr {result.row(program, index, row)}", f"ptr {handle}", "i32 0"])
    code.line(f"store i64 {code.value(f'add i64 {index}, 1')}, ptr {counter}, align 8")
    code.jump(head)
    code.start(after)
    _copy_unturned(program, slots, current)
    program.take_results(replace(step, outputs=step.outputs[:carried]), slots)
