"""Checks that lowered graphs, kernels and plans are well formed; each raises `MalformedError` with the place.

What is checked: operands have the dtypes that operations want; symbols in indices are axes in scope, sizes, or stand
for values that are given; loads and stores name buffers that exist and hold the right dtype; locals are assigned before
they are read; nothing is read before it is written.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from ..functional.verify import MalformedError
from ..shapes import Expr, Symbol
from . import ir
from .ir import BufferRef, Computation, ExternCall, Kernel, Place, Statement, Value
from .operations import OPERATIONS
from .plan import Allocate, Free, KernelPlan, Launch, WriteBack

if TYPE_CHECKING:
    from .lowering.graph import LoweredGraph


def _require(condition: Any, message: str, *args: Any) -> None:
    if not condition:
        raise MalformedError(message.format(*args))


class _Scope:
    """What can be used at one place of a program."""

    def __init__(
        self,
        buffers: dict[str, torch.dtype],
        symbols: set[Symbol],
        numbers: set[Symbol] | None = None,
        inside_kernel: bool = False,
    ) -> None:
        self.buffers = buffers
        self.symbols = symbols
        self.numbers = numbers or set()
        self.locals: dict[str, torch.dtype] = {}
        self.inside_kernel = inside_kernel

    def inner(self, axes: Iterable[ir.Axis] = ()) -> _Scope:
        scope = _Scope(self.buffers, self.symbols | {axis.symbol for axis in axes}, self.numbers, self.inside_kernel)
        scope.locals = dict(self.locals)
        return scope

    def check_index(self, expr: Expr, extra: Iterable[Symbol] = ()) -> None:
        missing = expr.free_symbols - self.symbols - set(extra)
        _require(not missing, "{} uses {}, which nothing here defines", expr, sorted(s.name for s in missing))
        _require(expr.kind == "int", "{} is no index but a {}", expr, expr.kind)

    def check_place(self, place: Place, dtype: torch.dtype, args: tuple[Value, ...], what: str) -> None:
        _require(place.buffer in self.buffers, "{} of {}, which is not there or not filled", what, place.buffer)
        known = self.buffers[place.buffer]
        _require(known is dtype, "{} of {} as {}, but it holds {}", what, place.buffer, dtype, known)
        wanted = len(place.indirect) + place.masked
        _require(len(args) == wanted, "{} of {}: {} arguments", what, place.buffer, len(args))
        for symbol, value in zip(place.indirect, args, strict=False):
            _require(value.dtype is torch.int64, "{} stands for a {}", symbol.name, value.dtype)
        _require(not place.masked or args[-1].dtype is torch.bool, "the mask of {} is no bool", place.buffer)
        self.check_index(place.index, place.indirect)

    def check_value(self, value: Value) -> None:
        for node in value.walk():
            self._check_node(node)

    def _check_node(self, node: Value) -> None:
        match node.op:
            case "const":
                kind = bool if node.dtype is torch.bool else float if node.dtype.is_floating_point else int
                _require(type(node.data) is kind, "the constant {} of {}", node.data, node.dtype)
            case "index":
                _require(node.dtype is torch.int64, "an index of {}", node.dtype)
                self.check_index(node.data)
            case "number":
                _require(node.dtype is torch.float64, "a number of {}", node.dtype)
                missing = node.data.free_symbols - self.symbols - self.numbers
                _require(not missing, "the number {} is not given", node.data)
                _require(not self.inside_kernel or isinstance(node.data, Symbol), "{} is for the host", node.data)
            case "load":
                self.check_place(node.data, node.dtype, node.args, "a load")
            case "local":
                _require(node.data in self.locals, "{} is read before it is assigned", node.data)
                _require(self.locals[node.data] is node.dtype, "{} read as {}", node.data, node.dtype)
            case "cast":
                _require(len(node.args) == 1, "a cast of {} operands", len(node.args))
            case "bitcast":
                sizes = node.dtype.itemsize, node.args[0].dtype.itemsize
                _require(sizes[0] == sizes[1], "a bitcast of {} bytes to {}", sizes[1], sizes[0])
            case "checked":
                _require(len(node.args) == 2 and node.args[1].dtype is torch.bool, "a check of no bool")
                _require(node.dtype is node.args[0].dtype, "a {} checked as {}", node.args[0].dtype, node.dtype)
            case _:
                self._check_operation(node)

    def _check_operation(self, node: Value) -> None:
        operation = OPERATIONS.get(node.op)
        if operation is None:
            raise MalformedError(f"there is no operation {node.op}")
        _require(len(node.args) == operation.arity, "{} of {} operands", node.op, len(node.args))
        same = node.args[1:] if node.op == "where" else node.args
        _require(all(arg.dtype is same[0].dtype for arg in same), "{}: operands of several dtypes", node)
        _require(node.op != "where" or node.args[0].dtype is torch.bool, "{}: the condition is no bool", node)
        dtype = torch.bool if operation.is_test else same[0].dtype
        _require(node.dtype is dtype, "{} is a {}, not a {}", node.op, dtype, node.dtype)


def verify_computation(computation: Computation, buffers: dict[str, torch.dtype], symbols: set[Symbol]) -> None:
    """Check one computation among buffers that can be read and sizes that are known."""
    scope = _Scope(buffers, symbols | {axis.symbol for axis in (*computation.axes, *computation.reduce_axes)})
    for axis in (*computation.axes, *computation.reduce_axes):
        _Scope(buffers, symbols).check_index(axis.size)
    _require(bool(computation.reduce_axes) <= (computation.reduce is not None), "axes that nothing reduces")
    kinds = ir.REDUCTIONS | ir.SCANS
    _require(computation.reduce is None or computation.reduce in kinds, "no reduction {}", computation.reduce)
    _require(computation.mode in ir.STORE_MODES, "no mode {}", computation.mode)
    for value in computation.values():
        scope.check_value(value)
    stored = _Scope({**buffers, computation.buffer: computation.dtype}, scope.symbols)
    stored.check_place(computation.place, computation.dtype, computation.args, "a store")
    kept = computation.place.index.free_symbols & {axis.symbol for axis in computation.reduce_axes}
    _require(not kept or computation.reduce in ir.SCANS, "stores at {} of a reduction", computation.place.index)
    if computation.reduce is None:
        _require(computation.value.dtype is computation.dtype, "a {} stored as {}", computation.value.dtype,
                 computation.dtype)  # fmt: skip


def verify_lowered(graph: LoweredGraph) -> None:
    """Check a lowered graph: everything is written before it is read, and is what it is read as."""
    filled = {part.name: part.element for part in graph.inputs if isinstance(part, ir.Buffer)}
    filled.update({name: graph.buffers[name].element for name in graph.constants})
    symbols = {part for part in graph.inputs if isinstance(part, Symbol)} | set(graph.symbols)
    for operation in graph.operations:
        if isinstance(operation, Computation):
            _require(operation.buffer in graph.buffers, "{} is not declared", operation.buffer)
            declared = graph.buffers[operation.buffer].element
            _require(declared is operation.dtype, "{} is {}, filled as {}", operation.buffer, declared, operation.dtype)
            verify_computation(operation, filled, symbols)
            filled[operation.buffer] = declared
        else:
            _check_call(operation, filled)
            for name in operation.outputs:
                if name in graph.buffers:
                    filled[name] = graph.buffers[name].element
    for output in graph.outputs:
        _check_argument(output, filled, "the output")


def _check_call(call: ExternCall, filled: dict[str, torch.dtype]) -> None:
    read = [value for name, value in call.kwargs.items() if not (call.out and name == "out")]
    _check_argument([*call.args, *read], filled, str(call.target))


def _check_argument(arg: Any, filled: dict[str, torch.dtype], what: str) -> None:
    if isinstance(arg, BufferRef):
        _require(arg.buffer in filled, "{} reads {}, which has not been filled", what, arg.buffer)
        _require((arg.shape is None) == (arg.strides is None) == (arg.offset is None), "{}: half a view", arg)
    elif isinstance(arg, list | tuple):
        for part in arg:
            _check_argument(part, filled, what)


# ---------------------------------------------------------------------------------------------------------------------
# kernels and plans


def verify_kernel(kernel: Kernel) -> None:
    """Check a kernel by itself: its parameters are all that it uses."""
    names = [buffer.name for buffer in kernel.buffers]
    _require(len(set(names)) == len(names), "{}: a parameter twice", kernel.name)
    _require(kernel.writes <= set(names), "{}: writes what is no parameter", kernel.name)
    buffers = {buffer.name: buffer.dtype for buffer in kernel.buffers}
    buffers.update({scratch.name: scratch.dtype for scratch in kernel.scratch})
    scope = _Scope(buffers, set(kernel.sizes), set(kernel.numbers), inside_kernel=True)
    scratch = {part.name for part in kernel.scratch}
    try:
        _check_body(kernel.body, scope, kernel.writes | scratch)
    except MalformedError as error:
        raise MalformedError(f"{kernel.name}: {error}\n{kernel}") from None


def _check_body(body: Iterable[Statement], scope: _Scope, writable: Iterable[str]) -> None:
    for statement in body:
        match statement:
            case ir.Loop():
                scope.check_index(statement.axis.size)
                _require(statement.axis.symbol not in scope.symbols, "two loops over {}", statement.axis.symbol)
                _check_body(statement.body, scope.inner([statement.axis]), writable)
            case ir.Assign():
                scope.check_value(statement.value)
                scope.locals[statement.name] = statement.value.dtype
            case ir.Reduce():
                _require(statement.kind in ir.REDUCTIONS, "no reduction {}", statement.kind)
                scope.inner(statement.axes).check_value(statement.value)
                scope.locals[statement.name] = statement.dtype
            case ir.Scan():
                _require(statement.kind in ir.SCANS, "no scan {}", statement.kind)
                inner = scope.inner([statement.axis])
                inner.check_value(statement.value)
                inner.check_place(statement.place, statement.dtype, statement.args, "a scan")
            case ir.Store():
                for value in (statement.value, *statement.args):
                    scope.check_value(value)
                scope.check_place(statement.place, statement.value.dtype, statement.args, "a store")
                _require(statement.place.buffer in writable, "a store to {}", statement.place.buffer)
                _require(statement.mode in ir.STORE_MODES, "no mode {}", statement.mode)


def verify_plan(plan: KernelPlan) -> None:
    """Check a plan: kernels, that buffers live when they are used, and that launches fit their kernels."""
    alive = {part.name for part in plan.inputs if isinstance(part, ir.Buffer)} | set(plan.constants)
    checked: set[int] = set()
    for step in plan.steps:
        match step:
            case Allocate():
                alive.add(step.buffer.name)
            case Launch():
                if id(step.kernel) not in checked:
                    checked.add(id(step.kernel))
                    verify_kernel(step.kernel)
                _require(len(step.buffers) == len(step.kernel.buffers), "{}: buffers", step.kernel.name)
                _require(len(step.sizes) == len(step.kernel.sizes), "{}: sizes", step.kernel.name)
                _require(len(step.numbers) == len(step.kernel.numbers), "{}: numbers", step.kernel.name)
                for name in step.buffers:
                    _require(name in alive, "{} is launched with {}, which is not there", step.kernel.name, name)
            case ExternCall():
                _check_alive([*step.args, *step.kwargs.values()], alive, str(step.target))
                alive.update([name for name in step.outputs if name is not None])
            case Free():
                for name in step.buffers:
                    _require(name in alive, "{} is freed but not there", name)
                    alive.discard(name)
            case WriteBack():
                _check_alive([step.source, BufferRef(step.target)], alive, "write back")
    _check_alive(list(plan.outputs), alive, "the output")


def _check_alive(arg: Any, alive: set[str], what: str) -> None:
    if isinstance(arg, BufferRef):
        _require(arg.buffer in alive, "{} uses {}, which is not there", what, arg.buffer)
    elif isinstance(arg, list | tuple):
        for part in arg:
            _check_alive(part, alive, what)
