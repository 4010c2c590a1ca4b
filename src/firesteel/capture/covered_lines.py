"""Lines that graphs are made of count as run, where the coverage of lines is measured.

Compiled code does not run the program's lines, and whoever measures which lines are run would find none of them. So
while `coverage` watches, the lines that a capture goes through are kept, and afterwards functions that do nothing are
run that consist of just these lines.
"""

from __future__ import annotations

import ast
import dis
import sys
import types
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .opcode_handlers import HANDLERS

if TYPE_CHECKING:
    from .bytecode.instructions import Instruction
    from .frame import Frame

_MEASURES = "coverage"
Lines = dict[types.CodeType, dict[int, None]]


def is_measured() -> bool:
    """Whether `coverage` watches this thread."""
    if _MEASURES not in sys.modules:
        return False
    trace: Any = sys.gettrace()
    owner = getattr(trace, "__self__", trace)
    if trace is not None and type(owner).__module__.partition(".")[0] == _MEASURES:
        return True
    monitoring: Any = getattr(sys, "monitoring", None)
    return monitoring is not None and monitoring.get_tool(monitoring.COVERAGE_ID) is not None


@contextmanager
def covered_lines() -> Iterator[None]:
    """For a capture: what it goes through counts as run."""
    if not is_measured():
        yield
        return
    lines: Lines = {}
    before = dict(HANDLERS)
    HANDLERS.update({op: _noting(handler, lines) for op, handler in before.items()})
    try:
        yield
    finally:
        HANDLERS.update(before)
        for code, seen in lines.items():
            _run(code, [*_without_work(code, seen), *seen])


def _noting(handler: Callable[..., Any], lines: Lines) -> Callable[..., Any]:
    def noted(frame: Frame, instruction: Instruction) -> Any:
        if instruction.lineno and not frame.hidden:
            lines.setdefault(frame.code, {})[instruction.lineno] = None
        return handler(frame, instruction)

    return noted


def _without_work(code: types.CodeType, seen: Collection[int]) -> list[int]:
    """Lines such as ``try:`` that lead to others and do nothing, which capture does not see."""
    leading: list[int] = []
    following = None
    for instruction in reversed(list(dis.get_instructions(code))):
        line = instruction.positions.lineno if instruction.positions is not None else None
        if instruction.opname == "NOP" and line and line not in seen and (following in seen or following in leading):
            leading.append(line)
        following = line or following
    return leading[::-1]


def _run(code: types.CodeType, lines: list[int]) -> None:
    """Run a function of the same file that has these lines, in this order."""
    body: list[ast.stmt] = [ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=4) for line in lines]
    nothing = ast.parse("def lines(): pass")
    function = nothing.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = body
    function.lineno = function.end_lineno = code.co_firstlineno
    scope: dict[str, Any] = {}
    compiled = compile(nothing, code.co_filename, "exec", dont_inherit=True)
    inner = next(constant for constant in compiled.co_consts if isinstance(constant, types.CodeType))
    types.FunctionType(inner, scope)()
