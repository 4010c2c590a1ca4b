"""Calls of firesteel's own functions in host programs, as code: checks of indices and matrix products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ...shapes import Expr, and_, as_expr, const, ge
from ..cpu import product as products
from ..ir import Buffer, BufferRef, ExternCall
from ..lowering.index_checks import check_indices, check_true

if TYPE_CHECKING:
    from .program import ProgramPrinter



def _is_true(program: ProgramPrinter, flag: BufferRef) -> str:
    """A tensor of one truth value, as i1."""
    code = program.code
    code.call_torch("item_bool", [f"ptr {program.argument(flag)}", f"ptr {code.scratch('i8')}"])
    return code.value(f"icmp ne i8 {code.load('i8', code.scratch('i8'))}, 0")


def _check_true(program: ProgramPrinter, step: ExternCall) -> None:
    fine, message = step.args
    program.code.fail_unless(_is_true(program, fine), _plain(message))


def _check_indices(program: ProgramPrinter, step: ExternCall) -> None:
    outside, _, size, _, kind, dim, _ = step.args
    code = program.code
    good = code.value(f"xor i1 {_is_true(program, outside)}, true")
    if kind in ("embedding", "index_select"):
        code.fail_unless(good, "index out of range in self")
        return
    code.fail_unless(good, f"index out of bounds for dimension {dim} with size %lld",
                     [program.numbers.integer(as_expr(size))])


def _plain(text: str) -> str:
    return text.replace("%", "%%")


def _product(program: ProgramPrinter, step: ExternCall) -> None:
    """Our own product for large matrices, ATen's for others, as `kernels.cpu.product` decides it."""
    code = program.code
    left, right = step.args[:2]
    bias = step.args[2] if len(step.args) > 2 else None
    if not step.out:
        assert step.outputs[0] is not None
        program.new_tensor(program.plan.buffers[step.outputs[0]])
    out = step.kwargs["out"] if step.out else BufferRef(str(step.outputs[0]))
    given: list[Any] = [left, right] if bias is None else [bias, left, right]
    into = torch.ops.aten.mm.out if bias is None else torch.ops.aten.addmm.out
    call = ExternCall(into, tuple(given), {"out": out}, step.outputs, True)
    one, layouts = const(1), [_layout(program, part) for part in (left, right)]
    dense = all(any(stride is one for stride in strides) for _, strides in layouts)
    if program.product is None or not dense or not (bias is None or _layout(program, bias)[1][0] is one):
        program.operators.call(call, [], [])
        return
    (rows, depth), (left_row, left_step) = layouts[0]
    (_, columns), (right_row, right_step) = layouts[1]
    work = rows * columns * depth
    large = program.numbers.truth(and_(ge(rows, products.LEAST_ROWS), ge(columns, products.LEAST_COLUMNS),
                                       ge(depth, products.LEAST_DEPTH), ge(work, products.LEAST_WORK)))
    if large == "false":
        program.operators.call(call, [], [])
        return
    turned = left_step is not one, right_step is not one
    pointers = [_address(program, part) for part in (left, right, bias, out)]
    sizes = [rows, columns, depth, left_step if turned[0] else left_row, right_step if turned[1] else right_row]
    numbers = [*(program.numbers.integer(size) for size in sizes), *(str(int(turn)) for turn in turned)]
    code.module.declare(program.product, "void", ", ".join(["ptr"] * 4 + ["i64"] * 7))
    arguments = ", ".join([*(f"ptr {pointer}" for pointer in pointers), *(f"i64 {number}" for number in numbers)])
    own, usual, after = code.labels("own", "usual", "after")
    code.branch(large, own, usual)
    code.start(own)
    code.line(f"call void @{program.product}({arguments})")
    code.jump(after)
    code.start(usual)
    with program.apart():
        program.operators.call(call, [], [])
    code.jump(after)
    code.start(after)


def _layout(program: ProgramPrinter, reference: BufferRef) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    buffer: Buffer = program.plan.buffers[reference.buffer]
    if reference.shape is None or reference.strides is None:
        return buffer.shape, buffer.strides
    return reference.shape, reference.strides


def _address(program: ProgramPrinter, reference: BufferRef | None) -> str:
    """The address of a view's first element."""
    if reference is None:
        return "null"
    code, start = program.code, program.address(reference.buffer)
    if reference.offset is None or reference.offset is const(0):
        return start
    width = program.plan.buffers[reference.buffer].dtype.itemsize
    moved = code.value(f"mul i64 {program.numbers.integer(reference.offset)}, {width}")
    return code.value(f"getelementptr i8, ptr {start}, i64 {moved}")


def _assert_number(program: ProgramPrinter, step: ExternCall) -> None:
    condition, message = step.args
    program.code.fail_unless(program.numbers.truth(as_expr(condition)), _plain(message))


def _item(program: ProgramPrinter, step: ExternCall) -> None:
    """The number in a tensor of one element."""
    code, handle = program.code, program.argument(step.args[0])
    for symbol, (origin, _, _) in program.plan.symbols.items():
        if origin in step.outputs:
            kind, type_ = {"int": ("int64", "i64"), "float": ("float64", "double"), "bool": ("bool", "i8")}[symbol.kind]
            code.call_torch(f"item_{kind}", [f"ptr {handle}", f"ptr {code.scratch(type_)}"])
            value = code.load(type_, code.scratch(type_))
            program.symbols[symbol] = code.value(f"icmp ne i8 {value}, 0") if type_ == "i8" else value


def _bernoulli(program: ProgramPrinter, step: ExternCall) -> None:
    """Zeros and ones in a new tensor with the strides that the generator's order of draws goes by."""
    output = step.outputs[0]
    if output is not None:
        program.new_tensor(program.plan.buffers[output])
        fill = ExternCall(torch.ops.aten.bernoulli_.float, (BufferRef(output), step.args[2]), {}, step.outputs)
        program.operators.call(fill, [None], [])


def _recurrent_layer(program: ProgramPrinter, step: ExternCall) -> None:
    """Without gradients ATen's own operator does the same."""
    program.call_operator(replace(step, target=torch.ops.aten.mkldnn_rnn_layer.default))


OPERATORS: dict[str, Callable[[ProgramPrinter, ExternCall], None]] = {
    "aten._assert_scalar.default": _assert_number,
    "aten._local_scalar_dense.default": _item,
    "firesteel.bernoulli_strided.default": _bernoulli,
    "firesteel.recurrent_layer.default": _recurrent_layer,
}
"""Operators that are not called as they are: they give numbers, or exist in Python only."""
CALLS: dict[Any, Callable[[ProgramPrinter, ExternCall], None]] = {
    check_true: _check_true,
    check_indices: _check_indices,
    products.product: _product,
    products.product_into: _product,
}
