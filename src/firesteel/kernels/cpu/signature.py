"""What a kernel does as one text, the same for equal kernels whatever their names are.

Two kernels that differ only in the names of buffers, loop variables and locals have the same signature and share their
machine code. The text is for comparing, not for reading; `Kernel` prints itself for people.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...shapes import Call, Const, Expr, Product, Sum, Symbol
from ..ir import Assign, Axis, Kernel, Loop, Place, Reduce, Scan, Statement, Store, Value


def signature(kernel: Kernel) -> str:
    """The text of a kernel without names."""
    return _Writer(kernel).text()


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.parts: list[str] = []
        self.symbols: dict[Symbol, str] = {
            symbol: f"{'n' if symbol in kernel.signed else 's'}{n}" for n, symbol in enumerate(kernel.sizes)}
        self.symbols.update({symbol: f"f{n}" for n, symbol in enumerate(kernel.numbers)})
        self.buffers = {buffer.name: f"b{n}" for n, buffer in enumerate(kernel.buffers)}
        self.buffers.update({scratch.name: f"t{n}" for n, scratch in enumerate(kernel.scratch)})
        self.locals: dict[str, str] = {}
        self.exprs: dict[Expr, str] = {}
        self.values: dict[Value, int] = {}

    def text(self) -> str:
        kernel = self.kernel
        for buffer in kernel.buffers:
            # How much is written decides how it is stored.
            written = buffer.name in kernel.writes
            self.parts.append(f"{buffer.dtype} {[self.expr(size) for size in buffer.shape] if written else ''}")
        self.parts.append(f"{len(kernel.sizes)} {len(kernel.numbers)} {bool(kernel.in_place)}")
        for scratch in kernel.scratch:
            self.parts.append(f"{scratch.dtype} {self.expr(scratch.size)}")
        self.body(kernel.body)
        return "\n".join(self.parts)

    def body(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Loop):
                self.parts.append(f"for {self.axis(statement.axis)} {statement.parallel} {statement.tile} {{")
                self.body(statement.body)
                self.parts.append("}")
            elif isinstance(statement, Assign):
                value = self.value(statement.value)
                self.parts.append(f"{self.local(statement.name)}={value}")
            elif isinstance(statement, Reduce):
                axes = " ".join([self.axis(axis) for axis in statement.axes])
                value = self.value(statement.value)
                self.parts.append(f"{self.local(statement.name)}={statement.kind} {axes} {statement.dtype} {value}")
            elif isinstance(statement, Scan):
                axis = self.axis(statement.axis)
                value, args = self.value(statement.value), [self.value(arg) for arg in statement.args]
                place = self.place(statement.place)
                self.parts.append(f"{statement.kind} {axis} {statement.dtype} {place} {args} {value}")
            else:
                assert isinstance(statement, Store)
                value, args = self.value(statement.value), [self.value(arg) for arg in statement.args]
                self.parts.append(f"{self.place(statement.place)} {statement.mode} {args} {value}")

    def axis(self, axis: Axis) -> str:
        size = self.expr(axis.size)
        # A variable that is used again by another loop is that loop's from here on.
        self.exprs.clear()
        self.values.clear()
        self.symbols[axis.symbol] = f"i{len(self.symbols)}"
        return f"{self.symbols[axis.symbol]}<{size}"

    def local(self, name: str) -> str:
        self.values.clear()
        self.locals[name] = f"l{len(self.locals)}"
        return self.locals[name]

    def place(self, place: Place) -> str:
        for symbol in place.indirect:
            self.symbols.setdefault(symbol, f"x{len(self.symbols)}")
        named = " ".join([self.symbols[symbol] for symbol in place.indirect])
        return f"{self.buffers[place.buffer]}[{self.expr(place.index)}|{named}|{place.masked}]"

    def value(self, value: Value) -> int:
        for node in value.walk():
            if node in self.values:
                continue
            if node.op == "load":
                data = self.place(node.data)
            elif node.op in ("index", "number"):
                data = self.expr(node.data)
            elif node.op == "local":
                data = self.locals[node.data]
            else:
                data = repr(node.data) if node.data is not None else ""
            args = " ".join([str(self.values[arg]) for arg in node.args])
            self.parts.append(f"{node.op} {node.dtype} {data} {args}")
            self.values[node] = len(self.parts)
        return self.values[value]

    def expr(self, expr: Expr) -> str:
        text = self.exprs.get(expr)
        if text is None:
            if isinstance(expr, Const):
                text = repr(expr.value)
            elif isinstance(expr, Symbol):
                text = self.symbols.get(expr) or f"?{expr.name}"
            elif isinstance(expr, Sum):
                terms = [f"{factor}{self.expr(part)}" for part, factor in expr.terms]
                text = f"({expr.const}+{'+'.join(terms)})"
            elif isinstance(expr, Product):
                text = "*".join([f"{self.expr(base)}^{power}" for base, power in expr.factors])
            else:
                assert isinstance(expr, Call)
                text = f"{expr.op}({','.join([self.expr(operand) for operand in expr.operands])})"
            self.exprs[expr] = text
        return text
