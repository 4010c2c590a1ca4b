"""Puts the native checker in front of an entry's Python guards once the entry has been used a few times.

    def entry(self, x):
        found = native(self, x)
        if found is None:
            ... all guards in Python, as before ...
            inputs = (x, self_weight, self_bias)
        else:
            inputs, y = found
            ... guards that the native checker does not know ...
        (result, ) = graph(*inputs)

Where no line of the entry stands for one of the user's, so that nobody sees how many frames there are, the entry as it
was is called instead of those guards: to compile thousands of lines again takes as long as to make some kernels.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ... import config, torch_compat
from ...events import span
from ...interruptions import raised_by_handler, uninterrupted
from ...logs import log
from ...pipeline.collecting import collection_paused
from ...pipeline.locking import compiling
from ...records import dataclass
from ...torch_compat.operator_records import of_the_compiler

if TYPE_CHECKING:
    from ...native.program import Program
    from ...shapes import ShapeGuard, Symbol
    from ..guards import Guard
    from ..source import Source

HITS = 50
"""Calls before an entry is upgraded: making the checker takes about as long as so many checks in Python."""
AGAIN = 5
"""Calls before it is tried again where another thread came in between."""
GROUPED_INPUTS = 8
"""From so many inputs on the graph is called with the tuple that the checker made."""
REFUSALS = 4
"""So often may the checker refuse what the Python guards accept, until the entry stays with those."""
MAX_DISTURBED = 3
"""So often is the checker made again after other threads have changed what the guards read in the meantime."""

REFUSAL = "except Exception as _fs_error: return _fs_refused(_fs_error)"
"""The end of a block of guards."""

LOADED = re.compile(r"\b_fs_s\d+\b")


def refusal(miss: Any) -> Callable[[Exception], Any]:
    """What an entry does when a guard raises: the guard does not hold, unless a signal came just then."""
    def refused(error: Exception) -> Any:
        if raised_by_handler(error):
            raise error
        return miss

    return refused


def upgrade_after(lines: int) -> int | None:
    """After how many calls an entry with so many lines of guards is upgraded; None for never."""
    if config.native_guards == "never" or not lines:
        return None
    if config.native_guards == "always":
        return 1
    return HITS


@dataclass
class Prologue:
    """The guards of an entry in the form that generated it, and how to compile other lines in their place."""

    parameters: list[str]
    lines: list[str]
    origins: dict[str, Source | Guard | ShapeGuard]
    graph_call: list[str]
    graph_function: str
    graph_inputs: list[str]
    body: list[str]
    compile: Callable[[list[str]], types.CodeType]
    symbol_sources: Mapping[Symbol, Source] = field(default_factory=dict)
    all_parameters: list[str] | None = None
    """Those of the entry as it is called, where it may call the entry that it was before."""

    def holds(self, namespace: dict[str, Any], args: tuple[Any, ...]) -> bool:
        """Whether the guards hold in Python now: another thread may have changed what they read a moment ago."""
        lines = ["try:", *(f"    {line}" for line in self.lines), REFUSAL, "return True"]
        defined: dict[str, Any] = {}
        exec("\n    ".join([f"def guards({', '.join(self.parameters)}):", *lines]), defined)
        return types.FunctionType(defined["guards"].__code__, namespace)(*args) is True


@dataclass
class Upgrade:
    """Counts the uses of one entry and changes its code in place, so that everyone who holds it sees the change."""

    prologue: Prologue | None
    namespace: dict[str, Any]
    remaining: int
    function: Any
    text: str = ""
    native: Callable[..., Any] | None = None
    kept_in_python: list[str] = field(default_factory=list)
    _python: types.CodeType | None = None
    _disturbed: int = 0

    def hit(self, *args: Any) -> None:
        """Called by the entry's Python path after its guards have held."""
        self.remaining -= 1
        if self.remaining > 0:
            return
        lock = compiling()
        if not lock.acquire(blocking=False):
            self.remaining = 1  # another thread compiles; the next call will do
            return
        try:
            with uninterrupted():
                self._change(args)
        finally:
            lock.release()

    def _change(self, args: tuple[Any, ...]) -> None:
        self.namespace["_fs_warm"] = None
        prologue, self.prologue = self.prologue, None
        if self.native is not None:
            # the checker keeps refusing, for instance because a dictionary now has other keys than strings
            assert self._python is not None
            self.function.__code__ = self._python
            return
        if prologue is None:
            return
        try:
            with collection_paused(), span("guards as machine code"), of_the_compiler():
                self._upgrade(prologue, args)
        except Exception as error:
            if config.raise_on_internal_error:
                raise
            log("guards", "guards stay in Python: %s: %s", type(error).__name__, error)

    def _upgrade(self, prologue: Prologue, args: tuple[Any, ...]) -> None:
        from ...native.checker import checker
        from ...native.objects import NativeUnavailable
        from .lowering import GuardLowering

        if torch_compat.torch_function_stack_length():
            return  # the entry is for calls inside of a mode, where reading a tensor's attributes runs Python
        try:
            program = checker()
        except NativeUnavailable as reason:
            log("guards", "guards stay in Python: %s", reason)
            return
        for _ in range(2):
            parts = split(GuardLowering(program, prologue.parameters, args, prologue.symbol_sources), prologue)
            if not parts.program.rows or len(parts.kept) >= len(prologue.lines):
                return
            native = program.function(parts.program, parts.inputs, parts.others)
            if native(*args) is not None:
                self._install(native, parts, prologue)
                return
            if not prologue.holds(self.namespace, args):  # no more, because of another thread
                self._disturbed += 1
                if self._disturbed <= MAX_DISTURBED:
                    self.prologue, self.remaining = prologue, AGAIN
                    self.namespace["_fs_warm"] = self.hit
                return
        if config.raise_on_internal_error:
            raise AssertionError("the native guards refuse arguments that the Python guards accept")

    def _install(self, native: Callable[..., Any], parts: Split, prologue: Prologue) -> None:
        lines = parts.entry(prologue)
        code = prologue.compile(lines)
        self.namespace["_fs_native"] = self.native = native
        self.namespace["_fs_warm"] = self.hit
        self.remaining = REFUSALS
        self.kept_in_python = parts.kept
        self.text = "\n".join(lines)
        self._python = self.function.__code__
        self.namespace["_fs_python"] = types.FunctionType(self._python, self.namespace)
        self.function.__code__ = code


