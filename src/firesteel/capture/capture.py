"""From a frame and its arguments to a compiled entry: runs the symbolic interpreter and generates the entry."""

from __future__ import annotations

import contextlib
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from .. import torch_compat
from ..errors import ConstraintViolationError, GraphBreakError, UserFrame
from ..events import span
from ..fake import FakeMode, FakeTensor
from ..functional.modes import leaving_on_failure
from ..interruptions import safe_point
from ..logs import log
from ..own_frames import own_file
from ..pipeline.failing_graphs import FailingGraph, can_keep, keep_large
from ..shapes import Provenance, ShapeGuard
from ..torch_compat.operator_records import of_the_compiler
from .argument_sizes import declared_guards
from .break_reasons import of_library
from .bytecode.frame_state import cells_at, handled_slots
from .bytecode.instructions import Instruction, decode
from .bytecode.liveness import live_locals, own_variables, reads_variables_of_frames
from .covered_lines import covered_lines
from .dynamism import DECLARED, Dynamism, check_demands, layout_guards, name_symbols
from .early_numbers import check_needed
from .entries import BreakReason, Entry, Start, parameters_of
from .entry_code import EntryCode, parameter_name
from .entry_logs import log_entry
from .frame import Frame, HandledMark
from .global_state import GlobalState, InterpreterSettings
from .gradient_hooks import check_hooked
from .gradients import hooked_later
from .graph import CapturedGraph
from .kept_alive import kept_alive
from .opcodes import HANDLERS
from .raising_steps import raised_under, rely_on
from .reliance import guard_reliance, guard_untouched
from .second_runs import plain_if_run_again
from .signals import (
    GraphBreak,
    NotConstant,
    NumbersNeeded,
    Restart,
    SkipFrame,
    StaticNeeded,
    UserRaise,
    is_about_views,
)
from .source import ClosureSource, LocalSource
from .steps import calls_python, emit_step, of_class, pops_of
from .tensor_subclasses import check_linked_wrappers, note_changed_wrappers
from .tracebacks import RAISER, handle, without_internal_frames
from .tracer import Tracer
from .values.base import LazyValue, Value
from .values.constants import LOOKED_UP, NULL, NullValue
from .values.iterators import IteratorValue
from .yields import emit_send, emit_yield, slot_kind

if TYPE_CHECKING:
    from ..runtime.units import Unit

CONSTANT_SIZES, CONSTANT_CONTENTS = 3, {"length": 2, "text": 5}
"""How many versions of a function may be made for constant sizes because an operation takes no symbols, and how often
one for another length of a list or another text. Where there is still another after that, the graph ends there."""
BRANCHES = frozenset({"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE"})


