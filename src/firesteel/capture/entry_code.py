"""Generation of a compiled entry as Python source: guards, loads, the graph call, side effects, and the way out.

    def entry(a, b):
        try:
            if not (type(a) is Tensor and a.shape == (10,) and ...): return MISS
            ...
        except Exception as error: return refused(error)
        (_fs_g0, _fs_g1) = graph(a, b)
        items.append(_fs_g0)
        return _fs_g1
"""

from __future__ import annotations

import contextlib
import enum
import math
import re
import types
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from ..shapes import ShapeGuard
from ..shapes.symnode import make_symbolic
from .bytecode.line_table import with_lines
from .guards import Guard
from .native_guards.upgrade import REFUSAL, Prologue, Upgrade, refusal, upgrade_after
from .replaced_builtins import ORIGINAL
from .source import DrawnSource, LocalSource, Source, WeakConstant
from .values.base import LazyValue, Value
from .values.constants import ConstantValue, NumberValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer


# Names that generated code uses.
_NAMES_USED = frozenset({
    "abs", "dict", "enumerate", "Exception", "BaseException", "filter", "float", "frozenset", "hasattr", "id", "int",
    "isinstance", "iter", "len", "list", "map", "math", "max", "min", "next", "object", "range", "repr", "reversed",
    "round", "set", "slice", "tuple", "type", "zip",
})


def parameter_name(variable: str) -> str:
    """A local variable's name as a parameter of the entry (comprehension arguments are called ``.0``).

    A variable must not hide what the entry's own code uses.
    """
    if variable.isidentifier() and variable not in _NAMES_USED:
        return variable
    return "_fs_local_" + "".join(c if c.isalnum() else "_" for c in variable)


def suspended(generator: Any) -> Any:
    """A generator after its first yield."""
    next(generator)
    return generator


_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r" *(_fs_\w+) = ")


