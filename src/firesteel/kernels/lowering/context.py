"""The state of one lowering: buffers and computations so far, axes, masks, what is known.

Lowerings of operators get this object first. What they use most:

    ctx.out                          sizes, strides, dtype and device of the result, as eager has them
    ctx.computed(body)               a tensor whose element at ``indices`` is ``body(indices)``
    ctx.axes(sizes)                  loop variables, as axes and as indices
    ctx.realize(tensor)              the tensor in memory
    ctx.share(tensor)                the same, unless computing it several times is cheap
    ctx.masked(mask, value, other)   ``value()`` where the mask is true, without reading anything where it is not
    ctx.indirect(value, size)        a symbol that stands for a computed index
    ctx.unsupported(reason)          give up: the ATen operator is called
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.fx

from ... import shapes
from ...devices import kind_of
from ...shapes import Call, Const, Expr, Facts, Product, Sum, Symbol
from .. import ir
from . import policy
from .graph import Fallback, LoweredGraph
from .tensors import ONE, ZERO, Computed, Indices, Spec, Stored, Tensor, View, contiguous_strides
from .value_bounds import Bounds, bounds_of

Number = bool | int | float | Expr
CPU = torch.device("cpu")


class Lowering:
    """One graph being lowered."""

    def __init__(self, facts: Facts | None = None, device: torch.device = CPU) -> None:
        self.device = device
        self.kind = kind_of(device)
        known = Facts() if facts is None else facts
        self.graph = LoweredGraph([], {}, [], [], {}, facts=known.copy(), size_facts=known.copy())
        self.facts = self.graph.facts
        self.size_facts = self.graph.size_facts
        self.node: torch.fx.Node | None = None
        self.outs: tuple[Spec | None, ...] = ()
        """Descriptions of the results of the operator that is being lowered."""
        self.mask: ir.Value | None = None
        """Where loads are allowed to read; None for everywhere."""
        self.bounds: dict[str, Bounds] = {}
        """What the integers in a buffer can be."""
        self._exact: list[tuple[ir.Value, Expr, Expr, int]] = []
        """Masks under which a quotient is without rest: the mask, the quotient, what is divided and by what."""
        self.origins: dict[torch.fx.Node, None] = {}
        self.reason = ""
        self.reshapes: dict[tuple[tuple[Expr, ...], tuple[Expr, ...]], Any] = {}
        """Plans of reshapes, for `views`: equal layers reshape alike."""
        self._symbols: dict[tuple[str, int, Expr], Symbol] = {}
        self._indirect: dict[Symbol, ir.Value] = {}
        self._indirect_of: dict[tuple[ir.Value, Expr | None], Symbol] = {}
        self._indices: set[Symbol] = set()
        """The symbols that have a value inside of loops only."""
        self._simple: dict[Expr, Expr] = {}
        self._sizes: dict[Expr, Expr] = {}
        self._names: set[str] = set()

    # The operator at hand

    @property
    def out(self) -> Spec:
        """The description of the only result of the operator that is being lowered."""
        assert len(self.outs) == 1 and self.outs[0] is not None
        return self.outs[0]

    def unsupported(self, reason: str) -> Any:
        """For ``return ctx.unsupported("why")``: there is no lowering for these arguments."""
        self.reason = reason
        return NotImplemented

    # Symbols and what is known of them

    def axes(self, sizes: Sequence[Expr], prefix: str = "i") -> tuple[tuple[ir.Axis, ...], Indices]:
        """Loop variables for sizes: the axes, and one index for each size, which is 0 where the size is 1."""
        axes: list[ir.Axis] = []
        indices: list[Expr] = []
        for position, size in enumerate(sizes):
            if size is ONE:
                indices.append(ZERO)
                continue
            symbol = self._axis_symbol(prefix, position, size)
            axes.append(ir.Axis(symbol, size))
            indices.append(symbol)
        return tuple(axes), tuple(indices)

    def reduce_axes(self, sizes: Sequence[Expr]) -> tuple[tuple[ir.Axis, ...], Indices]:
        """The same for sizes that are reduced."""
        return self.axes(sizes, "r")

    def _axis_symbol(self, prefix: str, position: int, size: Expr) -> Symbol:
        # One symbol for equal sizes at equal positions, so that expressions are shared and simplified once.
        key = (prefix, position, size)
        symbol = self._symbols.get(key)
        if symbol is None:
            same = sum(1 for p, at, _ in self._symbols if p == prefix and at == position)
            symbol = shapes.symbol(f"{prefix}{position}" + (f"_{same}" if same else ""))
            self._symbols[key] = symbol
            self._bound(symbol, size)
        return symbol

    def _bound(self, symbol: Symbol, size: Expr) -> None:
        """0 <= symbol < size"""
        self._indices.add(symbol)
        self.facts.add_index(symbol, size)

    def indirect(self, value: ir.Value, size: Expr | None = None) -> Symbol:
        """A symbol for indices that stands for a value computed in the kernel, which is known to be below ``size``."""
        assert value.dtype is torch.int64
        key = (value, size)
        symbol = self._indirect_of.get(key)
        if symbol is None:
            symbol = shapes.symbol(f"t{len(self._indirect)}")
            self._indirect_of[key] = symbol
            self._indirect[symbol] = value
            if size is not None:
                self._bound(symbol, size)
        return symbol

    def simplify(self, expr: Expr) -> Expr:
        """An index expression in its shortest known form."""
        if not _has_call(expr):
            return expr
        simple = self._simple.get(expr)
        if simple is None:
            simple = self._simple[expr] = shapes.simplify_under_ranges(expr, self._facts_for(expr))
        return simple

    def _facts_for(self, expr: Expr) -> Facts:
        return self.size_facts if self._indices.isdisjoint(expr.free_symbols) else self.facts

    def known(self, condition: Expr | bool) -> bool | None:
        """Whether a condition on sizes or indices follows from what is known; None when it does not."""
        if isinstance(condition, bool):
            return condition
        return bool(condition) if condition.is_constant else self._facts_for(condition).decide(condition)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are known to be equal."""
        return a is b or self.known(shapes.eq(a, b)) is True

    def described(self, fake: torch.Tensor) -> Spec:
        """The description of a fake tensor, with 1 for every size that is known to be 1, and 0 for one that is nothing.

        Such a size may be an expression still: of the parts of a dimension ``s`` that is cut in two the second has
        ``s - (s + 1)//2`` elements, and where it was taken for one that is repeated, that is 1.
        Strides are all that there is to see of a tensor without elements, so host programs keep to those.
        """
        spec = Spec.of(fake)
        if all(size.is_constant or isinstance(size, Symbol) for size in spec.shape):
            return spec
        return replace(spec, shape=tuple([self._size(size) for size in spec.shape]))

    def _size(self, size: Expr) -> Expr:
        if size.is_constant or isinstance(size, Symbol):
            return size
        simple = self._sizes.get(size)
        if simple is None:
            known = next((number for number in (ONE, ZERO) if self.same(size, number)), size)
            simple = self._sizes[size] = known
        return simple

    # Values

    def index(self, expr: Any) -> ir.Value:
        """The value of an index expression, which may contain indirect symbols."""
        expr = self.simplify(shapes.as_expr(expr))
        if expr.is_constant:
            return ir.const(int(expr), torch.int64)  # type: ignore[call-overload]
        if isinstance(expr, Symbol) and expr in self._indirect:
            return self._indirect[expr]
        if not any(symbol in self._indirect for symbol in expr.free_symbols):
            return ir.index(expr)
        if isinstance(expr, Sum):
            total = None if not expr.const else ir.const(expr.const, torch.int64)
            for monomial, coefficient in expr.terms:
                term = self.index(monomial)
                if coefficient != 1:
                    term = ir.op("mul", term, ir.const(coefficient, torch.int64))
                total = term if total is None else ir.op("add", total, term)
            assert total is not None
            return total
        if isinstance(expr, Product):
            factors = [self.index(base) for base, exponent in expr.factors for _ in range(exponent)]
            product = factors[0]
            for factor in factors[1:]:
                product = ir.op("mul", product, factor)
            return product
        assert isinstance(expr, Call)
        names = {"floordiv": "div_floor", "mod": "remainder", "min": "min", "max": "max", "mul": "mul"}
        operands = [self.index(operand) for operand in expr.operands]
        result = operands[0]
        for operand in operands[1:]:
            result = ir.op(names[expr.op], result, operand)
        return result

    def scalar(self, number: Number, dtype: torch.dtype) -> ir.Value:
        """A number as a value of a dtype."""
        if not isinstance(number, Expr):
            return ir.const(number, dtype)
        if number.is_constant:
            return ir.const(number.value, dtype)  # type: ignore[attr-defined]
        if number.kind == "float":
            return ir.cast(ir.number(number), dtype)
        if number.kind == "bool":
            return ir.cast(self.condition(number), dtype)
        return ir.cast(self.index(number), dtype)

    def condition(self, expr: Expr) -> ir.Value:
        """A condition on indices and sizes as a bool value."""
        known = self.known(expr)
        if known is not None:
            return ir.const(known, torch.bool)
        assert isinstance(expr, Call), expr
        zero = ir.const(0, torch.int64)
        match expr.op:
            case "ge0" | "eq0" | "ne0":
                return ir.op(expr.op[:2], self.index(expr.operands[0]), zero)
            case "and" | "or":
                result = self.condition(expr.operands[0])
                for operand in expr.operands[1:]:
                    result = ir.op(expr.op, result, self.condition(operand))
                return result
            case "not":
                return ir.op("not", self.condition(expr.operands[0]))
        return ir.cast(self.index(shapes.if_else(expr, 1, 0)), torch.bool)

    def below(self, index: Expr, bound: Expr) -> ir.Value:
        """``index < bound``, for masks."""
        known = self.known(index < bound)
        if known is not None:
            return ir.const(known, torch.bool)
        return ir.op("lt", self.index(index), self.index(bound))

    def load(self, buffer: str, index: Expr, dtype: torch.dtype) -> ir.Value:
        """An element of a buffer, under the mask in force."""
        if self._exact and self.mask is not None:
            index = self._without_quotients(index, self.mask)
        if not self._indirect:
            return ir.load(buffer, index, dtype, (), self._mask_of(index))
        used = sorted((s for s in index.free_symbols if s in self._indirect), key=lambda s: s.serial)
        return ir.load(buffer, index, dtype, [(s, self._indirect[s]) for s in used], self.mask)

    def _mask_of(self, index: Expr) -> ir.Value | None:
        """The mask in force without conditions that an index has nothing to do with, where that saves loads.

        On a GPU what is read once for a row is one load then. Such a condition holds for some of the points that read
        the same element, so the element is there.
        """
        if self.mask is None or not self.kind.runs_at_once:
            return self.mask
        parts = list(_conjuncts(self.mask))
        symbols = [_index_symbols(part) for part in parts]
        kept = None
        for at, part in enumerate(parts):
            others = [other for place, other in enumerate(symbols) if place != at]
            apart = all(symbols[at].isdisjoint(other) for other in (index.free_symbols, self.graph.symbols, *others))
            if not (apart and _holds_at_first(part)):
                kept = part if kept is None else ir.op("and", kept, part)
        return kept

    def masked(self, mask: ir.Value, value: Callable[[], ir.Value], other: ir.Value) -> ir.Value:
        """``value()`` where ``mask`` is true, otherwise ``other``. Loads in ``value`` read only where it is true."""
        if mask.op == "const":
            return value() if mask.data else other
        return ir.op("where", mask, self.reading_under(mask, value), other)

    def reading_under(self, mask: ir.Value, value: Callable[[], ir.Value]) -> ir.Value:
        """``value()`` with nothing read where ``mask`` is false, for a caller who does not use it there."""
        if mask.op == "const" and mask.data:
            return value()
        outer = self.mask
        self.mask = mask if outer is None or outer is mask else ir.op("and", outer, mask)
        try:
            return value()
        finally:
            self.mask = outer

    def dividing(self, mask: ir.Value, quotient: Expr, dividend: Expr, divisor: Expr,
                 value: Callable[[], ir.Value]) -> ir.Value:
        """``value()``, whose indices contain a quotient that is without rest where ``mask`` is true."""
        if isinstance(quotient, Sum) and len(quotient.terms) == 1 and quotient.terms[0][1] == 1:
            # as simplified: (i + 2) // 3 - 1 for (i - 1) // 3
            dividend = dividend - divisor * quotient.const
            quotient = quotient.terms[0][0]
        if not isinstance(divisor, Const) or not isinstance(quotient, Call):
            return value()
        self._exact.append((mask, quotient, dividend, int(divisor)))
        try:
            return value()
        finally:
            self._exact.pop()

    def _without_quotients(self, index: Expr, mask: ir.Value) -> Expr:
        """An index with ``n * (i // n)`` as ``i`` where the mask says that nothing is left of the division."""
        parts = list(_conjuncts(mask))
        for condition, quotient, dividend, divisor in self._exact:
            if not all(part in parts for part in _conjuncts(condition)):
                continue
            terms = index.terms if isinstance(index, Sum) else ((index, 1),)
            for monomial, factor in terms:
                if monomial is quotient and factor % divisor == 0:
                    index = self.simplify(index - monomial * factor + dividend * (factor // divisor))
        return index

    # Tensors

    def computed(
        self, body: Callable[[Indices], ir.Value], spec: Spec | None = None, dtype: torch.dtype | None = None
    ) -> Computed:
        """A tensor that is computed where it is used; it has the description of the operator's result unless given."""
        return Computed(self, spec or self.out, body, dtype)

    def spec(self, shape: Sequence[Expr], dtype: torch.dtype, device: torch.device | None = None) -> Spec:
        """The description of a contiguous tensor that is no result of an operator, but made on the way to one."""
        where = device or self.device
        return Spec(tuple(shape), contiguous_strides(shape), dtype, where)

    def new_name(self, prefix: str = "buf") -> str:
        """A name for a buffer that no other has."""
        name, number = prefix, len(self.graph.buffers)
        while name in self._names or name == "buf":
            name, number = f"{prefix}{number}" if prefix == "buf" else f"{prefix}_{number}", number + 1
        self._names.add(name)
        return name

    def new_buffer(self, spec: Spec, kind: str = "temporary", name: str | None = None) -> Stored:
        """Memory for a tensor."""
        buffer = ir.Buffer(name or self.new_name(), spec.dtype, spec.shape, spec.strides, kind, spec.device)
        self.graph.buffers[buffer.name] = buffer
        return Stored(self, buffer.name, spec.shape, spec.strides, ZERO, spec.dtype, spec.device)

    def emit(self, operation: ir.Computation | ir.ExternCall) -> None:
        """Append to the program."""
        self.graph.operations.append(operation)

    def fill(self, target: Stored, source: Tensor) -> None:
        """Emit the computation that writes ``source`` to ``target``, of the same shape."""
        axes, indices = self.axes(target.shape)
        outer, self.origins = self.origins, {}
        outer_mask, self.mask = self.mask, None
        try:
            value = source.at(indices)
            if self.node is not None:
                self.origins.setdefault(self.node)
            kept = tuple(a for a, s in zip(target.shape, target.strides, strict=True) if s is ZERO and a is not ONE)
            assert not kept, "writing through a broadcast"
            place = ir.Place(target.buffer, target.index(indices))
            self.emit(ir.Computation(place, target.dtype, axes, value, origins=tuple(self.origins)))
        finally:
            self.origins = outer
            self.mask = outer_mask

    def realize(self, tensor: Tensor) -> Stored:
        """The tensor in memory, with eager's layout where it is an operator's result."""
        stored = tensor.stored()
        if stored is not None:
            return stored
        if isinstance(tensor, View) and tensor.restride is not None and not self._is_part(tensor):
            self.realize(tensor.base)
            stored = tensor.stored()
            if stored is not None:
                return stored
        assert isinstance(tensor, Computed | View)
        target = self._copy(tensor, tensor.strides)
        if tensor.dtype is torch.int64:
            _, indices = self.axes(tensor.shape)
            self.bounds[target.buffer] = bounds_of(tensor.at(indices), self.bounds)
        tensor.memory = target
        return target

    def realize_as(self, tensor: Tensor, strides: Sequence[Expr]) -> Stored:
        """The tensor in memory with the given strides; those of sizes that are 1 do not matter."""
        if isinstance(tensor, View) and tensor.restride is not None and tensor.stored() is None:
            self.realize(tensor.base)
        stored = tensor.stored()
        if stored is None and isinstance(tensor, Computed) and self.same_strides(tensor.shape, tensor.strides, strides):
            stored = self.realize(tensor)
        if stored is not None and self.same_strides(stored.shape, stored.strides, strides):
            return stored
        return self._copy(tensor, strides)

    def same_strides(self, shape: Sequence[Expr], a: Sequence[Expr], b: Sequence[Expr]) -> bool:
        """Whether two layouts of a shape are known to be one."""
        if any(size is ZERO for size in shape):
            return True
        return all(size is ONE or self.same(x, y) for size, x, y in zip(shape, a, b, strict=True))

    def copy(self, tensor: Tensor, strides: Sequence[Expr] | None = None) -> Stored:
        """A new buffer with the same elements."""
        return self._copy(tensor, contiguous_strides(tensor.shape) if strides is None else strides)

    def _copy(self, tensor: Tensor, strides: Sequence[Expr]) -> Stored:
        if any(s is ZERO and n is not ONE for n, s in zip(tensor.shape, strides, strict=True)):
            strides = contiguous_strides(tensor.shape)
        target = self.new_buffer(Spec(tensor.shape, tuple(strides), tensor.dtype, tensor.device))
        self.fill(target, tensor)
        return target

    def _is_part(self, tensor: View) -> bool:
        """Whether a view shows only some of what would have to be computed."""
        base: Tensor = tensor.base
        while isinstance(base, View) and base.stored() is None:
            base = base.base
        return base.stored() is None and self.known(tensor.numel < base.numel) is True

    def share(self, tensor: Tensor) -> Tensor:
        """For a tensor that will be read several times: in memory, unless computing it again is as good."""
        if tensor.stored() is not None:
            return tensor
        axes, indices = self.axes(tensor.shape)
        cost = policy.cost_of(tensor.at(indices), frozenset(axis.symbol for axis in axes))
        return tensor if policy.is_cheap(cost) else self.realize(tensor)

    def reference(self, stored: Stored, strides: Sequence[Expr] | None = None) -> ir.BufferRef:
        """A tensor in memory as an argument of a call or as a result."""
        buffer = self.graph.buffers[stored.buffer]
        steps = tuple(stored.strides if strides is None else strides)
        if (stored.offset is ZERO and buffer.shape == stored.shape and buffer.strides == steps
                and buffer.dtype is stored.dtype):  # fmt: skip
            return ir.BufferRef(stored.buffer)
        dtype = None if buffer.dtype is stored.dtype else stored.dtype
        return ir.BufferRef(stored.buffer, stored.shape, steps, stored.offset, dtype)

    def is_read_pointwise(self) -> bool:
        """Whether every user of the operator's result has a lowering, so that nobody needs it in memory."""
        assert self.node is not None
        users = set(policy.consumers(self.node))
        return len(users) <= 1 and not any(policy.needs_memory(user) for user in users)

    def fall_back(self, name: str, reason: str) -> None:
        """Note that an operator is called in ATen."""
        self.graph.fallbacks.append(Fallback(name, reason, self.node))


def _has_call(expr: Expr) -> bool:
    """Whether there is anything in an expression but sums and products of symbols."""
    if isinstance(expr, Call):
        return True
    if isinstance(expr, Sum | Product):
        return any(_has_call(arg) for arg in expr.args)
    return False


def _conjuncts(mask: ir.Value) -> Iterator[ir.Value]:
    if mask.op == "and":
        for part in mask.args:
            yield from _conjuncts(part)
    else:
        yield mask


def _index_symbols(mask: ir.Value) -> frozenset[Symbol]:
    """The indices that a condition depends on."""
    symbols: set[Symbol] = set()
    for node in mask.walk():
        if node.op in ("index", "load"):
            symbols |= (node.data if node.op == "index" else node.data.index).free_symbols
    return frozenset(symbols)


def _holds_at_first(mask: ir.Value) -> bool:
    """Whether a condition says that an index is below some number, which the first one is."""
    if mask.op != "lt" or [arg.op for arg in mask.args] != ["index", "const"]:
        return False
    return isinstance(mask.args[0].data, Symbol) and mask.args[1].data > 0
