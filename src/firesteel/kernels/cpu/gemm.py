"""Matrix products of our own: machine code for ``left @ right (+ bias)`` in single precision, for all sizes.

Blocks of columns and of depth are packed so that they fit into a core's second cache, and every few rows of the left
matrix go past all panels of such a block. Depth is added up in blocks of at most `DEEPEST` products, so rounding errors
stay as small as those of the libraries that eager calls. Threads share out columns and rows; each packs what it reads,
none waits for another.
"""

from __future__ import annotations

from ...torch_compat.c_interface import PARALLEL_FOR, THREAD_COUNT
from ..llvm_writer import Module
from .gemm_text import (
    AHEAD,
    DEEPEST,
    LONGEST,
    ROW_BYTES,
    VECTORS,
    Code,
    Shape,
    column_of_tiles,
    copy_columns,
    declare,
    pack_columns,
    pack_rows,
    shape_of,
    tile,
)
from .target import Target, has_symbol

WIDEST = 384
"""Columns of a block."""

FIELDS = ("left", "right", "bias", "result", "rows", "columns", "depth", "left_row", "right_row", "left_turned",
          "right_turned", "stretch", "row_parts", "column_parts")
POINTERS = FIELDS[:4]


def module_text(target: Target, name: str) -> str:
    """``void name(left, right, bias, result, rows, columns, depth, left_row, right_row, left_turned, right_turned)``.

    ``left`` is ``[rows, depth]``, or ``[depth, rows]`` if ``left_turned``; ``right`` is ``[depth, columns]``, or
    ``[columns, depth]`` if ``right_turned``. The distances of rows are those in memory, in floats. ``bias`` may be
    null; ``result`` is contiguous. All sizes are positive.
    """
    shape, attributes = shape_of(target), target.attributes
    # What only calls the others is not worth making larger.
    plain = f"{attributes} noinline"
    heights = [shape.rows, *shape.fewer_rows]
    module = Module()
    _declare(module, shape)
    module.functions += [*(tile(shape, rows, attributes) for rows in heights), pack_rows(shape, attributes),
                         pack_columns(shape, attributes), copy_columns(shape, attributes),
                         column_of_tiles(shape, plain), _block(shape, plain), _task(shape, plain),
                         _entry(shape, plain)]
    return module.text(name)


def _load_fields(code: Code) -> dict[str, str]:
    fields = {}
    for number, name in enumerate(FIELDS):
        kind = "ptr" if name in POINTERS else "i64"
        fields[name] = code.value(f"load {kind}, ptr {code.offset('%context', 8 * number)}, align 8")
    return fields


def _task(shape: Shape, attributes: str) -> Code:
    """Parts ``begin`` to ``end`` of the result, each some rows by some columns."""
    code = Code("PREFIX.task", ["i64 %begin", "i64 %end", "ptr %context"], attributes)
    f = _load_fields(code)
    packed_bytes = DEEPEST * WIDEST * 4 + AHEAD
    sizes = [packed_bytes, shape.copied_rows * ROW_BYTES, WIDEST * 4, shape.rows * shape.columns * 4]
    memory = code.value(f"call ptr @aligned_alloc(i64 64, i64 {(sum(sizes) + 63) // 64 * 64})")
    packed, copied, bias, corner = (code.offset(memory, sum(sizes[:k])) for k in range(4))
    tiles, panels = code.parts(f["rows"], shape.rows), code.parts(f["columns"], shape.columns)
    with code.loop("%begin", "%end") as part:
        row_part = code.math("udiv", part.index, f["column_parts"])
        column_part = code.math("urem", part.index, f["column_parts"])

        def limits(number: str, count: str, parts: str, unit: int, whole: str) -> tuple[str, str]:
            first = code.math("udiv", code.math("mul", number, count), parts)
            last = code.math("udiv", code.math("mul", code.math("add", number, 1), count), parts)
            return code.math("mul", first, unit), code.smaller(code.math("mul", last, unit), whole)

        first_row, last_row = limits(row_part, tiles, f["row_parts"], shape.rows, f["rows"])
        first_column, last_column = limits(column_part, panels, f["column_parts"], shape.columns, f["columns"])
        # Blocks of about equal sizes rather than a small one at the end.
        own = code.math("sub", last_column, first_column)
        blocks = code.value(f"call i64 @llvm.smax.i64(i64 {code.parts(own, WIDEST)}, i64 1)")
        width = code.rounded_up(code.parts(own, blocks), shape.columns)
        deep = code.smaller(f["depth"], DEEPEST)
        with code.loop(first_column, last_column, width) as columns:
            end = code.smaller(code.math("add", columns.index, width), last_column)
            count = code.math("sub", end, columns.index)
            bytes_ = code.math("mul", count, 4)
            with code.when(code.value(f"icmp eq ptr {f['bias']}, null")):
                code.line(f"call void @llvm.memset.p0.i64(ptr {bias}, i8 0, i64 {bytes_}, i1 false)")
            with code.when(code.value(f"icmp ne ptr {f['bias']}, null")):
                source = code.at(f["bias"], columns.index)
                code.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {bias}, ptr {source}, i64 {bytes_}, i1 false)")
            with code.loop(0, f["depth"], deep) as depth:
                here = code.smaller(code.math("sub", f["depth"], depth.index), deep)
                code.line(f"call void @PREFIX.block(ptr %context, i64 {first_row}, i64 {last_row}, "
                          f"i64 {columns.index}, i64 {end}, i64 {depth.index}, i64 {here}, ptr {packed}, "
                          f"ptr {copied}, ptr {bias}, ptr {corner})")
    code.line(f"call void @free(ptr {memory})")
    return code.finish()


