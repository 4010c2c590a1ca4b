"""How an entry of a generator ends at a `yield`: with the value and the continuations behind it.

    sent = yield y    ->  return Yielded(y, Way(continuation for what is sent), Way(handler for what is thrown))
    yield from g      ->  the same for each item of g, which stands in the stack, until it returns
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..own_frames import passed_over
from .bytecode.frame_state import cells_at
from .bytecode.instructions import Instruction
from .bytecode.liveness import live_locals
from .values.base import Value
from .values.constants import NullValue
from .values.functions import CellValue

if TYPE_CHECKING:
    from ..runtime.units import Unit
    from .capture import Capture
    from .entry_code import EntryCode
    from .frame import Frame


Continued = Callable[[int, list[str], list[str]], str]
"""The text of a continuation at an instruction, with a stack of these texts and kinds, and of its arguments."""


def emit_yield(capture: Capture, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str]) -> None:
    """YIELD_VALUE of the unit's own frame."""
    def continued(index: int, stack: list[str], stack_kinds: list[str]) -> str:
        return capture.continued(code, index, stack, stack_kinds)

    code.line(f"return {_yielded(code, capture.unit, capture.frame, inst, texts, kinds, continued)}")


def emit_generator(code: EntryCode, frame: Frame) -> str:
    """A generator that goes on where the symbolic one stands, through units of its own."""
    compiler = code.tx.compiler
    unit = compiler.unit_of_code(frame.code, frame.globals, driven=True)
    inst = frame.decoded.instructions[frame.index - 1]
    texts = [code.value(value) if not isinstance(value, NullValue) else "" for value in frame.stack]
    closure = "".join(f"{code.value(frame.cells[name])}, " for name in frame.code.co_freevars)

    def continued(index: int, stack: list[str], stack_kinds: list[str]) -> str:
        live, cells = live_locals(frame.decoded, index), cells_at(frame.decoded, index)
        names = [name for name in frame.locals if name in live and name not in cells]
        names.extend(name for name in frame.cells if name in cells and name not in frame.code.co_freevars)
        target = unit.continuation(unit.start_type(index, tuple(stack_kinds), tuple(names)))
        arguments = [f"({closure})"] if closure else []
        arguments.extend(text or "None" for text in stack)
        arguments.extend(code.value(frame.cells[name] if name in frame.cells else frame.locals[name])
                         for name in names)
        return f"{code.constant(target)}, [{', '.join(arguments)}]"

    kinds = [slot_kind(value) for value in frame.stack]
    yielded = _yielded(code, unit, frame, inst, [*texts, "None"], [*kinds, "value"], continued)
    return f"{code.constant(compiler.resumed_generator)}({code.constant(unit)}, {yielded})"


def _yielded(code: EntryCode, unit: Unit, frame: Frame, inst: Instruction, texts: list[str], kinds: list[str],
             continued: Continued) -> str:
    """What tells of a yield, with all ways on from there."""
    way = code.constant(unit.way_type)
    before = bool(frame.code.co_freevars)  # the closure comes first
    value, rest, rest_kinds = texts[-1], texts[:-1], kinds[:-1]

    def lacking(index: int, stack: list[str], stack_kinds: list[str]) -> str:
        return f"{way}({continued(index, stack, stack_kinds)}, {before + len(stack) - 1})"

    parts = [value, lacking(inst.index + 1, [*rest, "None"], [*rest_kinds, "value"])]
    handler = inst.handler
    if handler is not None:
        lost = handler.depth - len(rest)  # 3.12 has what was sent last above the receiver of ``yield from``
        kept = [*rest, *["None"] * lost][: handler.depth]
        kept_kinds = [*rest_kinds, *["value"] * lost][: handler.depth]
        if handler.push_lasti:
            kept, kept_kinds = [*kept, str(inst.offset)], [*kept_kinds, "value"]
        parts.append(f"thrown={lacking(handler.target, [*kept, 'None'], [*kept_kinds, 'value'])}")
    sending = frame.decoded.instructions[inst.index - 1]
    if sending.op == "SEND":
        parts.append(f"delegate={rest[-1]}")
        finished = lacking(sending.argval, [*rest[:-1], "None"], [*rest_kinds[:-1], "value"])
        parts.append(f"finished={finished}")
    return f"{code.constant(unit.yield_type)}({', '.join(parts)})"


@passed_over
def sent_on(receiver: Any, value: Any) -> tuple[bool, Any]:
    """SEND: whether the receiver has returned, and what it yields or returns."""
    try:
        return False, next(receiver) if value is None else receiver.send(value)
    except StopIteration as stop:
        return True, stop.value


def emit_send(capture: Capture, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str]) -> None:
    """SEND of the unit's own frame, to an iterator that is not followed."""
    name = code.fresh("None")
    with capture.inside_handler(code, inst, texts, kinds):
        code.line(f"{name} = {code.constant(sent_on)}({texts[-2]}, {texts[-1]})")
    with code.block(f"if {name}[0]:"):
        capture.emit_resume(code, inst.argval, [*texts[:-2], f"{name}[1]"], [*kinds[:-2], "value"])
    capture.emit_resume(code, inst.index + 1, [*texts[:-1], f"{name}[1]"], [*kinds[:-1], "value"])


def slot_kind(value: Value) -> str:
    """What a continuation has to know of a stack slot."""
    if isinstance(value, NullValue):
        return "null"
    return "cell" if isinstance(value, CellValue) else "value"