class Capture:
    """One attempt to capture a unit with given arguments."""

    def __init__(self, unit: Unit, args: tuple[Any, ...], known_break: Restart | None,
                 static: frozenset[tuple[str, int]], early: frozenset[str]) -> None:
        self.unit = unit
        self.args = args
        self.known_break = known_break
        self.fake = FakeMode()
        self.declared = unit.compiler.declared_sizes(unit)
        self.tx = Tracer(self.fake, Dynamism.of(unit.compiler.dynamic, unit.learned, static, unit.suspects,
                                                self.declared), unit.compiler)
        self.tx.resumed = unit.start.index > 0
        self.tx.early_numbers.wanted = early
        self.tx.refused = () if unit.compiler.fullgraph else unit.refused
        self.tx.unsettled = frozenset() if unit.compiler.fullgraph else frozenset(
            name for (name, content), count in unit.origin.unsettled.items() if count >= CONSTANT_CONTENTS[content])
        self.tx.sizes_settle = unit.compiler.fullgraph or len(unit.entries) < CONSTANT_SIZES
        self.fake.before_late_error = self.before_late_error
        if unit.compiler.keeps_modules:
            self.tx.graph.module_stack = self.tx.module_stack
        self.parameters = parameters_of(unit.code, unit.start)
        self.frame = self.root_frame()
        self.reason: BreakReason | None = None
        self.passed: list[Value] = []  # to the step that breaks the graph
        self.shape_guards: list[ShapeGuard] = []

    def root_frame(self) -> Frame:
        tx, unit = self.tx, self.unit
        code, start = unit.code, unit.start
        values = dict(zip(self.parameters, self.args, strict=True))
        name_symbols(tx, ((LocalSource(name), value) for name, value in values.items()))
        closure = []
        if code.co_freevars:
            cells = values["_fs_closure"]
            base = LocalSource("_fs_closure")
            closure = [tx.cell(cell, ClosureSource(base, i, name))
                       for i, (cell, name) in enumerate(zip(cells, code.co_freevars, strict=True))]
        frame = Frame(tx, code, unit.globals, closure, {})
        frame.index = start.index
        handled = handled_slots(decode(code), start.index) if start.index else {}
        marks: dict[int, HandledMark] = {}
        for position, kind in enumerate(start.stack):
            name = f"_fs_stack_{position}"
            if kind == "null":
                frame.stack.append(NULL)
            elif position in handled:
                original = handled[position]
                if original != position:
                    frame.stack.append(marks[original])
                    continue
                mark = HandledMark(LazyValue(tx, values[name], LocalSource(name)), frame.handled)
                marks[position] = mark
                frame.handled = mark.exception
                frame.stack.append(mark)
            elif kind == "cell":
                frame.stack.append(tx.cell(values[name], LocalSource(name)))
            else:
                frame.stack.append(LazyValue(tx, values[name], LocalSource(name)))
        cell_names = cells_at(decode(code), start.index) if start.index else frozenset()
        for variable in start.variables:
            name = parameter_name(variable)
            if variable in cell_names:
                frame.cells[variable] = tx.cell(values[name], LocalSource(name))
            else:
                frame.locals[variable] = LazyValue(tx, values[name], LocalSource(name))
        return frame

    def before_late_error(self, changed: Sequence[FakeTensor], overwritten: Sequence[FakeTensor]) -> None:
        """An operation follows that may raise when the graph runs, half-way through what it writes to; see
        `failing_graphs`."""
        tx = self.tx
        half_done = tx.graph.inputs_in_memory(changed, overwritten)
        for_good = [entry for entry in half_done if not can_keep(entry)]
        repeatable = not for_good and not any(entry.half_done_for_good for entry in tx.graph.inputs)
        restorable = tx.graph.note_risk(self.fake.written)
        tx.graph.handled_risk = tx.graph.handled_risk or any(frame.current.handler for frame in tx.frames)
        # After an assertion has failed, the program runs again whatever else is in the graph.
        if not repeatable and (tx.effects.events or tx.graph.handled_risk or tx.shape_env.checks):
            raise GraphBreak("an operation that may raise half-way changes a large tensor")
        if tx.graph.groups and (tx.effects.events or any(frame.current.handler for frame in tx.frames)):
            raise GraphBreak("an operation that may raise follows a collective, which other processes have begun too")
        if not restorable and (tx.effects.events or any(frame.current.handler for frame in tx.frames)):
            raise GraphBreak("an operation that may raise follows a change in place of a tensor with autograd history")
        # Only now is it certain that the operation is part of this graph.
        tx.graph.note_half_done(half_done, for_good)

    # Execution

    def run(self) -> Callable[[], Entry]:
        """Execute symbolically; returns what finishes the entry outside of the fake mode."""
        tx, frame = self.tx, self.frame
        tx.frames.append(frame)
        instructions = frame.decoded.instructions
        steps = 0
        target = self.known_break.step if self.known_break is not None else -1
        while True:
            instruction = frame.current = instructions[frame.index]
            stack = list(frame.stack)
            if steps == target:
                assert self.known_break is not None
                cause = self.known_break.cause
                return self.finish_with_break(instruction, stack, cause, getattr(cause, "frames", ()))
            tx.root_step = steps
            steps += 1
            safe_point()
            frame.index += 1
            before = self.progress()
            try:
                outcome = HANDLERS[instruction.op](frame, instruction)
            except UserRaise as raised:
                try:
                    frame.unwind(instruction, raised)
                    continue
                except UserRaise:
                    cause = GraphBreak(f"the program raises {raised.value.python_type().__name__} here")
                    cause.raises = True
            except GraphBreak as error:
                cause = error
            except NotConstant as error:
                cause = GraphBreak(f"a value is not known while capturing: {error}")
            except RuntimeError as error:
                if not is_about_views(error):
                    raise
                cause = GraphBreak(f"autograd refuses: {error}")
                cause.refused = True
            else:
                if outcome is not None:
                    return self.finish_with_return(outcome)
                continue
            check_needed(tx, self.unit, cause)
            if not hasattr(cause, "frames"):
                cause.frames = self.error_frames(cause)  # type: ignore[attr-defined]
                cause.__traceback__ = cause.__context__ = None  # they would keep all values of this capture alive
            del tx.frames[1:]
            if cause.refused and not self.unit.compiler.fullgraph:
                return self.finish_uncompiled(instruction, cause, cause.frames)  # type: ignore[attr-defined]
            if before != self.progress():
                relied = raised_under(tx) if cause.raises and self.unit.compiler.fullgraph else None
                raise Restart(steps - 1, cause, relied)
            return self.finish_with_break(instruction, stack, cause, cause.frames)  # type: ignore[attr-defined]

    def progress(self) -> tuple[int, ...]:
        """How far capture is: a step that ends in a break must leave none of this behind, guards on sizes included."""
        tx = self.tx
        return tx.graph.operations, tx.effects.version, len(tx.shape_env.checks), tx.shape_env.decisions

    def error_frames(self, cause: GraphBreak) -> tuple[UserFrame, ...]:
        """User frames at the point of the break: recovered from the Python traceback of the inlined frames."""
        frames = []
        traceback = cause.__traceback__
        if cause.__context__ is not None and traceback is None:
            traceback = cause.__context__.__traceback__
        seen: list[Frame] = [self.frame]
        while traceback is not None:
            local = traceback.tb_frame.f_locals.get("self")
            if isinstance(local, Frame) and local not in seen:
                seen.append(local)
            traceback = traceback.tb_next
        for frame in seen[:of_library(cause, seen)]:
            if not frame.hidden:
                frames.append(frame.user_frame())
        return tuple(frames)

    def check_demanded(self, needed: StaticNeeded) -> None:
        """Raise when the user wants a size to be dynamic that an operation cannot take as a symbol."""
        names = ", ".join(f"{name}.size({dim})" for name, dim in sorted(needed.sizes))
        log("shapes", "%s: %s cannot work with symbolic sizes; %s constant", self.unit.name, needed.operation, names)
        how, hint = ("marked", None) if self.declared is None else \
            ("declared", ConstraintViolationError.hint_for_declared)
        for where in self.tx.symbols.demanded.values():
            if (where.parent.name, where.dim) in needed.sizes:
                raise ConstraintViolationError(
                    f"dimension {where.dim} of {where.parent.name} is {how} dynamic, but {needed.operation} cannot "
                    "work with symbolic sizes", hint, self.tx.user_frames())

    # Ways out

    def new_code(self) -> EntryCode:
        guard_reliance(self.tx)
        tx = self.tx
        note_changed_wrappers(tx)
        check_hooked(tx)
        check_demands(tx, self.declared is not None)
        if DECLARED.get() is None:  # whoever declared the sizes checks them
            self.shape_guards = [*layout_guards(tx), *tx.shape_env.assumptions(), *tx.shape_env.guards]
            if self.known_break is not None and self.known_break.raised is not None:
                known = {guard.expr for guard in self.shape_guards}
                self.shape_guards += [guard for guard in rely_on(tx, self.known_break.raised)
                                      if guard.expr not in known]
            if self.declared is not None and self.unit.start.index == 0:
                self.shape_guards += declared_guards(self.declared, self.parameters, self.args, tx.symbols.sources)
        code = EntryCode(tx, "entry", self.parameters, holds_list=self.unit.start.index > 0)
        code.guards(tx.guards.guards)
        code.shape_guards(self.shape_guards)
        return code

    def finish_with_return(self, value: Value) -> Callable[[], Entry]:
        self.unit.compiler.before_effects(self.tx)
        code = self.new_code()
        self.tx.effects.emit(code)
        result = code.value(value)
        ends = self.noticed_ends()
        if ends:  # also one: a weak reference with a callback, which another variable may hold, must not go before
            result = code.fresh(result)
            begin = len(code.body)
            for name in ends:
                code.line(f"{name} = None")
            code.let_go(begin, code.indent, [*self.parameters, result])  # guards may have looked at what ends
        code.line(f"return {result}")
        return self.finisher(code)

    def noticed_ends(self) -> list[str]:
        """Parameters whose end is noticed, in the order in which Python lets go of the variables that hold them.

        Those of the function itself are held by who calls the entry.
        """
        frame = self.frame
        if not self.tx.resumed:
            return []
        watched = set(kept_alive(frame.locals, dict(zip(self.parameters, self.args, strict=True)), []))
        held = [frame.locals[name].source for name in own_variables(frame.code) if name in watched]
        return list(dict.fromkeys(source.variable for source in held if isinstance(source, LocalSource)))

    def finish_with_break(self, inst: Instruction, stack: list[Value], cause: GraphBreak,
                          frames: tuple[UserFrame, ...]) -> Callable[[], Entry]:
        frame = self.frame
        frame.current = inst
        self.reason = BreakReason(cause.reason, cause.hint, frames or (frame.user_frame(),))
        if self.tx.torch_functions.is_changed and not self.unit.compiler.fullgraph:
            raise SkipFrame(f"a break inside of a function mode, or where __torch_function__ is off: {cause.reason}")
        if inst.op == "YIELD_VALUE":
            self.reason = None
        elif self.unit.compiler.fullgraph and not cause.raises:
            raise GraphBreakError(cause.reason, cause.hint or None, self.reason.frames)
        if (hooked := hooked_later(frame, inst.index)) is not None and not self.unit.compiler.fullgraph:
            raise SkipFrame(f"a hook on {hooked}, which has been used before, after: {cause.reason}")
        if cause.relies_on is not None:
            self.tx.guard(*cause.relies_on)
        code = self.new_code()
        code.user_line = inst.lineno
        try:
            self.emit_break(code, inst, stack)
        except GraphBreak as error:
            raise SkipFrame(f"{error.reason}, which is needed after: {cause.reason}") from None
        return self.finisher(code)

    def finish_uncompiled(self, inst: Instruction, cause: GraphBreak,
                          frames: tuple[UserFrame, ...]) -> Callable[[], Entry]:
        """The entry that leaves the unit to Python, from its start: no graph runs."""
        self.frame.current = inst
        self.reason = BreakReason(cause.reason, cause.hint, frames or (self.frame.user_frame(),))
        code = self.new_code()
        parameters = ", ".join(self.parameters)
        code.line(f"return {code.constant(self.unit.resume_type)}({code.constant(self.unit.uncompiled())}, "
                  f"[{parameters}])")
        self.tx.graph.operations = 0
        self.tx.draws.forget()
        return lambda: self.assemble(code)

    def emit_break(self, code: EntryCode, inst: Instruction, stack: list[Value]) -> None:
        frame = self.frame
        if inst.op not in BRANCHES and inst.op not in ("FOR_ITER", "RERAISE", "STORE_FAST", "YIELD_VALUE", "SEND"):
            self.passed = stack[len(stack) - pops_of(inst):]
        # iterators are built on containers that are up to date, so the effects come first
        self.tx.effects.emit(code)
        live = live_locals(frame.decoded, inst.index)
        variables = {name: code.value(self.variable(name, inst.index))
                     for name in self.live_variables(inst.index, live)}
        texts = [code.value(v) if not isinstance(v, NullValue) else "" for v in stack]
        kinds = [slot_kind(v) for v in stack]
        if inst.op in BRANCHES:
            self.emit_branch(code, inst, texts, kinds, stack[-1])
            return
        if inst.op == "FOR_ITER":
            self.emit_for_iter(code, inst, texts, kinds, stack[-1])
            return
        if inst.op == "YIELD_VALUE":
            emit_yield(self, code, inst, texts, kinds)
            return
        if inst.op == "SEND":
            emit_send(self, code, inst, texts, kinds)
            return
        if inst.op == "STORE_FAST":  # the continuation stores; the old value is let go of before
            del frame.locals[str(inst.argval)]
            begin = len(code.body)
            self.emit_resume(code, inst.index, texts, kinds)
            code.let_go(begin, code.indent, [])
            return
        if inst.op == "RERAISE" or (inst.op == "RAISE_VARARGS" and not inst.argval and frame.handled is not None):
            self.emit_reraise(code, inst, texts, kinds)
            return
        pops = pops_of(inst)
        operands, rest = (texts[len(texts) - pops:], texts[: len(texts) - pops]) if pops else ([], texts)
        if inst.op == "CALL" and any(value is LOOKED_UP for value in self.passed[:2]):
            operands = [f"{code.constant(of_class)}({text})" if text and at < 2 else text
                        for at, text in enumerate(operands)]
        rest_kinds = kinds[: len(rest)]
        with_handled = self.enter_handled(code)
        begin, indent = len(code.body), code.indent
        with self.inside_handler(code, inst, texts, kinds):
            results = emit_step(code, frame, inst, operands, self.passed)
        if inst.op != "RAISE_VARARGS":
            new_kinds = [*rest_kinds, *("null" if text == "" else "value" for text in results)]
            if len(results) > 1 and results[: len(operands)] == operands[: len(results) - 1]:
                new_kinds = [*kinds[: len(rest) + len(results) - 1], "value"]
            elif results and results == operands[: len(results)]:
                new_kinds = kinds[: len(rest) + len(results)]
            if inst.op == "DELETE_FAST":
                frame.locals.pop(str(inst.argval), None)
            self.emit_resume(code, inst.index + 1, [*rest, *results], new_kinds)
        code.let_go(begin, indent, [text for name, text in variables.items() if name not in live])
        if with_handled:
            code.indent = code.indent[:-4]

    def emit_reraise(self, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str]) -> None:
        """Raise what is handled again: no line is added to its traceback."""
        if inst.op == "RERAISE":
            raised = texts[-1]
        else:
            assert self.frame.handled is not None
            raised = code.value(self.frame.handled)
        if inst.handler is not None:
            code.line(f"_fs_error = {raised}")
            self.emit_handler(code, inst, texts, kinds)
        else:
            code.line(f"return {code.constant(self.unit.resume_type)}({code.constant(RAISER)}, [{raised}])")

    def enter_handled(self, code: EntryCode) -> bool:
        """Run the step while the exception is handled that the frame handles, for bare raise and sys.exc_info()."""
        handled = self.frame.handled
        if handled is None:
            return False
        text = code.value(handled)
        saved = code.fresh(f"{text}.__traceback__")
        code.line("try:")
        code.line(f"    {code.constant(handle)}({text})")
        code.line("except BaseException:")
        code.indent += "    "
        code.line(f"{text}.__traceback__ = {saved}")
        return True

    def emit_branch(self, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str],
                    value: Value) -> None:
        condition = texts.pop()
        kinds = kinds[:-1]
        if inst.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE") and not self.unit.compiler.fullgraph and \
                calls_python(value):
            condition = f"{code.constant(self.unit.compiler.protocols.truth)}({condition})"
        same = code.constant(operator.is_)  # the compiler warns about "is" with a literal
        test = {"POP_JUMP_IF_TRUE": condition, "POP_JUMP_IF_FALSE": f"not {condition}",
                "POP_JUMP_IF_NONE": f"{same}({condition}, None)",
                "POP_JUMP_IF_NOT_NONE": f"not {same}({condition}, None)"}[inst.op]
        if inst.handler is not None:
            name = code.fresh("None")
            with self.inside_handler(code, inst, [*texts, condition], kinds):
                code.line(f"{name} = {'not not ' if test is condition else ''}{test}")  # the truth is asked for here
            test = name
        with code.block(f"if {test}:"):
            self.emit_resume(code, inst.argval, texts, kinds)
        self.emit_resume(code, inst.index + 1, texts, kinds)

    def emit_for_iter(self, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str],
                      iterator: Value) -> None:
        item = code.fresh("_fs_miss")
        with self.inside_handler(code, inst, texts, kinds):
            if calls_python(iterator) and not self.unit.compiler.fullgraph:
                code.line(f"{item} = {code.constant(self.unit.compiler.protocols.advance)}({texts[-1]}, _fs_miss)")
            else:
                code.line(f"for {item} in {texts[-1]}: break")
        with code.block(f"if {item} is _fs_miss:"):
            self.emit_resume(code, inst.argval, texts[:-1], kinds[:-1])
        self.emit_resume(code, inst.index + 1, [*texts, item], [*kinds, "value"])

    @contextlib.contextmanager
    def inside_handler(self, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str]) -> Iterator[None]:
        """Around the lines of a step: the handler of the program that the step stands in, if it does in one."""
        if inst.handler is None:
            yield
            return
        with code.block("try:"):
            yield
        with code.block("except BaseException as _fs_error:"):
            self.emit_handler(code, inst, texts, kinds)

    def emit_handler(self, code: EntryCode, inst: Instruction, texts: list[str], kinds: list[str]) -> None:
        handler = inst.handler
        assert handler is not None
        kept, kept_kinds = texts[: handler.depth], kinds[: handler.depth]
        if handler.push_lasti:
            kept, kept_kinds = [*kept, str(inst.offset)], [*kept_kinds, "value"]
        trimmed = code.constant(without_internal_frames)
        self.emit_resume(code, handler.target, [*kept, f"{trimmed}(_fs_error)"], [*kept_kinds, "value"],
                         caught=True)

    def live_variables(self, index: int, live: frozenset[str]) -> list[str]:
        frame = self.frame
        cells = cells_at(frame.decoded, index)
        names = [n for n in frame.locals if n in live and n not in cells]
        names.extend(n for n in frame.cells if n in cells and n not in frame.code.co_freevars)
        unread = {n: v for n, v in frame.locals.items() if n not in live and n not in cells}
        kept = list(kept_alive(unread, dict(zip(self.parameters, self.args, strict=True)), self.passed)) \
            if unread else []
        if kept:  # Python lets go of variables in the order of their slots
            slots = {name: at for at, name in enumerate(own_variables(frame.code))}
            names = sorted([*names, *kept], key=lambda name: slots[name])
        return names

    def variable(self, name: str, index: int) -> Value:
        frame = self.frame
        if name in frame.cells and name in cells_at(frame.decoded, index):
            return frame.cells[name]
        return frame.locals[name]

    def refuse_break(self) -> Callable[[], None]:
        """Raises what fullgraph=True means, for a step that raised while it was captured and not when it ran."""
        assert self.reason is not None
        error = GraphBreakError(f"{self.reason.reason} while it is captured, and not when it runs",
                                "Code that asks whether it is being compiled, and raises then, breaks the graph.",
                                self.reason.frames)

        def refuse() -> None:
            raise copy(error)

        return refuse

    def emit_resume(self, code: EntryCode, index: int, texts: list[str], kinds: list[str], *,
                    caught: bool = False) -> None:
        """Leave the entry through a continuation."""
        if self.unit.compiler.fullgraph and not caught:  # only a step that is known to raise comes so far
            code.line(f"{code.constant(self.refuse_break())}()")
            return
        frame, unit = self.frame, self.unit
        decoded = frame.decoded
        if decoded.instructions[index].op == "RETURN_VALUE" and len(texts) == 1:
            code.line(f"return {texts[0]}")
            return
        continued = self.continued(code, index, texts, kinds)
        code.line(f"return {code.constant(unit.resume_type)}({continued})")

    def continued(self, code: EntryCode, index: int, texts: list[str], kinds: list[str]) -> str:
        """The continuation at an instruction and the list of its arguments."""
        names = self.live_variables(index, live_locals(self.frame.decoded, index))
        target = code.constant(self.unit.continuation(Start(index, tuple(kinds), tuple(names))))
        arguments = ["_fs_closure"] if self.frame.code.co_freevars else []
        arguments.extend(text if text else "None" for text in texts)
        arguments.extend(code.value(self.variable(name, index)) for name in names)
        return f"{target}, [{', '.join(arguments)}]"

    # Assembly

    def close_abandoned_generators(self, code: EntryCode) -> None:
        """Python closes a generator when it is dropped. What that does to the user's objects cannot wait until now."""
        tx = self.tx
        for generator in tx.generators:
            if generator.needs_cleanup() and not code.is_built(generator):
                operations, tx.effects.changes = tx.graph.operations, []
                try:
                    generator.close(tx)
                except (UserRaise, GraphBreak, NotConstant):
                    raise SkipFrame(
                        "closing a generator that was left in the middle fails or is not captured") from None
                changes, tx.effects.changes = tx.effects.changes, None
                if operations != tx.graph.operations or any(not isinstance(v, IteratorValue) for v in changes):
                    raise SkipFrame("a generator was left inside a try or with block whose cleanup has side effects")

    def release(self) -> None:
        """Let go of the user's objects: values, frames and tracer refer to each other, so that they would stay until
        the next garbage collection."""
        self.args = ()
        self.passed = []
        self.fake.forget()
        for frame in (self.frame, *self.tx.frames):
            frame.stack.clear()
            frame.locals.clear()
            frame.cells.clear()
        self.tx.shape_env.current_provenance = Provenance  # backends go on using the environment
        vars(self.tx).clear()

    def finisher(self, code: EntryCode) -> Callable[[], Entry]:
        self.close_abandoned_generators(code)
        code.guards(guard_untouched(self.tx, code.untouched))
        if self.tx.torch_functions.taken_apart:
            check_linked_wrappers(self.tx, code.outputs)
        if self.tx.branches.copies:
            from .branches import check_copies

            check_copies(self.tx, code.outputs)

        def finish() -> Entry:
            return self.assemble(code)

        return finish

    def assemble(self, code: EntryCode) -> Entry:
        tx, unit = self.tx, self.unit
        captured: CapturedGraph | None = None
        # classes made and warnings issued between two graphs look for the name of the module they are in
        code.namespace["__name__"] = self.frame.globals.get("__name__")
        code.namespace["__warningregistry__"] = self.frame.globals.get("__warningregistry__", {})
        lines: list[str] = tx.draws.lines(code, with_graph=bool(tx.graph.operations))
        if tx.graph.operations:
            lines[:0] = plain_if_run_again(self, code)
            tx.graph.note_uncounted(self.fake.written)
            if tx.graph.handled_risk or tx.effects.events or tx.graph.asserts():
                keep_large(tx.graph.inputs, unit.compiler.backend_is_own)
            captured = tx.graph.finish(code.outputs, unit.name)
            compiled = unit.compiler.compile_graph(captured, unit)
            compiled = unit.compiler.watched_graph(compiled, captured, self.reason is not None)
            # A backend that traces the graph again may take further decisions on sizes.
            decided = [guard for guard in tx.shape_env.guards if guard not in self.shape_guards]
            if decided:
                code.shape_guards(decided)
                self.shape_guards.extend(decided)
            tx.shape_env.closed = True
            if "modes" in tx.touched_state:
                compiled = leaving_on_failure(compiled)
            code.graph_inputs = [code.source(entry.source) for entry in captured.inputs]
            code.graph_function = code.constant(compiled)
            if hasattr(compiled, "place"):  # it is watched
                compiled.place = code.namespace, code.graph_function
            targets = "".join(f"_fs_g{i}, " for i in range(len(code.outputs)))
            call = f"{code.graph_function}({', '.join(code.graph_inputs)})"
            failure = FailingGraph(captured.inputs, self.fake.draws_random, code, unit.compiler.backend_is_own,
                                   tuple(tx.graph.groups), f"{unit.name} ({unit.user_frame})")
            lines.extend(failure.preparation())
            restore_state = self.state_restoration(code, lines)
            lines.append("try:")
            lines.append(f"    {f'({targets}) = ' if targets else ''}{call}")
            lines.append("except Exception as _fs_error:")
            lines.extend("    " + text for text in restore_state)
            lines.extend("    " + text for text in failure.undoing())
            lines.extend("    " + text for text in tx.draws.undoing(code))
            catches = any(inlined.co_exceptiontable for inlined in (unit.code, *tx.inlined))
            rerun = code.constant(unit.rerun(catches))
            parameters = "".join(f"{name}, " for name in self.parameters)
            lines.append(f"    return {code.constant(unit.resume_type)}({rerun}, [_fs_error, {parameters}])")
            if restore_state:
                lines.append("except BaseException:")
                lines.extend("    " + text for text in restore_state)
                lines.append("    raise")
        state_guard = GlobalState.current().guard()
        code.prologue.insert(0, code.guard_line(state_guard))
        filename = own_file(unit.name)
        function = code.build(lines, unit.miss, filename, unit.code if self.reason or code.user_line else None)
        return Entry(function, tx.guards.guards, state_guard, self.shape_guards, captured, self.reason, 0.0,
                     code.text, dict(tx.symbols.numbers_seen), dict(tx.symbols.tensors_seen),
                     dict(tx.symbols.sources), code.upgrade, list(code.guarded_classes.values()))

    def state_restoration(self, code: EntryCode, before: list[str]) -> list[str]:
        """Lines that put torch's global state back when the graph raises; what they need first is added to `before`."""
        touched = self.tx.touched_state
        if not touched:
            return []
        lines = [f"{code.constant(GlobalState.current())}.restore_settings()"]
        if any(name.endswith("_nesting") for name in touched):
            before.append(f"_fs_nesting = {code.constant(torch_compat.autocast_nesting)}()")
            lines.append(f"{code.constant(torch_compat.set_autocast_nesting)}(_fs_nesting)")
        return lines


