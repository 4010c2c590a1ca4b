"""Generation of a compiled entry as Python source: guards, loads, the graph call, side effects, and the way out.

    def entry(a, b):
        try:
            if not (type(a) is Tensor and a.shape == (10,) and ...): return MISS
            ...
        except Exception: return MISS
        (_fs_g0, _fs_g1) = graph(a, b)
        items.append(_fs_g0)
        return _fs_g1
"""

from __future__ import annotations

import ast
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .guards import Guard
from .source import LocalSource, Source, WeakClass
from .values.base import LazyValue, Value
from .values.constants import ConstantValue, NumberValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer


def parameter_name(variable: str) -> str:
    """A local variable's name as a parameter of the entry (comprehension arguments are called ``.0``)."""
    return variable if variable.isidentifier() else "_fs_local_" + "".join(c if c.isalnum() else "_" for c in variable)


class EntryCode:
    """Collects the lines of one entry."""

    def __init__(self, tx: Tracer, name: str, parameters: list[str]) -> None:
        self.tx = tx
        self.name = name
        self.parameters = parameters
        self.namespace: dict[str, Any] = {}
        self.prologue: list[str] = []
        self.body: list[str] = []
        self.body_lines: list[int | None] = []
        self.indent = ""
        self.user_line: int | None = None
        self._constants: dict[int, str] = {}
        self.guarded_classes: dict[int, weakref.ref[type]] = {}
        self._sources: dict[Source, str] = {}
        self._values: dict[int, str] = {}
        self._kept: list[Any] = []
        self.outputs: list[Any] = []
        self._output_names: dict[Any, str] = {}
        self._count = 0

    # Names

    def constant(self, obj: Any) -> str:
        """Bind an object into the entry."""
        name = self._constants.get(id(obj))
        if name is None:
            name = f"_fs_k{len(self._constants)}"
            self.namespace[name] = obj
            weak = self.guarded_classes.get(id(obj))
            if weak is not None:
                # alive whenever the guards hold; a compiled entry must not be what keeps it alive
                self.namespace[name] = weak
                name += "()"
            self._constants[id(obj)] = name
        return name

    def source(self, source: Source) -> str:
        """The variable that holds what a source leads to; loaded before the graph runs."""
        name = self._sources.get(source)
        if name is not None:
            return name
        if isinstance(source, LocalSource):
            return source.variable
        base = self.source(source.base) if source.base is not None else ""
        text = source.code(base, self.constant)
        if text == base or (source.base is None and text.isidentifier()):
            return text
        name = f"_fs_s{len(self._sources)}"
        self._sources[source] = name
        self.prologue.append(f"{name} = {text}")
        return name

    def fresh(self, expression: str) -> str:
        name = f"_fs_v{self._count}"
        self._count += 1
        self.line(f"{name} = {expression}")
        return name

    def assign(self, value: Value, expression: str) -> str:
        """Name an object that is being built, so that all its users share it."""
        name = self.fresh(expression)
        self._values[id(value)] = name
        self._kept.append(value)
        return name

    def line(self, text: str) -> None:
        self.body.append(self.indent + text)
        self.body_lines.append(self.user_line)

    # Values

    def value(self, value: Value) -> str:
        """An expression for a value; objects made inside are built on first use."""
        if isinstance(value, LazyValue):
            if value.known is None:
                assert value.source is not None
                return self.source(value.source)
            value = value.known
        if isinstance(value, ConstantValue):
            return value.emit(self)
        known = self._values.get(id(value))
        if known is not None:
            return known
        if value.source is not None:
            return self.source(value.source)
        return value.emit(self)

    def graph_output(self, value: TensorValue) -> str:
        name = self._output_names.get(value.node)
        if name is None:
            name = f"_fs_g{len(self.outputs)}"
            self._output_names[value.node] = name
            self.outputs.append(value.node)
        return name

    def number(self, value: NumberValue) -> str:
        """A number computed from inputs: recomputed in Python."""
        if isinstance(value.node, tuple):
            function, operands = value.node
            parts = ", ".join(self.value(operand) for operand in operands)
            return self.assign(value, f"{self.constant(function)}({parts})")
        return self.assign(value, self.expression(value.expr))

    def expression(self, expr: Any) -> str:
        """A shape expression over the entry's inputs, as Python code."""
        from .. import shapes

        names = {symbol: self.source(self.tx.number_sources[symbol]) for symbol in expr.free_symbols}
        return shapes.print_python(expr, names)

    def generator_in_progress(self, frame: Frame) -> str:
        """An expression that makes a real generator which continues where the symbolic one stands."""
        from .bytecode.continuation import make_continuation
        from .bytecode.frame_state import cells_at
        from .bytecode.liveness import live_locals
        from .values.constants import NullValue

        decoded = frame.decoded
        # the sent value, None, is what the first next() of the rebuilt generator delivers to the yield
        stack = [*frame.stack, ConstantValue(None)]
        cells = cells_at(decoded, frame.index)
        live = live_locals(decoded, frame.index)
        names = [n for n in frame.locals if n in live] + [n for n in frame.cells if n in cells]
        nulls = frozenset(i for i, v in enumerate(stack) if isinstance(v, NullValue))
        made = make_continuation(frame.code, frame.index, names, len(stack), null_slots=nulls)
        arguments = [self.value(v) for v in stack]
        arguments.extend(self.value(frame.cells[n] if n in cells else frame.locals[n]) for n in names)
        closure = [self.value(frame.cells[n]) for n in frame.code.co_freevars]
        closure_text = f"({', '.join(closure)},)" if closure else "None"
        function = self.constant(types.FunctionType)
        return (f"{function}({self.constant(made)}, {self.constant(frame.globals)}, {frame.code.co_name!r}, None, "
                f"{closure_text})({', '.join(arguments)})")

    # Assembly

    def guards(self, guards: list[Guard]) -> None:
        for guard in guards:
            if guard.kind in ("type", "identity", "tensor"):
                for obj in guard.constants:
                    if type(obj) is WeakClass:
                        self.guarded_classes[id(obj.ref())] = obj.ref
        for guard in guards:
            condition = guard.code(self.source, self.constant)
            self.prologue.append(f"if not ({condition}): return _fs_miss")

    def build(self, graph_call: list[str], miss: Any, filename: str, user_code: types.CodeType | None) -> Callable[..., Any]:
        """Compile the entry. With `user_code` the lines of the body carry the user's line numbers and file."""
        header = [f"def {self.name}({', '.join(self.parameters)}):"]
        lines = [*header]
        marks: list[int | None] = [None]
        if self.prologue:
            lines.append("    try:")
            lines.extend("        " + text for text in self.prologue)
            lines.append("    except Exception: return _fs_miss")
        for text in graph_call:
            lines.append("    " + text)
        marks.extend([None] * (len(lines) - 1))
        lines.extend("    " + text for text in self.body)
        marks.extend(self.body_lines)
        self.namespace["_fs_miss"] = miss
        text = "\n".join(lines) + "\n"
        self.text = text
        if user_code is None:
            code = compile(text, filename, "exec", dont_inherit=True)
        else:
            tree = ast.parse(text)
            function = tree.body[0]
            for node in ast.walk(function):
                line = getattr(node, "lineno", None)
                if line is not None:
                    where = marks[line - 1] if line - 1 < len(marks) else None
                    node.lineno = where or user_code.co_firstlineno  # type: ignore[attr-defined]
                    node.end_lineno = node.lineno  # type: ignore[attr-defined]
            code = compile(tree, user_code.co_filename, "exec", dont_inherit=True)
        exec(code, self.namespace)
        made = self.namespace[self.name]
        if user_code is not None:
            made.__code__ = made.__code__.replace(co_name=user_code.co_name, co_qualname=user_code.co_qualname)
        return made