class EntryCode:
    """Collects the lines of one entry."""

    def __init__(self, tx: Tracer, name: str, parameters: list[str], holds_list: bool = False) -> None:
        self.tx = tx
        # of a continuation: its arguments come in a list as well, which is cleared when the guards hold
        self.holds_list = holds_list
        self.name = name
        self.parameters = parameters
        # C code that imports looks for its builtins in the globals of the running frame
        self.namespace: dict[str, Any] = {"__builtins__": ORIGINAL, "math": math}
        self.prologue: list[str] = []
        self.origins: dict[str, Source | Guard | ShapeGuard] = {}
        self.graph_function = ""
        self.graph_inputs: list[str] = []
        self.upgrade: Upgrade | None = None
        self.body: list[str] = []
        self.body_lines: list[int | None] = []
        self.indent = ""
        self.user_line: int | None = None
        self._constants: dict[int, str] = {}
        self.guarded_classes: dict[int, weakref.ref[Any]] = {}
        self._sources: dict[Source, str] = {}
        self._values: dict[int, str] = {}
        self._kept: list[Any] = []
        self.outputs: list[Any] = []
        self.untouched: dict[Source, LazyValue] = {}
        """What the program returns or keeps and has not looked at."""
        self._output_names: dict[Any, str] = {}
        self._count = 0

    # Names

    def constant(self, obj: Any) -> str:
        """Bind an object into the entry."""
        name = self._constants.get(id(obj))
        if name is None:
            if isinstance(obj, type) and obj in self.tx.made_classes:
                return self.tx.made_classes.emit(self, obj)
            if isinstance(obj, enum.Enum) and type(obj) in self.tx.made_classes:
                named = obj.name in type(obj).__members__  # flags may have none
                cls = self.constant(type(obj))
                return f"{cls}[{obj.name!r}]" if named else f"{cls}({self.constant(obj.value)})"
            stands_for = self.tx.made_classes.stand_ins.get(id(obj))
            if stands_for is not None:
                return self.value(stands_for)
            if isinstance(obj, enum.Enum) and id(type(obj)) in self.guarded_classes and \
                    not type(obj).__weakrefoffset__:
                # a member that is a number, which no weak reference can refer to
                name = f"{self.constant(type(obj))}._value2member_map_[{self.constant(obj.value)}]"
                self._constants[id(obj)] = name
                return name
            name = f"_fs_k{len(self._constants)}"
            self.namespace[name] = obj
            weak = self.guarded_classes.get(id(obj))
            if weak is None and isinstance(obj, enum.Enum) and id(type(obj)) in self.guarded_classes:
                weak = weakref.ref(obj)
            if weak is not None:
                # alive whenever the guards hold; a compiled entry must not be what keeps it alive
                self.namespace[name] = weak
                name += "()"
            self._constants[id(obj)] = name
        return name

    def name_constant(self, obj: Any, name: str) -> None:
        """Have a variable stand for an object that capture has in its place."""
        self._constants[id(obj)] = name

    def source(self, source: Source) -> str:
        """The variable that holds what a source leads to; loaded before the graph runs."""
        name = self._sources.get(source)
        if name is not None:
            return name
        if isinstance(source, (LocalSource, DrawnSource)):
            return source.variable
        base = self.source(source.base) if source.base is not None else ""
        text = source.code(base, self.constant)
        if self.tx.made_classes.own(source):  # there is none before the body of the entry makes it
            return self.fresh(text)
        if text == base or (source.base is None and text.isidentifier()):
            return text
        name = f"_fs_s{len(self._sources)}"
        self._sources[source] = name
        line = f"{name} = {text}"
        self.prologue.append(line)
        self.origins[line] = source
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

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """What is added inside stands indented below a line."""
        self.line(header)
        self.indent += "    "
        yield
        self.indent = self.indent[:-4]

    def let_go(self, begin: int, indent: str, kept: list[str]) -> None:
        """Before the line of the body at `begin`, drop everything but `kept` that no later line needs: the step that
        begins there runs the user's code, which may notice that an object lives on."""
        needed = set(_NAME.findall("\n".join([*self.body[begin:], *kept])))
        assigned = [match[1] for line in (*self.prologue, *self.body[:begin]) if (match := _ASSIGNMENT.match(line))]
        results = [f"_fs_g{position}" for position in range(len(self.outputs))]
        names = dict.fromkeys([*self.parameters, "_fs_inputs", "_fs_found", *results, *assigned])
        dead = [name for name in names if name not in needed and name != "_fs_closure"]
        self.body.insert(begin, f"{indent}{' = '.join(dead)} = None")
        self.body_lines.insert(begin, self.body_lines[begin] if begin < len(self.body_lines) else self.user_line)

    # Values

    def value(self, value: Value) -> str:
        """An expression for a value; objects made inside are built on first use."""
        if isinstance(value, LazyValue):
            if value.known is None:
                assert value.source is not None
                self.untouched[value.source] = value
                return self.source(value.source)
            value = value.known
        if isinstance(value, ConstantValue) and not value.is_distinct():
            return value.emit(self)
        known = self._values.get(id(value))
        if known is not None:
            return known
        if value.source is not None:
            if isinstance(value, TensorValue):
                self.tx.graph.note_result(value.fake)
            return self.source(value.source)
        return value.emit(self)

    def is_built(self, value: Value) -> bool:
        """Whether the entry builds this object."""
        return id(value) in self._values

    def graph_output(self, value: TensorValue) -> str:
        return self.node_output(value.node)

    def node_output(self, node: Any) -> str:
        """The variable that holds the value of a node after the graph has run."""
        name = self._output_names.get(node)
        if name is None:
            name = f"_fs_g{len(self.outputs)}"
            self._output_names[node] = name
            self.outputs.append(node)
        return name

    def number(self, value: NumberValue) -> str:
        """A number computed from inputs: recomputed in Python. One that depends on data comes out of the graph."""
        if any(symbol not in self.tx.symbols.sources for symbol in value.expr.free_symbols):
            return self.node_output(self.tx.number_nodes.of(value))
        if self.tx.compiler.keeps_symbols:
            return self.constant(make_symbolic(self.tx.shape_env, value.expr))
        if isinstance(value.node, tuple):
            function, operands = value.node
            parts = ", ".join(self.value(operand) for operand in operands)
            return self.assign(value, f"{self.constant(function)}({parts})")
        return self.assign(value, self.expression(value.expr))

    def expression(self, expr: Any) -> str:
        """A shape expression over the entry's inputs, as Python code."""
        from .. import shapes

        names = {symbol: self.source(self.tx.symbols.sources[symbol]) for symbol in expr.free_symbols}
        return shapes.print_python(expr, names)

    def shape_guards(self, guards: list[ShapeGuard]) -> None:
        """Check conditions on sizes and numbers."""
        for guard in guards:
            line = f"if not ({self.expression(guard.expr)}): return _fs_miss"
            self.origins[line] = guard
            self.prologue.append(line)

    def called_back(self, function: Value) -> str:
        """An expression for a function that an iterator calls: behind a break through the dispatcher."""
        text = self.value(function)
        compiler = self.tx.compiler
        if self.user_line is None or compiler.fullgraph or function.is_constant() and function.as_constant() is None:
            return text
        return f"{self.constant(compiler.nested)}({text})"

    def generator_in_progress(self, frame: Frame) -> str:
        """An expression that makes a real generator which continues where the symbolic one stands."""
        if self.user_line is not None and not self.tx.compiler.fullgraph:
            from .yields import emit_generator

            return emit_generator(self, frame)
        from .bytecode.continuation import make_continuation
        from .bytecode.frame_state import cells_at
        from .bytecode.liveness import live_locals
        from .values.constants import NullValue

        decoded = frame.decoded
        # It starts at the yield where the symbolic one stands. The first next() brings it there, so that send, throw
        # and close find it suspended; what it yields then has been consumed already.
        index = frame.index - 1
        stack = [*frame.stack, ConstantValue(None)]
        cells = cells_at(decoded, index)
        live = live_locals(decoded, index)
        names = [n for n in frame.locals if n in live] + [n for n in frame.cells if n in cells]
        nulls = frozenset(i for i, v in enumerate(stack) if isinstance(v, NullValue))
        continuation = make_continuation(frame.code, index, names, len(stack), null_slots=nulls)
        arguments = [self.value(v) for v in stack]
        arguments.extend(self.value(frame.cells[n] if n in cells else frame.locals[n]) for n in names)
        closure = [self.value(frame.cells[n]) for n in frame.code.co_freevars]
        closure_text = f"({', '.join(closure)},)" if closure else "None"
        function = self.constant(types.FunctionType)
        generator = (f"{function}({self.constant(continuation)}, {self.constant(frame.globals)}, "
                     f"{frame.code.co_name!r}, None, {closure_text})({', '.join(arguments)})")
        return f"{self.constant(suspended)}({generator})"

    # Assembly

    def guards(self, guards: list[Guard]) -> None:
        for guard in guards:
            if guard.kind in ("type", "identity", "tensor"):
                for obj in guard.constants:
                    if type(obj) is WeakConstant:
                        alive = obj.ref()
                        self.guarded_classes[id(alive)] = obj.ref
                        if isinstance(alive, enum.Enum):  # a class lives as long as its members
                            self.guarded_classes.setdefault(id(type(alive)), weakref.ref(type(alive)))
        self.prologue.extend(self.guard_line(guard) for guard in guards)

    def guard_line(self, guard: Guard) -> str:
        """The line that checks a guard."""
        line = f"if not ({guard.code(self.source, self.constant)}): return _fs_miss"
        self.origins[line] = guard
        return line

    def build(
        self, graph_call: list[str], miss: Any, filename: str, user_code: types.CodeType | None
    ) -> Callable[..., Any]:
        """Compile the entry. With `user_code` the lines of the body carry the user's line numbers and file."""
        lines: list[str] = []
        if self.prologue:
            lines = ["try:", *("    " + text for text in self.prologue), REFUSAL]
        hits = upgrade_after(len(self.prologue))
        if hits is not None:
            lines.append(f"if _fs_warm is not None: _fs_warm({', '.join(self.parameters)})")
        parameters = self.parameters
        if self.holds_list:
            parameters = [*parameters, "_fs_held"]
            graph_call = ["_fs_held.clear()", *graph_call]
        compile_lines = _Compiler(self.name, parameters, self.body, self.body_lines, filename, user_code)
        self.text, code = compile_lines.text_and_code([*lines, *graph_call])
        self.namespace["_fs_miss"] = miss
        self.namespace["_fs_refused"] = refusal(miss)
        entry = types.FunctionType(code, self.namespace)
        if hits is not None:
            prologue = Prologue(self.parameters, self.prologue, self.origins, graph_call, self.graph_function,
                                self.graph_inputs, self.body, compile_lines, dict(self.tx.symbols.sources),
                                parameters if user_code is None and not self.holds_list else None)
            self.upgrade = Upgrade(prologue, self.namespace, hits, entry)
            self.namespace["_fs_warm"] = self.upgrade.hit
        return entry


@dataclass
class _Compiler:
    """Compiles an entry from the lines before its body."""

    name: str
    parameters: list[str]
    body: list[str]
    body_lines: list[int | None]
    filename: str
    user_code: types.CodeType | None

    def __call__(self, lines: list[str]) -> types.CodeType:
        return self.text_and_code(lines)[1]

    def text_and_code(self, lines: list[str]) -> tuple[str, types.CodeType]:
        user_code = self.user_code
        header = f"def {self.name}({', '.join(self.parameters)}):"
        text = "\n".join([header, *("    " + line for line in lines), *("    " + line for line in self.body)]) + "\n"
        if user_code is None:
            return text, _function_code(compile(text, self.filename, "exec", dont_inherit=True))
        first = user_code.co_firstlineno
        marks = [first] * (1 + len(lines)) + [mark or first for mark in self.body_lines]
        code = _function_code(compile(text, self.filename, "exec", dont_inherit=True))
        code = with_lines(code, marks, user_code.co_filename)
        return text, code.replace(co_name=user_code.co_name, co_qualname=user_code.co_qualname)


def _function_code(module: types.CodeType) -> types.CodeType:
    return next(constant for constant in module.co_consts if isinstance(constant, types.CodeType))
