"""The inside of matrix products as LLVM IR: tiles that stay in registers, and the packing of what they read.

A tile is a few rows of the result by two vectors. Its loop over k loads two vectors of the packed right matrix and one
number of each row of the left one, and adds their products to the tile. The right matrix is packed in panels as wide
as a tile, so that it is read in one stream; rows of the left matrix are copied next to each other, at a distance that
does not map them to the same lines of the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...records import dataclass
from ..llvm_writer import Function, Module
from .target import Target

VECTORS = 2
"""Vectors in a row of a tile."""
LONGEST = 192
"""Products that are added up in registers, one after the other; the sums of such stretches are added in memory.
Results then have the same bits as those of MKL on the CPUs where our code stands in for it."""
DEEPEST = 2 * LONGEST
"""Products for which the right matrix is packed at once."""
ROW_BYTES = (DEEPEST + 16) * 4
"""The distance of copied rows."""
STREAMS = 16
"""Columns that are read side by side while a panel is packed."""
FURTHER = 256
"""How many bytes ahead a matrix that is packed is asked for."""
AHEAD = 1024
"""How many bytes ahead panels are asked for: they come from the second cache."""


@dataclass(frozen=True)
class Shape:
    """Sizes of tiles on one kind of CPU."""

    lanes: int
    rows: int

    @property
    def columns(self) -> int:
        return VECTORS * self.lanes

    @property
    def copied_rows(self) -> int:
        """Rows of the left matrix that there is room for: whole vectors are turned."""
        return -(-self.rows // self.lanes) * self.lanes

    @property
    def fewer_rows(self) -> list[int]:
        """Heights of tiles for what is left over: powers of two."""
        return [1 << bit for bit in reversed(range(4)) if 1 << bit < self.rows]

    @property
    def vector(self) -> str:
        return f"<{self.lanes} x float>"


def shape_of(target: Target) -> Shape:
    """As many rows as leave registers for two vectors of the right matrix and a number of the left one."""
    return Shape(target.vector_bytes // 4, 14 if target.vector_bytes == 64 else 6)


class Code(Function):
    """One function of matrix products: sizes are 64-bit integers, distances in memory are bytes or floats."""

    def __init__(self, name: str, parameters: Sequence[str], attributes: str, internal: bool = True) -> None:
        super().__init__(f"{'internal ' if internal else ''}void @{name}({', '.join(parameters)})", attributes)

    def math(self, operation: str, left: str, right: str | int) -> str:
        """Arithmetic on 64-bit integers."""
        return self.value(f"{operation} i64 {left}, {right}")

    def smaller(self, left: str, right: str | int) -> str:
        return self.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {right})")

    def rounded_up(self, number: str, unit: int) -> str:
        return self.math("mul", self.parts(number, unit), unit)

    def parts(self, number: str, size: str | int) -> str:
        """How many parts of a size a positive number has, the last perhaps smaller."""
        return self.math("udiv", self.math("sub", self.math("add", number, size), 1), size)

    def offset(self, pointer: str, offset: str | int) -> str:
        """A pointer, some bytes further on."""
        return pointer if offset == 0 else self.value(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def at(self, pointer: str, index: str) -> str:
        """A pointer, some floats further on."""
        return self.value(f"getelementptr float, ptr {pointer}, i64 {index}")

    def prefetch(self, pointer: str, write: bool = False) -> None:
        self.line(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 3, i32 1)")

    def finish(self) -> Code:
        self.line("ret void")
        return self


def declare(module: Module, shape: Shape) -> None:
    """The functions of LLVM that tiles and packing call."""
    v = shape.vector
    module.declare("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
    module.declare("llvm.smin.i64", "i64", "i64, i64")
    module.declare("llvm.memcpy.p0.p0.i64", "void", "ptr, ptr, i64, i1")
    module.declare(f"llvm.fma.v{shape.lanes}f32", v, f"{v}, {v}, {v}")


def tile(shape: Shape, rows: int, attributes: str) -> Code:
    """``result[i] = start[i] + sum over k of left[i, k] * right[k]``, a tile of some rows.

    Rows of ``left`` are `ROW_BYTES` apart; ``right`` is a panel. The others' rows are as far apart as the arguments
    say, in bytes. After every ``stretch`` of k the sums go to the result.
    """
    code = Code(f"PREFIX.tile{rows}", ["ptr %left", "ptr %right", "i64 %depth", "ptr %result", "i64 %result_row",
                                       "ptr %start", "i64 %start_row", "i64 %stretch"], attributes)
    vector, width = shape.vector, shape.lanes * 4
    row = "%result"
    for number in range(rows):
        for at in range(0, shape.columns * 4, 64):
            code.prefetch(code.offset(row, at), write=True)
        row = code.offset(row, "%result_row") if number < rows - 1 else row
    stretches = [("ptr", "%left"), ("ptr", "%right"), ("ptr", "%start"), ("i64", "%start_row")]
    with code.loop(0, "%depth", "%stretch", stretches) as outer:
        left, right, start_0, start_row = outer.values
        end = code.smaller(code.math("add nsw", outer.index, "%stretch"), "%depth")
        carried = [("ptr", left), ("ptr", right), *[(vector, "zeroinitializer")] * (rows * VECTORS)]
        with code.loop(outer.index, end, 1, carried) as loop:
            left, right, *sums = loop.values
            loaded = [code.value(f"load {vector}, ptr {code.offset(right, k * width)}, align {width}")
                      for k in range(VECTORS)]
            for at in range(0, shape.columns * 4, 64):
                code.prefetch(code.offset(right, at + AHEAD))
            new = []
            for number in range(rows):
                one = code.value(f"load float, ptr {code.offset(left, number * ROW_BYTES)}, align 4")
                lane = code.value(f"insertelement {vector} poison, float {one}, i64 0")
                all_lanes = code.value(f"shufflevector {vector} {lane}, {vector} poison, "
                                       f"<{shape.lanes} x i32> zeroinitializer")
                for k in range(VECTORS):
                    new.append(code.value(f"call {vector} @llvm.fma.v{shape.lanes}f32({vector} {all_lanes}, "
                                          f"{vector} {loaded[k]}, {vector} {sums[number * VECTORS + k]})"))
            loop.following = [code.offset(left, 4), code.offset(right, shape.columns * 4), *new]
        left, right, *sums = loop.values
        result, start = "%result", start_0
        for number in range(rows):
            for k in range(VECTORS):
                old = code.value(f"load {vector}, ptr {code.offset(start, k * width)}, align 4")
                total = code.value(f"fadd {vector} {old}, {sums[number * VECTORS + k]}")
                code.line(f"store {vector} {total}, ptr {code.offset(result, k * width)}, align 4")
            if number < rows - 1:
                result, start = code.offset(result, "%result_row"), code.offset(start, start_row)
        outer.following = [*loop.values[:2], "%result", "%result_row"]
    return code.finish()


def column_of_tiles(shape: Shape, attributes: str) -> Code:
    """The rows of one copied stretch of the left matrix, at most as many as a whole tile has."""
    code = Code("PREFIX.tiles", ["i64 %rows", "ptr %left", "ptr %right", "i64 %depth", "ptr %result",
                                 "i64 %result_row", "ptr %start", "i64 %start_row", "i64 %stretch"], attributes)
    rest = "ptr {left}, ptr %right, i64 %depth, ptr {result}, i64 %result_row, ptr {start}, i64 %start_row, " \
           "i64 %stretch"
    whole, others = code.labels("whole", "others")
    code.branch(code.value(f"icmp eq i64 %rows, {shape.rows}"), whole, others)
    code.start(whole)
    arguments = rest.format(left="%left", result="%result", start="%start")
    code.line(f"tail call void @PREFIX.tile{shape.rows}({arguments})")
    code.line("ret void")
    code.start(others)
    done = "0"
    for rows in shape.fewer_rows:
        part = code.math("and", "%rows", rows)
        with code.when(code.value(f"icmp ne i64 {part}, 0")):
            arguments = rest.format(left=code.offset("%left", code.math("mul", done, ROW_BYTES)),
                                    result=code.offset("%result", code.math("mul", done, "%result_row")),
                                    start=code.offset("%start", code.math("mul", done, "%start_row")))
            code.line(f"call void @PREFIX.tile{rows}({arguments})")
        done = code.math("add", done, part)
    return code.finish()


def pack_rows(shape: Shape, attributes: str) -> Code:
    """A panel of a right matrix that lies row by row: ``packed[k, j] = matrix[k, j]``.

    There are ``columns`` of them; what the panel has more is not used and holds anything.
    """
    code = Code("PREFIX.pack_rows", ["ptr %matrix", "i64 %row", "i64 %depth", "i64 %columns", "ptr %packed"],
                attributes)
    vector, width = shape.vector, shape.lanes * 4
    whole, part, end = code.labels("whole", "part", "end")
    code.branch(code.value(f"icmp eq i64 %columns, {shape.columns}"), whole, part)
    code.start(whole)
    with code.loop(0, "%depth", 1, [("ptr", "%matrix"), ("ptr", "%packed")]) as loop:
        source, target = loop.values
        for k in range(VECTORS):
            loaded = code.value(f"load {vector}, ptr {code.offset(source, k * width)}, align 4")
            code.line(f"store {vector} {loaded}, ptr {code.offset(target, k * width)}, align {width}")
        code.prefetch(code.offset(source, code.math("mul", "%row", 8)))
        loop.following = [code.offset(source, "%row"), code.offset(target, shape.columns * 4)]
    code.jump(end)
    code.start(part)
    bytes_ = code.math("mul", "%columns", 4)
    with code.loop(0, "%depth", 1, [("ptr", "%matrix"), ("ptr", "%packed")]) as loop:
        source, target = loop.values
        code.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {bytes_}, i1 false)")
        loop.following = [code.offset(source, "%row"), code.offset(target, shape.columns * 4)]
    code.jump(end)
    code.start(end)
    return code.finish()


def pack_columns(shape: Shape, attributes: str) -> Code:
    """A panel of a right matrix that lies column by column: ``packed[k, j] = matrix[j, k]``, turned in registers.

    Four columns at a time: in each group of four lanes, four by four numbers are turned. Where there are fewer columns
    than the panel has, the last one is repeated.
    """
    code = Code("PREFIX.pack_columns", ["ptr %matrix", "i64 %row", "i64 %depth", "i64 %columns", "ptr %packed"],
                attributes)
    lanes, row_bytes = shape.lanes, shape.columns * 4
    last = code.math("sub", "%columns", 1)
    straight = code.math("and", "%depth", -lanes)

    def source(column: str, depth: str) -> str:
        start = code.offset("%matrix", code.math("mul", code.smaller(column, last), "%row"))
        return code.at(start, depth)

    def target(depth: str, column: str) -> str:
        return code.at(code.offset("%packed", code.math("mul", depth, row_bytes)), column)

    with code.loop(0, shape.columns, STREAMS) as first:
        end = code.math("add", first.index, STREAMS)
        with code.loop(0, straight, lanes) as depth, code.loop(first.index, end, 4) as column:
            rows = []
            for number in range(4):
                there = source(code.math("add", column.index, number), depth.index)
                rows.append(code.value(f"load {shape.vector}, ptr {there}, align 4"))
                code.prefetch(code.offset(there, FURTHER))
            there = target(depth.index, column.index)
            for number, turned in enumerate(_turned_fours(code, rows, lanes)):
                for lane in range(0, lanes, 4):
                    _store_four(code, shape, turned, lane, code.offset(there, (lane + number) * row_bytes))
        with code.loop(straight, "%depth") as depth, code.loop(first.index, end) as column:
            one = code.value(f"load float, ptr {source(column.index, depth.index)}, align 4")
            code.line(f"store float {one}, ptr {target(depth.index, column.index)}, align 4")
    return code.finish()


def copy_columns(shape: Shape, attributes: str) -> Code:
    """Rows of a left matrix that lies column by column: ``copied[i, k] = matrix[k, i]``, turned in registers.

    ``width`` is how many numbers may be read from each ``matrix[k]``. Where it is less than a vector, numbers are
    copied one by one.
    """
    code = Code("PREFIX.copy_columns", ["ptr %matrix", "i64 %row", "i64 %depth", "i64 %rows", "i64 %width",
                                        "ptr %copied"], attributes)
    lanes = shape.lanes
    wide = code.value(f"icmp sge i64 %width, {lanes}")
    straight = code.value(f"select i1 {wide}, i64 {code.math('and', '%depth', -4)}, i64 0")
    with code.loop(0, straight, 4) as depth:
        loaded = []
        for number in range(4):
            there = code.offset("%matrix", code.math("mul", code.math("add", depth.index, number), "%row"))
            loaded.append(code.value(f"load {shape.vector}, ptr {there}, align 4"))
            code.prefetch(code.offset(there, shape.rows * 4 + 64))
        target = code.at("%copied", depth.index)
        for number, turned in enumerate(_turned_fours(code, loaded, lanes)):
            for lane in range(0, lanes, 4):
                _store_four(code, shape, turned, lane, code.offset(target, (lane + number) * ROW_BYTES))
    with code.loop(straight, "%depth") as depth, code.loop(0, "%rows") as row:
        there = code.at(code.offset("%matrix", code.math("mul", depth.index, "%row")), row.index)
        one = code.value(f"load float, ptr {there}, align 4")
        target = code.at(code.offset("%copied", code.math("mul", row.index, ROW_BYTES)), depth.index)
        code.line(f"store float {one}, ptr {target}, align 4")
    return code.finish()


def _store_four(code: Code, shape: Shape, vector: str, lane: int, place: str) -> None:
    """Four lanes of a vector."""
    mask = ", ".join(f"i32 {lane + k}" for k in range(4))
    four = code.value(f"shufflevector {shape.vector} {vector}, {shape.vector} poison, <4 x i32> <{mask}>")
    code.line(f"store <4 x float> {four}, ptr {place}, align 16")


def _turned_fours(code: Code, rows: Sequence[str], lanes: int) -> list[str]:
    """Four vectors, with the four by four numbers in each group of four lanes turned."""
    vector = f"<{lanes} x float>"

    def in_groups(left: str, right: str, picks: Sequence[int]) -> str:
        """Four picks for each group, from 4 on of the right vector."""
        mask = ", ".join(f"i32 {group + (pick if pick < 4 else lanes + pick - 4)}"
                         for group in range(0, lanes, 4) for pick in picks)
        return code.value(f"shufflevector {vector} {left}, {vector} {right}, <{lanes} x i32> <{mask}>")

    a, b, c, d = rows
    low, high = in_groups(a, b, (0, 4, 1, 5)), in_groups(a, b, (2, 6, 3, 7))
    low2, high2 = in_groups(c, d, (0, 4, 1, 5)), in_groups(c, d, (2, 6, 3, 7))
    return [in_groups(low, low2, (0, 1, 4, 5)), in_groups(low, low2, (2, 3, 6, 7)),
            in_groups(high, high2, (0, 1, 4, 5)), in_groups(high, high2, (2, 3, 6, 7))]