def _block(shape: Shape, attributes: str) -> Code:
    """All rows from ``first`` to ``last`` by a block of columns, for ``deep`` steps of depth from ``depth`` on."""
    code = Code("PREFIX.block", ["ptr %context", "i64 %first", "i64 %last", "i64 %column", "i64 %end", "i64 %depth",
                                 "i64 %deep", "ptr %packed", "ptr %copied", "ptr %bias", "ptr %corner"], attributes)
    f = _load_fields(code)
    panel_bytes = code.math("mul", "%deep", shape.columns * 4)
    turned = code.value(f"icmp ne i64 {f['right_turned']}, 0")
    with code.loop("%column", "%end", shape.columns, [("ptr", "%packed")]) as panel:
        count = code.smaller(code.math("sub", "%end", panel.index), shape.columns)
        arguments = "ptr {}, i64 {}, i64 %deep, i64 {}, ptr {}"
        with code.when(turned):
            source = code.at(code.offset(f["right"], code.math("mul", panel.index, f["right_row"])), "%depth")
            code.line("call void @PREFIX.pack_columns("
                      + arguments.format(source, f["right_row"], count, panel.values[0]) + ")")
        with code.when(code.value(f"xor i1 {turned}, true")):
            source = code.at(code.offset(f["right"], code.math("mul", "%depth", f["right_row"])), panel.index)
            code.line("call void @PREFIX.pack_rows("
                      + arguments.format(source, f["right_row"], count, panel.values[0]) + ")")
        panel.following = [code.offset(panel.values[0], panel_bytes)]
    left_turned = code.value(f"icmp ne i64 {f['left_turned']}, 0")
    result_row = code.math("mul", f["columns"], 4)
    is_first = code.value("icmp eq i64 %depth, 0")
    copied_bytes = code.math("mul", "%deep", 4)
    corner_row = shape.columns * 4
    with code.loop("%first", "%last", shape.rows) as rows:
        height = code.smaller(code.math("sub", "%last", rows.index), shape.rows)
        with code.when(left_turned):
            left = code.at(code.offset(f["left"], code.math("mul", "%depth", f["left_row"])), rows.index)
            beside = code.math("sub", f["rows"], rows.index)
            code.line(f"call void @PREFIX.copy_columns(ptr {left}, i64 {f['left_row']}, i64 %deep, i64 {height}, "
                      f"i64 {beside}, ptr %copied)")
        with code.when(code.value(f"xor i1 {left_turned}, true")):
            left = code.at(code.offset(f["left"], code.math("mul", rows.index, f["left_row"])), "%depth")
            _copy_rows(code, left, f["left_row"], "%copied", ROW_BYTES, height, copied_bytes)
        result = code.offset(f["result"], code.math("mul", rows.index, result_row))
        with code.loop("%column", "%end", shape.columns, [("ptr", "%packed"), ("ptr", "%bias")]) as panel:
            right, bias = panel.values
            count = code.smaller(code.math("sub", "%end", panel.index), shape.columns)
            there = code.at(result, panel.index)
            whole = code.value(f"icmp eq i64 {count}, {shape.columns}")
            given = f"i64 {height}, ptr %copied, ptr {right}, i64 %deep"
            with code.when(whole):
                start = code.value(f"select i1 {is_first}, ptr {bias}, ptr {there}")
                start_row = code.value(f"select i1 {is_first}, i64 0, i64 {result_row}")
                code.line(f"call void @PREFIX.tiles({given}, ptr {there}, i64 {result_row}, ptr {start}, "
                          f"i64 {start_row}, i64 {f['stretch']})")
            with code.when(code.value(f"xor i1 {whole}, true")):
                # The tile is wider than what is left of the result, so it is computed beside it.
                bytes_ = code.math("mul", count, 4)
                with code.when(code.value(f"xor i1 {is_first}, true")):
                    _copy_rows(code, there, result_row, "%corner", corner_row, height, bytes_)
                start = code.value(f"select i1 {is_first}, ptr {bias}, ptr %corner")
                start_row = code.value(f"select i1 {is_first}, i64 0, i64 {corner_row}")
                code.line(f"call void @PREFIX.tiles({given}, ptr %corner, i64 {corner_row}, ptr {start}, "
                          f"i64 {start_row}, i64 {f['stretch']})")
                _copy_rows(code, "%corner", corner_row, there, result_row, height, bytes_)
            panel.following = [code.offset(right, panel_bytes), code.offset(bias, shape.columns * 4)]
    return code.finish()


