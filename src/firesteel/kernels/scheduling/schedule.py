"""The whole of scheduling, from a lowered graph to a kernel plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Any

from ... import logs, shapes
from ...shapes import Expr, Symbol
from .. import ir
from ..ir import Buffer, BufferRef, ExternCall, Kernel, Value
from ..plan import KernelPlan, Launch
from .checks import checks_between_calls
from .fusion import Node, accesses, fuse, written
from .groups import Group, Member, origins
from .indices import AxisPool, substitute
from .machines import CPU, Machine
from .memory import place_buffers
from .nests import Nest, NestBuilder
from .pieces import Binding, Recipe, collapse, cut, recipe_of
from .splitting import NO_HINTS, split_reductions
from .values import rewrite

if TYPE_CHECKING:
    from ..lowering.graph import LoweredGraph


def schedule(graph: LoweredGraph, machine: Machine = CPU, apart: Collection[Any] = (),
             hints: Mapping[Symbol, int] = NO_HINTS) -> KernelPlan:
    """Fuse the computations of a graph into kernels and plan its memory.

    ``apart``: nodes of the graph whose computations are not fused with others. ``hints``: what symbols are now, for
    choices that are right for all sizes but not equally good.
    """
    return _Scheduler(graph, machine, frozenset(apart), hints).run()


class _Scheduler:
    def __init__(self, graph: LoweredGraph, machine: Machine, apart: frozenset[Any],
                 hints: Mapping[Symbol, int]) -> None:
        self.graph = graph
        self.machine = machine
        self.apart = apart
        self.hints = hints
        self.pool = AxisPool(graph.facts.copy(), graph.size_facts)
        self.buffers = dict(graph.buffers)
        self.kernels: dict[Recipe, Kernel] = {}
        self.outputs = frozenset([output.buffer for output in graph.outputs if isinstance(output, BufferRef)])

    def run(self) -> KernelPlan:
        operations = split_reductions(self.graph.operations, self.buffers, self.pool.facts, self.machine, self.hints)
        given = frozenset([item.name for item in self.graph.inputs if isinstance(item, Buffer)])
        given |= frozenset(self.graph.constants)
        # Sizes that a call's result has only when it is there: whoever uses them runs after it.
        late = {symbol: name for symbol, (name, _, _) in self.graph.symbols.items() if name not in given}
        nodes = fuse(operations, self.pool, late, self.machine, self.apart)
        readers: dict[str, set[int]] = {}
        writers: dict[str, int] = {}
        for number, node in enumerate(nodes):
            for name in _reads(node):
                readers.setdefault(name, set()).add(number)
        for operation in operations:
            for name in written(operation):
                writers[name] = writers.get(name, 0) + 1
        steps: list[Launch | ExternCall] = []
        for number, node in enumerate(nodes):
            if isinstance(node.content, ExternCall):
                steps.append(node.content)
                continue

            def is_external(member: Member, number: int = number) -> bool:
                name = member.buffer
                return name in self.outputs or writers[name] > 1 or bool(readers.get(name, set()) - {number})

            steps.append(self._launch(node.content, is_external))
        steps = checks_between_calls(steps, late)
        placed = place_buffers(steps, self.buffers, self.outputs, given)
        used = {name for step in steps for name in _names(step)} | self.outputs | given
        return KernelPlan(
            list(self.graph.inputs), dict(self.graph.symbols), placed, list(self.graph.outputs),
            {name: buffer for name, buffer in self.buffers.items() if name in used}, dict(self.graph.constants),
        )  # fmt: skip

    def _launch(self, group: Group, is_external: Any) -> Launch:
        recipe, binding = recipe_of(group, self.buffers, is_external, self.pool)
        kernel = self.kernels.get(recipe)
        if kernel is None:
            whole = recipe if self.machine.in_blocks else cut(recipe, self.pool)
            nest = NestBuilder(collapse(whole, self.pool), self.pool, self.machine).build()
            kernel = self._kernel(f"k{len(self.kernels)}", nest, group, binding)
            self.kernels[recipe] = kernel
            logs.log("kernels", "%s", kernel) if logs.enabled("kernels") else None
        names = tuple([binding.buffers[buffer.name] for buffer in kernel.buffers])
        numbers = tuple([binding.numbers[symbol] for symbol in kernel.numbers])
        return Launch(kernel, names, tuple(kernel.sizes), numbers, origins(group))

    def _kernel(self, name: str, nest: Nest, group: Group, binding: Binding) -> Kernel:
        body = _Renamer(self.pool).statements(nest.body)
        kernel = Kernel(name, [], [], body, nest.scratch, origins=origins(group))
        use = _Use(kernel)
        for parameter, actual in binding.buffers.items():
            if parameter in use.buffers:
                kind = "output" if parameter in use.written else "input"
                kernel.buffers.append(self.buffers[actual].as_parameter(parameter, kind))
        kernel.writes = frozenset(use.written)
        kernel.sizes = sorted(use.sizes, key=lambda symbol: symbol.name)
        kernel.signed = frozenset([size for size in kernel.sizes if not self._is_natural(size)])
        kernel.numbers = sorted(use.numbers, key=lambda symbol: symbol.name)
        # What a block of lanes does not keep of a row is computed again, later than the statement that made it.
        kernel.in_place = frozenset() if self.machine.in_blocks and nest.scratch else _in_place(use, nest)
        return kernel


    def _is_natural(self, parameter: Symbol) -> bool:
        """Whether a parameter is never negative."""
        origin = self.graph.symbols.get(parameter)
        return (origin is not None and origin[1] != "number") or self.pool.facts.interval(parameter).lower >= 0


def _reads(node: Node) -> Set[str]:
    return node.content.read if isinstance(node.content, Group) else set(accesses(node.content)[0])


def _names(step: Launch | ExternCall) -> list[str]:
    if isinstance(step, Launch):
        return list(step.buffers)
    reads, writes = accesses(step)
    return reads + writes


class _Renamer:
    """Gives the loop variables of a kernel the names i0, i1 and so on, in the order in which they appear."""

    def __init__(self, pool: AxisPool) -> None:
        self.pool = pool
        self.names: dict[Symbol, Expr] = {}
        self.memo: dict[Value, Value] = {}

    def axis(self, axis: ir.Axis) -> ir.Axis:
        name = self.names.get(axis.symbol)
        if name is None:
            name = self.names[axis.symbol] = shapes.symbol(f"i{len(self.names)}")
            self.memo.clear()
        assert isinstance(name, Symbol)
        return ir.Axis(name, substitute(axis.size, self.names))

    def value(self, value: Value) -> Value:
        return rewrite(value, self.names, self.memo)

    def place(self, place: ir.Place) -> ir.Place:
        return ir.Place(place.buffer, substitute(place.index, self.names), place.indirect, place.masked)

    def statements(self, body: list[ir.Statement]) -> list[ir.Statement]:
        return [self.statement(statement) for statement in body]

    def statement(self, statement: ir.Statement) -> ir.Statement:
        match statement:
            case ir.Loop():
                axis = self.axis(statement.axis)
                return ir.Loop(axis, self.statements(statement.body), statement.parallel, statement.tile)
            case ir.Assign():
                return ir.Assign(statement.name, self.value(statement.value))
            case ir.Reduce():
                axes = tuple([self.axis(axis) for axis in statement.axes])
                return ir.Reduce(statement.name, statement.kind, axes, self.value(statement.value), statement.dtype)
            case ir.Scan():
                axis = self.axis(statement.axis)
                args = tuple([self.value(arg) for arg in statement.args])
                value, place = self.value(statement.value), self.place(statement.place)
                return ir.Scan(statement.kind, axis, value, place, statement.dtype, args)
            case ir.Store():
                args = tuple([self.value(arg) for arg in statement.args])
                return ir.Store(self.place(statement.place), self.value(statement.value), args, statement.mode)


class _Use:
    """What a kernel refers to."""

    def __init__(self, kernel: Kernel) -> None:
        self.scratch = {scratch.name for scratch in kernel.scratch}
        self.buffers: set[str] = set()
        self.written: set[str] = set()
        self.sizes: set[Symbol] = set()
        self.numbers: set[Symbol] = set()
        self.loads: dict[str, list[tuple[Expr, int]]] = {}
        self.stores: dict[str, list[tuple[Expr, int, str]]] = {}
        self._axes: set[Symbol] = set()
        self._order = 0
        self._visit(kernel.body)
        for scratch in kernel.scratch:
            self._expr(scratch.size)
        self.sizes -= self._axes

    def _expr(self, expr: Expr, without: tuple[Symbol, ...] = ()) -> None:
        self.sizes.update(symbol for symbol in expr.free_symbols if symbol not in without)

    def _value(self, value: Value) -> None:
        for node in value.walk():
            if node.op == "load":
                self._expr(node.data.index, node.data.indirect)
                if node.data.buffer not in self.scratch:
                    self.buffers.add(node.data.buffer)
                    self.loads.setdefault(node.data.buffer, []).append((node.data.index, self._order))
            elif node.op == "index":
                self._expr(node.data)
            elif node.op == "number":
                self.numbers.update(node.data.free_symbols)

    def _axis(self, axis: ir.Axis) -> None:
        self._axes.add(axis.symbol)
        self._expr(axis.size)

    def _place(self, place: ir.Place, mode: str) -> None:
        self._expr(place.index, place.indirect)
        if place.buffer not in self.scratch:
            self.buffers.add(place.buffer)
            self.written.add(place.buffer)
            self.stores.setdefault(place.buffer, []).append((place.index, self._order, mode))

    def _visit(self, body: list[ir.Statement]) -> None:
        for statement in body:
            if isinstance(statement, ir.Loop):
                self._axis(statement.axis)
                self._visit(statement.body)
                continue
            self._order += 1
            if isinstance(statement, ir.Reduce):
                for axis in statement.axes:
                    self._axis(axis)
            if isinstance(statement, ir.Scan):
                self._axis(statement.axis)
            self._value(statement.value)
            if isinstance(statement, ir.Store | ir.Scan):
                for arg in statement.args:
                    self._value(arg)
                plain = isinstance(statement, ir.Store) and not statement.args
                self._place(statement.place, statement.mode if plain and isinstance(statement, ir.Store) else "other")


def _in_place(use: _Use, nest: Nest) -> frozenset[tuple[str, str]]:
    """Written parameters that may lie where a read one does: every element of that is read before it is overwritten.

    The reads must all be at the index of the store, and in statements no later than the store. Loops of a row run one
    after the other, so an earlier statement is through with the row, or at the same point.
    """
    buffers = set()
    for target, stores in use.stores.items():
        if len(stores) != 1 or stores[0][2] != "set":
            continue
        index, order, _ = stores[0]
        for read, loads in use.loads.items():
            if read in use.written:
                continue
            if all(at is index and when <= order for at, when in loads):
                buffers.add((target, read))
    return frozenset(buffers)
