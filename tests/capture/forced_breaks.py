"""Runs a program plain and compiled, with graph breaks forced at chosen instructions, and compares what Python sees.

A program takes a tensor and a list, to which it reports in order what it does. Compared are the result, the reports,
the exception with its whole chain of causes and contexts, and the program's lines in the tracebacks.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

import firesteel as fs
from firesteel.capture import opcodes
from firesteel.capture.bytecode.instructions import Instruction, decode
from firesteel.capture.frame import Frame
from firesteel.capture.signals import GraphBreak
from firesteel.capture.steps import STEPS
from firesteel.errors import FiresteelError
from firesteel.runtime.units import Unit

Program = Callable[[torch.Tensor, list[Any]], Any]
BRANCHES = {"POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE", "FOR_ITER", "RERAISE"}
BREAKABLE = (set(STEPS) | BRANCHES) - {"LOAD_FAST", "LOAD_FAST_CHECK", "DELETE_FAST", "LOAD_DEREF", "DELETE_DEREF"}


def sample() -> torch.Tensor:
    return torch.tensor([1.0, -2.0, 3.0])


def plain_form(value: Any, depth: int = 0) -> Any:
    """A value in a form that `==` and `repr` compare."""
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), value.requires_grad, tuple(value.shape), value.tolist())
    if isinstance(value, BaseException):
        return exception_form(value) if depth < 6 else type(value)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain_form(item, depth + 1) for item in value])
    if isinstance(value, dict):
        return (type(value).__name__, [(plain_form(k, depth + 1), plain_form(v, depth + 1)) for k, v in value.items()])
    if isinstance(value, (int, float, str, bytes, bool, type(None), set, frozenset, type, torch.dtype)):
        return value
    if hasattr(value, "__dict__"):
        return (type(value).__name__, {k: plain_form(v, depth + 1) for k, v in vars(value).items()})
    return type(value).__name__


def exception_form(error: BaseException | None, seen: tuple[int, ...] = ()) -> Any:
    """An exception's type, arguments and chain."""
    if error is None or id(error) in seen:
        return None
    seen = (*seen, id(error))
    return {"type": type(error), "args": plain_form(error.args), "notes": getattr(error, "__notes__", None),
            "cause": exception_form(error.__cause__, seen), "context": exception_form(error.__context__, seen),
            "suppress": error.__suppress_context__}


def user_lines(error: BaseException | None, filename: str) -> list[tuple[str, int | None]]:
    """(function, line) of the traceback's frames that belong to a file."""
    if error is None:
        return []
    frames = traceback.extract_tb(error.__traceback__)
    return [(frame.name, frame.lineno) for frame in frames if frame.filename == filename]


def observe(function: Callable[..., Any], program: Program) -> dict[str, Any]:
    """Call a program, plain or compiled, and note all that can be seen of it."""
    reports: list[Any] = []
    value = sample()
    result, error = None, None
    torch.manual_seed(7)
    state = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype())
    try:
        result = function(value, reports)
    except FiresteelError:
        raise
    except Exception as raised:
        error = raised
    after = (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype())
    torch.set_grad_enabled(True)
    return {"result": plain_form(result), "reports": plain_form(reports), "input": plain_form(value),
            "error": exception_form(error), "state": state == after,
            "lines": user_lines(error, program.__code__.co_filename)}


def differences(plain: dict[str, Any], compiled: dict[str, Any]) -> str:
    return "\n".join(f"{key}:\n  plain    {plain[key]}\n  compiled {compiled[key]}"
                     for key in plain if repr(plain[key]) != repr(compiled[key]))


@contextmanager
def breaking(wanted: Callable[[Frame, Instruction, bool], bool]) -> Iterator[None]:
    """While active, instructions for which `wanted(frame, instruction, is_root)` holds break the graph."""
    def forced(handler: Any) -> Any:
        def run(frame: Frame, inst: Instruction) -> Any:
            root = frame.tx.frames[0] is frame
            if (not root or inst.op in BREAKABLE) and wanted(frame, inst, root):
                raise GraphBreak("forced")
            return handler(frame, inst)

        return run

    with mock.patch.dict(opcodes.HANDLERS, {op: forced(handler) for op, handler in opcodes.HANDLERS.items()}):
        yield


@contextmanager
def plain_continuations(chance: float, seed: int) -> Iterator[None]:
    """While active, continuations run as real bytecode with this probability."""
    decide = random.Random(seed)
    original = Unit.why_not_compile

    def why_not(unit: Unit) -> str | None:
        if unit.start.index and decide.random() < chance:
            return "forced"
        return original(unit)

    with mock.patch.object(Unit, "why_not_compile", why_not):
        yield


def compiled_run(program: Program, plain: dict[str, Any], calls: int = 2, label: str = "") -> None:
    """Compare some compiled calls with the plain one."""
    fs.reset()
    compiled = fs.compile(program, backend="eager")
    with fs.config.patch(recompile_limit=64, accumulated_recompile_limit=100_000):
        for call in range(calls):
            found = differences(plain, observe(compiled, program))
            assert not found, f"{program.__name__}, {label}, call {call}\n{found}"


def check_everywhere(program: Program, seeds: int = 4, every: int = 1) -> None:
    """Break at each instruction of the program alone, at all of them, and at random ones, also in its callees.

    With `every`, only each n-th instruction is tried alone.
    """
    plain = observe(program, program)
    compiled_run(program, plain, label="no forced break")
    code = program.__code__
    candidates = [inst for inst in decode(code).instructions if inst.op in BREAKABLE]
    candidates = candidates[len(program.__name__) % every:: every]

    def only(chosen: Instruction) -> Callable[[Frame, Instruction, bool], bool]:
        return lambda frame, inst, root: root and frame.code is code and inst.index == chosen.index

    for chosen in candidates:
        where = f"{chosen.index} {chosen.op} {chosen.argval}, line {chosen.lineno}"
        with breaking(only(chosen)):
            compiled_run(program, plain, label=f"break at {where}")
        with plain_continuations(1.0, 0), breaking(only(chosen)):
            compiled_run(program, plain, calls=1, label=f"plain after {where}")
    with breaking(lambda frame, inst, root: root):
        compiled_run(program, plain, label="break at every instruction")
    for seed in range(seeds):
        decide = random.Random(seed)

        def sometimes(frame: Frame, inst: Instruction, root: bool, decide: random.Random = decide) -> bool:
            return decide.random() < (0.3 if root else 0.02)

        with ExitStack() as stack:
            stack.enter_context(breaking(sometimes))
            if seed % 2:
                stack.enter_context(plain_continuations(0.5, seed))
            compiled_run(program, plain, label=f"random breaks, seed {seed}")
