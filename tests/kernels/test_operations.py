"""The table of operations: what a row says is what both printers do."""

from __future__ import annotations

import ast

import pytest
import torch

from firesteel.functional import Unsupported
from firesteel.kernels import ir
from firesteel.kernels.cpu.engine import llvm_text
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.operations import HEAVY, OPERATIONS
from firesteel.kernels.verify import verify_kernel
from firesteel.shapes import as_expr, symbol

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]


def kernel_of(name, dtype):
    axis = ir.Axis(symbol("i0"), as_expr(100))
    dtypes = [torch.bool if name == "where" and number == 0 else dtype for number in range(OPERATIONS[name].arity)]
    names = [f"x{number}" for number in range(len(dtypes))]
    value = ir.op(name, *[ir.load(of, axis.symbol, kind) for of, kind in zip(names, dtypes)])
    buffers = [ir.Buffer(of, kind, (as_expr(100),), (as_expr(1),))
               for of, kind in zip([*names, "out"], [*dtypes, value.dtype])]
    loop = ir.Loop(axis, [ir.Store(ir.Place("out", axis.symbol), value)], parallel=True)
    return ir.Kernel("k", buffers, [], [loop], writes=frozenset({"out"}))


def text_of(printer, kernel):
    try:
        return printer(kernel)
    except Unsupported:
        return None


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_printed_where_they_have_a_rule(name):
    operation = OPERATIONS[name]
    for dtype in DTYPES:
        kernel = kernel_of(name, dtype)
        verify_kernel(kernel)
        source = text_of(lambda kernel: print_triton(kernel).source, kernel)
        assert source is not None or operation.triton.rule(dtype) is None or dtype is torch.bool
        if source is not None:
            ast.parse(source)  # with the helpers that it calls
        if name != "where":
            code = text_of(llvm_text, kernel)
            assert (code is not None) == (operation.llvm.rule(dtype) is not None) or dtype is torch.bool


def test_every_target_has_rules_for_every_operation_but_these():
    assert {name for name, row in OPERATIONS.items() if row.llvm.floats is row.llvm.integers is None} == {
        "where", "philox"}  # the first is printed apart, the second is a GPU's
    assert not {name for name, row in OPERATIONS.items() if row.triton.floats is row.triton.integers is None}


def test_costs_tell_division_and_random_numbers_from_addition():
    costs = [OPERATIONS[name].cost for name in ("add", "div", "div_floor", "philox")]
    assert sorted(costs, key=lambda cost: cost.arithmetic) == sorted(costs, key=lambda cost: cost.scheduled) == costs
    assert {"exp", "mod_trunc", "remainder"} <= HEAVY and not {"add", "div", "sqrt"} & HEAVY