@dataclass
class Split:
    """What the checker does, what it returns, and what stays Python."""

    program: Program
    inputs: list[int]
    others: list[int]
    names: list[str]
    kept: list[str]

    def entry(self, prologue: Prologue) -> list[str]:
        """The lines of the entry before its body."""
        arguments = ", ".join(prologue.parameters)
        lines = [f"_fs_found = _fs_native({arguments})"]
        if prologue.all_parameters is not None:
            lines.append(f"if _fs_found is None: return _fs_python({', '.join(prologue.all_parameters)})")
        else:
            lines += ["if _fs_found is None:", "    try:", *("        " + line for line in prologue.lines),
                      f"    {REFUSAL}", f"    if _fs_warm is not None: _fs_warm({arguments})"]
            if self.inputs:
                lines.append(f"    _fs_inputs = ({', '.join(prologue.graph_inputs)},)")
        other = []
        calls = prologue.graph_call
        if self.inputs:
            spelled = f"{prologue.graph_function}({', '.join(prologue.graph_inputs)})"
            calls = [line.replace(spelled, f"{prologue.graph_function}(*_fs_inputs)") for line in calls]
        if self.names:
            other.append(f"    {'_fs_inputs' if self.inputs else '_'}, {', '.join(self.names)} = _fs_found")
        elif self.inputs:
            other.append("    _fs_inputs = _fs_found")
        if self.kept:
            kept = ["        " + line for line in self.kept]
            other.extend(["    try:", *kept, f"    {REFUSAL}"])
        return [*lines, *(["else:", *other] if other else []), *calls]


def split(lowering: Any, prologue: Prologue) -> Split:
    """Lower what can be lowered. Every other line stays, in its place among those that stay."""
    from ...shapes import ShapeGuard
    from ...shapes.checker_rows import OnlyInPython
    from ..guards import Guard
    from ..source import SizeSource, StrideSource

    registers: dict[str, int] = {name: position for position, name in enumerate(prologue.parameters)}
    origins = [prologue.origins.get(line) for line in prologue.lines]
    kept: dict[int, str] = {}
    # Sizes are read off tensors that have been checked, wherever the lines stand.
    for position in sorted(range(len(origins)), key=lambda i: isinstance(
            origins[i], (SizeSource, StrideSource, ShapeGuard))):
        line, origin = prologue.lines[position], origins[position]
        try:
            if isinstance(origin, (Guard, ShapeGuard)):
                lowering.guard(origin)
            elif origin is not None:
                registers[line.partition(" = ")[0]] = lowering.source(origin)
            else:
                raise OnlyInPython
        except OnlyInPython:
            kept[position] = line
    kept_lines = [kept[position] for position in sorted(kept)]
    inputs = prologue.graph_inputs
    grouped = len(inputs) >= GROUPED_INPUTS and all(name in registers for name in inputs)
    texts = [*kept_lines, *prologue.body, *(() if grouped else prologue.graph_call)]
    if grouped:
        spelled = f"{prologue.graph_function}({', '.join(inputs)})"
        texts.extend(line.replace(spelled, "") for line in prologue.graph_call)
    needed = dict.fromkeys(name for text in texts for name in LOADED.findall(text))
    names = [name for name in needed if name in registers and name not in prologue.parameters]
    return Split(lowering.program, [registers[name] for name in inputs] if grouped else [],
                 [registers[name] for name in names], names, kept_lines)
