"""Runs a script in this process and says how it fails: the stage that was at work, what was raised, the operator.

To be called in a child (`children`): the script becomes ``__main__``, and whatever it does stays done.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from .. import config, torch_compat
from ..errors import AccuracyError, UserCodeError, is_own_file
from ..events import OBSERVERS, Observer, Span
from ..own_frames import OWN_FILE
from .failure import PROGRAM, RUN, Failure

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_NAMES = {"pass": "pass {}", "compile": "capture", "graph": "backend"}
_OWN_STAGES = ("repair/", "events.py", "pipeline/compile.py", "interruptions.py")


class Stages(Observer):
    """Follows the stages of all compilations."""

    def __init__(self, report: Callable[[Any], None]) -> None:
        self.report = report
        self.open: dict[int, list[Span]] = {}
        self.failed: list[tuple[BaseException, str]] = []
        """What was raised, each with the innermost stage that it came out of."""

    def begin(self, span: Span) -> None:
        self.open.setdefault(span.thread, []).append(span)
        self.report(("stage", stage_name(span)))

    def end(self, span: Span) -> None:
        error = sys.exc_info()[1]
        if error is not None and not any(error is known or error.__cause__ is known for known, _ in self.failed):
            self.failed.append((error, stage_name(span)))
        stack = self.open.get(threading.get_ident(), [])
        while stack and stack.pop() is not span:
            pass
        self.report(("stage", stage_name(stack[-1]) if stack else RUN))

    def note(self, kind: str, /, **what: Any) -> None:
        if kind == "kernel made":
            stack = self.open.get(threading.get_ident())
            self.report(("stage", stage_name(stack[-1]) if stack else RUN))  # it goes on
        elif kind == "eager raised":
            self.report(("eager", type(what["error"]).__name__))

    def stage_of(self, error: BaseException) -> str:
        """The stage that raised an error."""
        for known, stage in self.failed:
            if known is error:
                return stage
        return RUN


def stage_name(span: Span) -> str:
    """What a stage is called for people."""
    return _NAMES.get(span.kind, "{}").format(span.name)


def execute(path: str, folder: str) -> None:
    """Run a script as python would."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    module = types.ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sys.argv = [path]
    sys.path.insert(0, folder)
    exec(compile(text, path, "exec", dont_inherit=True), module.__dict__)


def failure_of(run: Callable[[], Any], report: Callable[[Any], None],
               differs: Callable[[BaseException, Callable[[Any], None]], Failure]) -> Failure | None:
    """How something fails; None if it does not. ``differs`` finds out about a result that is wrong."""
    stages = Stages(report)
    config.raise_on_internal_error = True
    OBSERVERS.append(stages)
    try:
        report(("stage", PROGRAM))
        run()
        return None
    except AccuracyError as error:
        OBSERVERS.remove(stages)
        difference = getattr(error, "difference", None)
        seen = difference.sort if difference is not None else ""
        report(("differs", str(error.reason), seen))
        return replace(differs(error, report), seen=seen)
    except SystemExit as error:
        return None if error.code in (None, 0) else Failure("exception", PROGRAM, "SystemExit", str(error.code))
    except BaseException as error:
        failure = raised(error, stages)
        if isinstance(error, UserCodeError):
            return replace(failure, stage=PROGRAM)
        if failure.stage in (PROGRAM, RUN, "capture") and hasattr(error, "call"):
            # eager has no complaint: something before may have told it wrong sizes
            OBSERVERS.remove(stages)
            found = differs(error, report)
            if found.stage == "fake tensors" or failure.stage == PROGRAM:
                return replace(failure, stage="capture" if found.stage == RUN else found.stage,
                               operators=found.operators or failure.operators, line=found.line or failure.line)
        return failure
    finally:
        if stages in OBSERVERS:
            OBSERVERS.remove(stages)


def raised(error: BaseException, stages: Stages) -> Failure:
    """An exception as a failure."""
    first = error
    while first.__cause__ is not None and any(known is first.__cause__ for known, _ in stages.failed):
        first = first.__cause__
    if first is error and error.__cause__ is not None and _own_frames(error.__cause__):
        first = error.__cause__
    frames = list(traceback.walk_tb(first.__traceback__))
    own = [frame for frame, _ in frames if frame.f_code.co_filename.startswith(_PACKAGE)]
    where = _place(own[-1]) if own else ""
    generated = bool(frames) and frames[-1][0].f_code.co_filename.startswith(OWN_FILE)  # a call of compiled code
    failed = any(known is first for known, _ in stages.failed)
    stage = stages.stage_of(first)
    if not failed and not generated and (not own or where.startswith("repair/")):
        stage = PROGRAM
    if stage == "joint passes" and where.startswith("passes/"):
        stage = f"pass {where.partition(':')[2]}"
    operators, line = operators_behind([frame for frame, _ in frames])
    text = str(getattr(first, "reason", "") or first).strip()
    return Failure("exception", stage, type(first).__name__, text[:500], where, operators, line)


def _own_frames(error: BaseException) -> bool:
    return any(frame.f_code.co_filename.startswith(_PACKAGE) for frame, _ in traceback.walk_tb(error.__traceback__))


def _place(frame: types.FrameType) -> str:
    return f"{os.path.relpath(frame.f_code.co_filename, _PACKAGE)}:{frame.f_code.co_name}"


def operators_behind(frames: list[types.FrameType]) -> tuple[tuple[str, ...], str]:
    """The operators that functions were at work on when they raised, innermost first, and the user's line."""
    found: dict[str, None] = {}
    line = ""
    for frame in reversed(frames):
        instruction: Any = frame.f_locals.get("inst")
        if hasattr(instruction, "argval") and hasattr(instruction, "op"):  # torch's own have no `op`
            found.setdefault(str(instruction.op), None)
        if not is_own_file(frame.f_code.co_filename):
            continue
        for value in list(frame.f_locals.values()):
            for node in _nodes_of(value):
                if isinstance(node, torch.fx.Node):
                    if node.op in ("call_function", "call_method"):
                        found.setdefault(operator_name(node.target), None)
                        line = line or line_of(node)
                else:
                    found.setdefault(str(node), None)
        if not line:
            line = _captured_line(frame)
    return tuple(found)[:4], line


def _nodes_of(value: Any) -> list[Any]:
    """Nodes of graphs, and operators, that a local variable stands for."""
    if isinstance(value, (torch.fx.Node, torch_compat.OpOverload)):
        return [value]
    origins = getattr(value, "origins", None)
    if isinstance(origins, (tuple, set, frozenset)):
        return [node for node in origins if isinstance(node, torch.fx.Node)]
    return []


def _captured_line(frame: types.FrameType) -> str:
    """The user's line that a frame of the capture was at."""
    tracer = frame.f_locals.get("tx") or frame.f_locals.get("self")
    place = getattr(tracer, "user_frame", None)
    try:
        here = place() if callable(place) else place
        return f"{here.filename}:{here.lineno}: {here.source}" if here is not None else ""
    except Exception:
        return ""


def operator_name(target: Any) -> str:
    """The name of an operator."""
    if isinstance(target, str):
        return f"Tensor.{target}"
    text = str(target)
    if "." in text and " " not in text:
        return text
    return str(getattr(target, "__name__", text))


def line_of(node: torch.fx.Node) -> str:
    """The user's line of a node."""
    frames = [frame for frame in node.meta.get("user_frames", ()) if not is_own_file(frame.filename)]
    if not frames:
        return ""
    frame = frames[-1]
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {frame.source}"
