"""Statements as code: loops, vectorised or not, and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from ...shapes import Const, Expr, Symbol
from ..ir import Assign, Loop, Reduce, Scan, Statement, Store
from . import interleaving, operations, pairs, vectorising
from .operands import Operand, memory_type
from .values import ValueEmitter

LaneBody = Callable[[int], None]


class StatementEmitter(ValueEmitter):
    """Writes the statements of a kernel."""

    def run(self, body: Sequence[Statement]) -> None:
        position = 0
        while position < len(body):
            statement = body[position]
            if isinstance(statement, (Store, Assign)):
                position = self._straight(body, position)
                continue
            position += 1
            if isinstance(statement, Loop):
                self.emit_loop(statement)
            elif isinstance(statement, Reduce):
                self.emit_reduce(statement)
            else:
                assert isinstance(statement, Scan)
                self.emit_scan(statement)

    def _straight(self, body: Sequence[Statement], position: int) -> int:
        """A run of assignments and stores. All is read before anything is written: a buffer may be updated in place."""
        pending: list[tuple[Store, Operand, list[Operand]]] = []
        written: set[str] = set()
        while position < len(body):
            statement = body[position]
            if not isinstance(statement, (Store, Assign)):
                break
            if written and any(node.op == "load" and node.data.buffer in written
                               for value in vectorising.values(statement) for node in value.walk()):
                break
            if isinstance(statement, Assign):
                self.bind_local(statement.name, self.value(statement.value))
            else:
                if statement.mode != "set" and statement.place.buffer in written:
                    break
                args = [self.value(arg) for arg in statement.args]
                pending.append((statement, self.value(statement.value), args))
                written.add(statement.place.buffer)
            position += 1
        for statement, value, args in interleaving.store_together(self, pending):
            self._store(statement, value, args)
        if pending:
            self.scopes[-1].volatile.clear()
        return position

    def bind_local(self, name: str, operand: Operand) -> None:
        if name in self.locals:
            for scope in self.scopes:
                for table in (scope.found, scope.volatile):
                    stale = [key for key in table if key in self._names and name in self._names[key]]
                    for key in stale:
                        del table[key]
        self.locals[name] = operand
        self.levels[name] = operand.scope

    def _store(self, statement: Store, value: Operand, args: list[Operand]) -> None:
        place = statement.place
        if statement.mode != "set":
            from ..ir import Value

            dtype = self.dtypes[place.buffer]
            node = Value("load", dtype, statement.args, place)
            old = self.load(node, args)
            lanes = max(old.lanes, value.lanes)
            both = [self.splat(old, lanes), self.splat(value, lanes)]
            value = operations.emit(self, statement.mode, dtype, both)
        self.store(place, value, args)

    # What is written elsewhere, by functions that this class is given to

    def emit_reduce(self, statement: Reduce) -> None:
        """Bind a reduction to its name."""
        raise NotImplementedError

    def emit_scan(self, statement: Scan) -> None:
        """Run along the axis of a scan and store."""
        raise NotImplementedError

    def emit_in_blocks(self, loop: Loop) -> bool:
        """Write a loop nest tile by tile or several rows at a time; False where neither applies."""
        raise NotImplementedError

    # loops

    def size(self, expr: Expr) -> Operand:
        return self.index(expr)

    def emit_loop(self, loop: Loop) -> None:
        if constant_size(loop.axis.size) == 0:
            return  # what its body loads would be hoisted out of loops around it that do run
        zero = self.integer(0)
        if self.axis is None and self.emit_in_blocks(loop):
            return
        if self.axis is None and vectorising.vectorise_here(loop):
            self.vector_loop(loop.axis.symbol, zero, self.size(loop.axis.size), loop.body)
            return
        with self.counted(loop.axis.symbol, zero, self.size(loop.axis.size)):
            self.run(loop.body)

    @contextmanager
    def counted(self, symbol: Symbol, start: Operand, end: Operand, runs: bool = False) -> Iterator[None]:
        """A loop over a symbol, one iteration after the other."""
        runs = runs or _runs(start, end)
        with self.loop(start, end, 1, runs) as variable:
            self.bind(symbol, variable)
            yield
        self.symbols.pop(symbol, None)

    def vector_loop(self, symbol: Symbol, start: Operand, end: Operand, body: Sequence[Statement]) -> None:
        """A loop whose iterations are lanes: whole vectors first, then what is left under a mask."""
        lanes = vectorising.lanes_for(body, self.target.vector_bytes)
        lanes *= vectorising.registers(body)
        unroll = self.target.tuning.unroll or vectorising.unroll(body)
        paired = pairs.applies(body, symbol, self.dtypes)
        if paired:
            lanes *= 2
        if self.large is not None and unroll > 1:
            self.paired = paired
            start = self._streamed(symbol, start, end, lanes, unroll, body)
            self.paired = False
        self.lane_loop(symbol, start, end, lanes, unroll, lambda copy: self.run(body), paired)

    def _streamed(self, symbol: Symbol, start: Operand, end: Operand, lanes: int, unroll: int,
                  body: Sequence[Statement]) -> Operand:
        """Whole vectors past the cache, where results are too large to stay there. Returns where it got to.

        Such stores must be aligned, so that is looked at before.
        """
        stores = [statement for statement in body if isinstance(statement, Store)]
        self.axis, self.lanes = symbol, lanes
        ways = [None if store.mode != "set" or store.args else self.way(store.place.index, {}) for store in stores]
        self.axis, self.lanes = None, 1
        if not stores or len(stores) + sum(isinstance(s, Assign) for s in body) < len(body):
            return start
        condition = self.large
        assert condition is not None
        for store, way in zip(stores, ways, strict=True):
            width = self.dtypes[store.place.buffer].itemsize
            if way is None or way[0] != 1 or lanes * width % self.target.vector_bytes:
                return start
            first = self.raw(f"getelementptr {memory_type(self.dtypes[store.place.buffer])}, "
                             f"ptr {self.address(store.place.buffer, way[1])}, i64 {start.text}")
            number = self.instruction(f"ptrtoint ptr {first} to i64", torch.int64, 1)
            low = self.binary("and", number, self.integer(self.target.vector_bytes - 1))
            condition = self.binary("and", condition, self.compare("eq", low, self.integer(0)))
        whole = self.whole(start, end, lanes * unroll)
        with self.guard(condition):
            self.axis, self.lanes, self.stream = symbol, lanes, True
            with self.loop(start, whole, lanes * unroll) as variable:
                for copy in range(unroll):
                    self.copy(symbol, variable, copy, lambda copy: self.run(body))
            self.axis, self.lanes, self.stream = None, 1, False
            self.fence()
        return self.select(condition, whole, start)

    def fence(self) -> None:
        """After stores past the cache: other threads must find them."""
        if self.target.architecture == "x86_64":
            self.module.declare("llvm.x86.sse.sfence", "void", "")
            self.line("call void @llvm.x86.sse.sfence()")
        else:
            self.line("fence seq_cst")

    def lane_loop(self, symbol: Symbol, start: Operand, end: Operand, lanes: int, unroll: int,
                  emit: LaneBody, paired: bool = False) -> None:
        """Runs `emit` with `symbol` as the axis of the lanes. It is told which of `unroll` copies it writes."""
        known = _known(start, end)
        while unroll > 1 and known is not None and known < lanes * unroll:
            unroll //= 2
        if known is not None:
            while lanes > 2 and known <= lanes // 2:
                lanes //= 2
        step = lanes * unroll
        condition = None if _runs(start, end) else self.compare("slt", start, end)
        before = self.axis, self.lanes, self.mask
        with self.guard(condition):
            whole = self.whole(start, end, step)
            self.axis, self.lanes, self.mask = symbol, lanes, None
            if known is None or known >= step:
                self.paired = paired
                with self.loop(start, whole, step, known is not None) as variable:
                    for copy in range(unroll):
                        self.copy(symbol, variable, copy, emit)
                self.paired = False
            if known is None or known % step:
                with self.loop(whole, end, lanes, known is not None) as variable:
                    self.mask = self.remaining(variable, end, lanes)
                    self.copy(symbol, variable, 0, emit)
        self.axis, self.lanes, self.mask = before

    def whole(self, start: Operand, end: Operand, step: int) -> Operand:
        """Where whole steps end."""
        if start.is_constant and end.is_constant:
            first = int(start.text)
            return self.integer(first + (int(end.text) - first) // step * step)
        length = self.binary("sub", end, start)
        return self.binary("add", start, self.binary("and", length, self.integer(-step)))

    def copy(self, symbol: Symbol, variable: Operand, copy: int, emit: LaneBody) -> None:
        first = self.binary("add nsw", variable, self.integer(copy * self.lanes)) if copy else variable
        block = self.block
        self.push(block)
        first = Operand(first.text, torch.int64, 1, self.place)
        self.bind(symbol, first)
        emit(copy)
        self.pop(self.block)
        self.symbols.pop(symbol, None)

    def remaining(self, variable: Operand, end: Operand, lanes: int) -> Operand:
        """The lanes before the end."""
        left = self.binary("sub", end, variable)
        left = self.intrinsic("smin", left, self.integer(lanes))
        narrow = torch.int32 if lanes <= 16 else torch.int16 if lanes <= 32 else torch.int8
        count = self.convert("trunc", left, narrow)
        return self.compare("ult", self.iota(lanes, narrow), self.splat(count, lanes))


def _known(start: Operand, end: Operand) -> int | None:
    return int(end.text) - int(start.text) if start.is_constant and end.is_constant else None


def _runs(start: Operand, end: Operand) -> bool:
    known = _known(start, end)
    return known is not None and known > 0


def constant_size(expr: Expr) -> int | None:
    return int(expr.value) if isinstance(expr, Const) else None