def capture(unit: Unit, args: tuple[Any, ...]) -> Entry:
    """Capture a unit for these arguments. Raises SkipFrame when it must run as plain Python."""
    with of_the_compiler(), covered_lines():
        return _capture(unit, args)


def _capture(unit: Unit, args: tuple[Any, ...]) -> Entry:
    from . import all_handlers  # noqa: F401 - they register themselves, on first use

    if unit.start.index == 0 and not unit.compiler.fullgraph and reads_variables_of_frames(unit.code, unit.globals):
        raise SkipFrame("the variables of a frame are looked at")  # they exist where the program runs as it is
    torch_compat.neutralise_dynamo_imports()
    started = time.perf_counter()
    known_break: Restart | None = None
    static: frozenset[tuple[str, int]] = frozenset()
    early: frozenset[str] = frozenset()
    with InterpreterSettings(), torch_compat.without_user_packing():
        for _ in range(10_000):
            state = GlobalState.current()
            attempt = Capture(unit, args, known_break, static, early)
            try:
                try:
                    with span("capture"), attempt.fake:
                        try:
                            finish = attempt.run()
                        finally:
                            attempt.tx.leave_modes()
                finally:
                    state.restore()
                entry = finish()
            except Restart as restart:
                known_break = restart
                for error in (restart, restart.cause):
                    error.__traceback__ = error.__context__ = None  # they keep the whole attempt alive
                continue
            except StaticNeeded as needed:
                attempt.check_demanded(needed)
                static |= needed.sizes
                continue
            except NumbersNeeded as needed_numbers:
                early |= needed_numbers.names
                continue
            finally:
                attempt.release()
            entry.seconds = time.perf_counter() - started
            log_entry(unit, entry)
            return entry
    raise SkipFrame("capture did not settle")
