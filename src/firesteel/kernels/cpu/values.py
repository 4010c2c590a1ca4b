"""Values as code: every node of an expression once, in the outermost scope that has what it needs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ...functional.graph import Unsupported
from ...shapes import Const, Expr, Symbol
from ..ir import Place, Value
from . import operations, pairs
from .conversions import bitcast, cast
from .indices import IndexEmitter, split
from .operands import Operand, literal, mangled, memory_type, vector_type

VOLATILE = "volatile"
"""Among the names that a value depends on: memory that the kernel writes."""

WIDEST_STEP = 4
"""Up to this distance from one lane's element to the next, all elements between are loaded too."""

FREE = frozenset({"const", "local", "number"})


class ValueEmitter(IndexEmitter):
    """Computes values."""

    def setup(self, pointers: Mapping[str, str], dtypes: Mapping[str, torch.dtype], written: frozenset[str],
              numbers: Mapping[Symbol, Operand]) -> None:
        """What the kernel's parameters are called in the function being written."""
        self.pointers = dict(pointers)
        self.dtypes = dict(dtypes)
        self.written = written
        self.numbers = dict(numbers)
        self.locals: dict[str, Operand] = {}
        self.ready: dict[Value, str | Operand] = {}
        """Loads whose vectors lie somewhere else, contiguous and whole, or are in registers already."""
        self.large: Operand | None = None
        """Whether what the kernel writes is too much for the cache; None where that is known not to be so."""
        self.paired = False
        """Whether lanes are in the order of `pairs`."""
        self.stream = False
        """Whether vectors are stored past the cache."""
        self._names: dict[Value, frozenset[object]] = {}

    # what a value depends on

    def names(self, value: Value) -> frozenset[object]:
        """The symbols and locals behind a value, and `VOLATILE` if memory that is written is among them."""
        known = self._names
        mentioned = known.get(value)
        if mentioned is None:
            for node in value.walk():
                if node not in known:
                    known[node] = self._own_names(node).union(*[known[arg] for arg in node.args])
            mentioned = known[value]
        return mentioned

    def _own_names(self, node: Value) -> frozenset[object]:
        if node.op == "index":
            return frozenset(node.data.free_symbols)
        if node.op == "local":
            return frozenset((node.data,))
        if node.op == "load":
            place: Place = node.data
            own: frozenset[object] = place.index.free_symbols - frozenset(place.indirect)
            return own | {VOLATILE} if place.buffer in self.written else own
        return frozenset()

    # values

    def value(self, value: Value) -> Operand:
        """The value, in one lane if it is the same in all."""
        for node in value.walk():
            if node.op not in FREE:
                self._find(node)
        return self._find(value)

    def vector(self, value: Value) -> Operand:
        """The value in all lanes."""
        return self.splat(self.value(value), self.lanes)

    def _find(self, node: Value) -> Operand:
        if node.op == "const":
            return Operand(literal(node.data, node.dtype), node.dtype, 1)
        if node.op == "local":
            return self.locals[node.data]
        if node.op == "number":
            return self.numbers[node.data]
        names = self.names(node)
        if VOLATILE in names:
            here = self.scopes[-1].volatile
            operand = here.get(node)
            if operand is None:
                operand = here[node] = self._compute(node)
            return operand
        level = self.level(names)
        operand = self.scopes[level].found.get(node)
        if operand is not None:
            return operand
        inner = min(level + 1, len(self.scopes) - 1)
        operand = self.scopes[inner].found.get(node)
        if operand is not None:
            return operand
        args = [self._find(arg) for arg in node.args]
        # In front of the next loop, where it is known to run, unless nothing can go wrong outside either.
        place = inner if node.op == "load" else max([level, *[arg.scope for arg in args]])
        with self.at(place):
            operand = self._compute(node, args)
        self.scopes[place].found[node] = operand
        return operand

    def _compute(self, node: Value, args: list[Operand] | None = None) -> Operand:
        if args is None:
            args = [self._find(arg) for arg in node.args]
        if node.op == "load":
            return self.load(node, args)
        if node.op == "index":
            operand = self.index(node.data)
            return self.convert("zext", operand, torch.int64) if operand.dtype is torch.bool else operand
        lanes = max([arg.lanes for arg in args])
        wide = [self.splat(arg, lanes) for arg in args]
        if node.op == "cast":
            return cast(self, wide[0], node.dtype)
        if node.op == "bitcast":
            return bitcast(self, wide[0], node.dtype)
        return operations.emit(self, node.op, node.dtype, wide)

    # memory

    def load(self, node: Value, args: list[Operand]) -> Operand:
        ready = self.ready.get(node)
        if ready is not None:
            return ready if isinstance(ready, Operand) else self._whole_vector(ready, node.dtype)
        place: Place = node.data
        mask = args[-1] if place.masked else None
        indirect = dict(zip(place.indirect, args, strict=False))
        stored = self.dtypes.get(place.buffer)
        if stored is not None and stored is not node.dtype:
            raise Unsupported(f"a load of {node.dtype} from {place.buffer} of {stored}")
        way = self.way(place.index, indirect)
        if way is None:
            return self._gather(place, indirect, node.dtype, mask)
        coefficient, rest = way
        if coefficient is None:
            if mask is not None and mask.lanes > 1:
                return self._load_where(self.address(place.buffer, rest, indirect), node.dtype, mask)
            return self._load_one(self.address(place.buffer, rest, indirect), node.dtype, mask)
        if coefficient == 1:
            return self._load_lanes(self.lane_address(place.buffer, rest, indirect), node.dtype, mask)
        if coefficient == -1:
            return self._load_reversed(place, rest, indirect, node.dtype, mask)
        if 2 <= coefficient <= WIDEST_STEP and mask is None and self.mask is None:
            return self._load_strided(place, coefficient, rest, indirect, node.dtype)
        return self._gather(place, indirect, node.dtype, mask)

    def way(self, index: Expr, indirect: Mapping[Symbol, Operand]) -> tuple[int | None, Expr] | None:
        """How an index runs along the lanes: ``(step, rest)``, step None if not at all; None for any other way."""
        varying = [symbol for symbol, operand in indirect.items() if operand.lanes > 1]
        if self.axis is None or self.lanes == 1:
            return None, index
        parts = split(index, self.axis, varying)
        if parts is None:
            return None
        coefficient, rest = parts
        if not isinstance(coefficient, Const):
            return None
        step = int(coefficient.value)
        return (step or None), rest

    def address(self, buffer: str, index: Expr, indirect: Mapping[Symbol, Operand] | None = None) -> str:
        """A pointer to one element, computed as far out as its index can be."""
        base = self.pointers[buffer]
        element = memory_type(self.dtypes[buffer])
        if isinstance(index, Const) and not index.value:
            return base
        offset = self.index(index, indirect)
        key = ("address", buffer, index)
        if not indirect or not any(symbol in index.free_symbols for symbol in indirect):
            scope = self.scopes[offset.scope]
            pointer = scope.found.get(key)
            if pointer is None:
                with self.at(offset.scope):
                    pointer = self.instruction(
                        f"getelementptr {element}, ptr {base}, i64 {offset.text}", torch.int64, 1)
                scope.found[key] = pointer
            return pointer.text
        return self.raw(f"getelementptr {element}, ptr {base}, i64 {offset.text}")

    def lane_address(self, buffer: str, rest: Expr, indirect: Mapping[Symbol, Operand] | None = None,
                     step: int = 1) -> str:
        """A pointer to the element of the first lane, where an index is ``step*axis + rest``."""
        assert self.axis is not None
        start = self.address(buffer, rest, indirect)
        element, first = memory_type(self.dtypes[buffer]), self.symbols[self.axis]
        offset = first if step == 1 else self.binary("mul", first, self.integer(step))
        return self.raw(f"getelementptr {element}, ptr {start}, i64 {offset.text}")

    def _load_one(self, pointer: str, dtype: torch.dtype, mask: Operand | None) -> Operand:
        """One element. Where the mask is false a zero elsewhere is read."""
        if mask is not None:
            zero = self.module.constant("[16 x i8]", "zeroinitializer", 64)
            pointer = self.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {zero}")
        loaded = Operand(self.raw(f"load {memory_type(dtype)}, ptr {pointer}, align {dtype.itemsize}"), dtype, 1,
                         self.place)
        return self._from_memory(loaded)

    def _load_where(self, pointer: str, dtype: torch.dtype, mask: Operand) -> Operand:
        """One element, in the lanes of the mask."""
        condition = self.call_mask("or", self.with_mask(mask))
        one = self._load_one(pointer, dtype, condition)
        return self.select(mask, self.splat(one, mask.lanes), self.constant(0, dtype, mask.lanes))

    def call_mask(self, kind: str, mask: Operand) -> Operand:
        """Whether any lane ("or") or every lane ("and") of a mask is set."""
        name = self.module.declare(f"llvm.vector.reduce.{kind}.v{mask.lanes}i1", "i1", mask.type)
        return self.instruction(f"call i1 @{name}({mask.typed})", torch.bool, 1)

    def with_mask(self, mask: Operand | None) -> Operand:
        """The lanes that are there and that the mask selects."""
        if mask is None:
            assert self.mask is not None
            return self.mask
        mask = self.splat(mask, self.lanes)
        return mask if self.mask is None else self.binary("and", mask, self.mask)

    def _load_lanes(self, pointer: str, dtype: torch.dtype, mask: Operand | None) -> Operand:
        """Consecutive elements."""
        lanes, element = self.lanes, memory_type(dtype)
        vector = vector_type(element, lanes)
        if mask is None and self.mask is None:
            text = f"load {vector}, ptr {pointer}, align {dtype.itemsize}"
        else:
            both = self.with_mask(mask)
            name = self.module.declare(f"llvm.masked.load.{mangled(dtype, lanes, True)}.p0", vector,
                                       f"ptr, i32, <{lanes} x i1>, {vector}")
            text = (f"call {vector} @{name}(ptr {pointer}, i32 {dtype.itemsize}, {both.typed}, "
                    f"{vector} zeroinitializer)")
        loaded = Operand(self.raw(text), dtype, lanes, self.place)
        return pairs.widened(self, loaded) if self.paired else self._from_memory(loaded)

    def _whole_vector(self, pointer: str, dtype: torch.dtype) -> Operand:
        vector = vector_type(memory_type(dtype), self.lanes)
        return self.instruction(f"load {vector}, ptr {pointer}, align {self.lanes * dtype.itemsize}", dtype, self.lanes)

    def _load_reversed(self, place: Place, rest: Expr, indirect: Mapping[Symbol, Operand], dtype: torch.dtype,
                       mask: Operand | None) -> Operand:
        """Consecutive elements, the last one first."""
        lanes = self.lanes
        end = self.lane_address(place.buffer, rest, indirect, -1)
        start = self.raw(f"getelementptr {memory_type(dtype)}, ptr {end}, i64 {1 - lanes}")
        backwards = list(range(lanes - 1, -1, -1))
        if mask is None and self.mask is None:
            return self.shuffle(self._load_lanes(start, dtype, None), None, backwards)
        both = self.shuffle(self.with_mask(mask), None, backwards)
        before, self.mask = self.mask, None
        loaded = self._load_lanes(start, dtype, both)
        self.mask = before
        return self.shuffle(loaded, None, backwards)

    def _load_strided(self, place: Place, step: int, rest: Expr, indirect: Mapping[Symbol, Operand],
                      dtype: torch.dtype) -> Operand:
        """Every second to fourth element: all of them are loaded, and shuffled together."""
        lanes = self.lanes
        start = self.lane_address(place.buffer, rest, indirect, step)
        # The last vector ends with the last element that is asked for: what follows may not be there.
        last = step * (lanes - 1) + 1 - lanes
        offsets = [*[lanes * part for part in range(step - 1) if lanes * part < last], last]
        vectors = []
        for offset in offsets:
            pointer = self.raw(f"getelementptr {memory_type(dtype)}, ptr {start}, i64 {offset}")
            vectors.append(self._load_lanes(pointer, dtype, None))
        joined, filled = vectors[0], -(-lanes // step)
        for vector, offset in zip(vectors[1:], offsets[1:], strict=True):
            reached = -(-(offset + lanes) // step)
            picks = [lane if lane < filled else lanes + step * lane - offset if lane < reached else -1
                     for lane in range(lanes)]
            if vector is vectors[1]:
                picks[:filled] = [step * lane for lane in range(filled)]
            joined, filled = self.shuffle(joined, vector, picks), reached
        return joined

    def addresses(self, place: Place, indirect: Mapping[Symbol, Operand]) -> str:
        """A vector of pointers, one for each lane."""
        offsets = self.splat(self.index(place.index, indirect), self.lanes)
        return self.raw(f"getelementptr {memory_type(self.dtypes[place.buffer])}, "
                        f"ptr {self.pointers[place.buffer]}, {offsets.typed}")

    def _gather(self, place: Place, indirect: Mapping[Symbol, Operand], dtype: torch.dtype,
                mask: Operand | None) -> Operand:
        """Elements from anywhere."""
        lanes, element = self.lanes, memory_type(dtype)
        vector = vector_type(element, lanes)
        pointers = self.addresses(place, indirect)
        name = self.module.declare(f"llvm.masked.gather.{mangled(dtype, lanes, True)}.v{lanes}p0", vector,
                                   f"<{lanes} x ptr>, i32, <{lanes} x i1>, {vector}")
        selected = (self.constant(True, torch.bool, lanes) if mask is None and self.mask is None
                    else self.with_mask(mask))
        text = (f"call {vector} @{name}(<{lanes} x ptr> {pointers}, i32 {dtype.itemsize}, {selected.typed}, "
                f"{vector} zeroinitializer)")
        return self._from_memory(Operand(self.raw(text), dtype, lanes, self.place))

    def _from_memory(self, loaded: Operand) -> Operand:
        if loaded.dtype is not torch.bool:
            return loaded
        return self.instruction(f"icmp ne {vector_type('i8', loaded.lanes)} {loaded.text}, "
                                f"{'0' if loaded.lanes == 1 else 'zeroinitializer'}", torch.bool, loaded.lanes)

    def to_memory(self, value: Operand) -> tuple[str, str]:
        """The type and text of a value as it lies in memory."""
        if value.dtype is not torch.bool:
            return value.type, value.text
        vector = vector_type("i8", value.lanes)
        return vector, self.raw(f"zext {value.typed} to {vector}")

    def store(self, place: Place, value: Operand, args: list[Operand]) -> None:
        """Write an element, or one for each lane."""
        mask = args[-1] if place.masked else None
        indirect = dict(zip(place.indirect, args, strict=False))
        dtype, lanes = self.dtypes[place.buffer], self.lanes
        if value.dtype is not dtype:
            raise Unsupported(f"a store of {value.dtype} to {place.buffer} of {dtype}")
        if lanes == 1:
            pointer = self.address(place.buffer, place.index, indirect)
            if mask is not None:
                # What must not be written goes where nobody looks.
                elsewhere = self.function.alloca("[16 x i8]", align=16)
                pointer = self.raw(f"select i1 {mask.text}, ptr {pointer}, ptr {elsewhere}")
            kind, text = self.to_memory(value)
            self.line(f"store {kind} {text}, ptr {pointer}, align {dtype.itemsize}")
            return
        way = self.way(place.index, indirect)
        value = self.splat(value, lanes)
        kind, text = self.to_memory(pairs.narrowed(self, value) if self.paired else value)
        if way is not None and way[0] == 1:
            pointer = self.lane_address(place.buffer, way[1], indirect)
            if mask is None and self.mask is None:
                how = f"{self.target.vector_bytes}, !nontemporal !{{i32 1}}" if self.stream else dtype.itemsize
                self.line(f"store {kind} {text}, ptr {pointer}, align {how}")
                return
            name = self.module.declare(f"llvm.masked.store.{mangled(dtype, lanes, True)}.p0", "void",
                                       f"{kind}, ptr, i32, <{lanes} x i1>")
            both = self._store_mask(self.with_mask(mask), kind)
            self.line(f"call void @{name}({kind} {text}, ptr {pointer}, i32 {dtype.itemsize}, {both.typed})")
            return
        pointers = self.addresses(place, indirect)
        selected = (self.constant(True, torch.bool, lanes) if mask is None and self.mask is None
                    else self.with_mask(mask))
        name = self.module.declare(f"llvm.masked.scatter.{mangled(dtype, lanes, True)}.v{lanes}p0", "void",
                                   f"{kind}, <{lanes} x ptr>, i32, <{lanes} x i1>")
        self.line(f"call void @{name}({kind} {text}, <{lanes} x ptr> {pointers}, i32 {dtype.itemsize}, "
                  f"{selected.typed})")

    def _store_mask(self, mask: Operand, kind: str) -> Operand:
        """A mask of a store, of which LLVM cannot know that it is one lane.

        With AVX-512 it joins the truncation to a short integer and its masked store; where the mask turns out to be one
        lane (the last of 17 columns), it forgets the truncation and writes the wide integer, over what lies behind.
        """
        if not self.target.has_masks or kind.endswith(("float>", "double>", "half>", "i64>")):
            return mask
        yes = Operand(self.function.unknown_true(), torch.bool, 1)
        return self.binary("and", mask, self.splat(yes, mask.lanes))