def _copy_rows(code: Code, source: str, source_row: str | int, target: str, target_row: str | int, rows: str,
               bytes_: str) -> None:
    with code.loop(0, rows, 1, [("ptr", source), ("ptr", target)]) as loop:
        code.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {loop.values[1]}, ptr {loop.values[0]}, i64 {bytes_}, "
                  "i1 false)")
        loop.following = [code.offset(loop.values[0], source_row), code.offset(loop.values[1], target_row)]


def _entry(shape: Shape, attributes: str) -> Code:
    """Choose how the result is shared out, and run that on torch's threads."""
    given = [*(f"ptr %{name}" for name in POINTERS),
             *(f"i64 %{name}" for name in FIELDS[4:11])]
    code = Code("PREFIX", given, attributes, internal=False)
    context = code.alloca(f"[{len(FIELDS)} x i64]", align=8)
    tiles, panels = code.parts("%rows", shape.rows), code.parts("%columns", shape.columns)
    threads = "1"
    if _is_parallel():
        threads = code.value(f"sext i32 {code.value(f'call i32 @{THREAD_COUNT}()')} to i64")
    # About how many cycles the busiest thread needs for a step of depth, for each way to divide the number of threads.
    # Those that share columns copy the same rows; those that share rows pack the same panels.
    with code.loop(0, threads, 1, [("i64", "9223372036854775807"), ("i64", "1")]) as loop:
        least, best = loop.values
        column_parts = code.math("sub", threads, loop.index)
        row_parts = code.math("udiv", threads, column_parts)
        across, down = code.parts(panels, column_parts), code.parts(tiles, row_parts)
        work = code.math("mul", code.math("mul", across, down), shape.rows * VECTORS)
        work = code.math("add", work, code.math("mul", across, shape.columns))
        work = code.math("add", work, code.math("mul", down, shape.rows // 3))
        divides = code.value(f"icmp eq i64 {code.math('mul', row_parts, column_parts)}, {threads}")
        better = code.value(f"and i1 {divides}, {code.value(f'icmp slt i64 {work}, {least}')}")
        loop.following = [code.value(f"select i1 {better}, i64 {work}, i64 {least}"),
                          code.value(f"select i1 {better}, i64 {column_parts}, i64 {best}")]
    column_parts = loop.values[1]
    # Two stretches are of equal length.
    few = code.value(f"icmp ule i64 {code.math('sub', '%depth', LONGEST + 1)}, {LONGEST - 1}")
    half = code.math("lshr", code.math("add", "%depth", 1), 1)
    stretch = code.value(f"select i1 {few}, i64 {half}, i64 {LONGEST}")
    row_parts = code.math("udiv", threads, column_parts)
    values = {name: f"%{name}" for name in FIELDS}
    values.update(left_row=code.math("mul", "%left_row", 4), right_row=code.math("mul", "%right_row", 4),
                  stretch=stretch, row_parts=row_parts, column_parts=column_parts)
    for number, name in enumerate(FIELDS):
        kind = "ptr" if name in POINTERS else "i64"
        code.line(f"store {kind} {values[name]}, ptr {code.offset(context, 8 * number)}, align 8")
    if _is_parallel():
        code.line(f"call void @{PARALLEL_FOR}(i64 0, i64 {threads}, i64 1, ptr @PREFIX.task, ptr {context})")
    else:
        code.line(f"call void @PREFIX.task(i64 0, i64 1, ptr {context})")
    return code.finish()


def _is_parallel() -> bool:
    """Whether torch's threads can be used from here."""
    return has_symbol(PARALLEL_FOR) and has_symbol(THREAD_COUNT)


def _declare(module: Module, shape: Shape) -> None:
    declare(module, shape)
    module.declare("llvm.smax.i64", "i64", "i64, i64")
    module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1")
    module.declare("aligned_alloc", "noalias ptr", "i64, i64")
    module.declare("free", "void", "ptr")
    if _is_parallel():
        module.declare(THREAD_COUNT, "i32", "")
        module.declare(PARALLEL_FOR, "void", "i64, i64, i64, ptr, ptr")
