"""The checker's rows for numbers: reading them from ints and tensors, integer arithmetic, and comparisons.

Numbers are 64 bits wide. What would overflow or divide by zero refuses the call, so that Python's guards, which know
larger numbers and exceptions, decide. Division and remainder round as Python's do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .objects import TYPE, c_function
from .program import Op, Program

if TYPE_CHECKING:
    from .machine import TensorLayout

DECLARATIONS = "\n".join(f"declare {{i64, i1}} @llvm.{name}.with.overflow.i64(i64, i64)" for name in ("smul", "sadd"))
LEAST = -(1 << 63)


def blocks(tensors: TensorLayout | None, field: Callable[..., str]) -> dict[Op, str]:
    """The LLVM IR of each row, to stand in the checker; ``%v``, ``%slot``, ``%ai`` and ``%b`` are its operands."""

    def number(op: Op) -> str:
        return f"  %{op.name}_x = ptrtoint ptr %v to i64\n"

    def other(op: Op) -> str:
        """The source as %…_x and the register numbered index as %…_y."""
        name = op.name
        return (number(op) + field(f"{name}_index", "%pc", 12, "i32")
                + f"  %{name}_y_at = getelementptr i64, ptr %registers, i32 %{name}_index\n"
                f"  %{name}_y = load i64, ptr %{name}_y_at, align 8\n")

    def store(value: str) -> str:
        return f"  store i64 {value}, ptr %slot, align 8\n  br label %next\n"

    def checked(name: str, operation: str, left: str, right: str) -> str:
        """``%name``, unless it overflows."""
        return (f"  %{name}_pair = call {{i64, i1}} @llvm.{operation}.with.overflow.i64(i64 {left}, i64 {right})\n"
                f"  %{name} = extractvalue {{i64, i1}} %{name}_pair, 0\n"
                f"  %{name}_over = extractvalue {{i64, i1}} %{name}_pair, 1\n"
                f"  br i1 %{name}_over, label %none, label %{name}_fits\n{name}_fits:\n")

    def divide(op: Op) -> str:
        """Divides like C, ``%…_q`` and ``%…_r``, and tells whether the signs of remainder and divisor differ."""
        n = op.name
        return (other(op) + f"  %{n}_zero = icmp eq i64 %{n}_y, 0\n  %{n}_minus = icmp eq i64 %{n}_y, -1\n"
                f"  %{n}_least = icmp eq i64 %{n}_x, {LEAST}\n  %{n}_over = and i1 %{n}_minus, %{n}_least\n"
                f"  %{n}_bad = or i1 %{n}_zero, %{n}_over\n  br i1 %{n}_bad, label %none, label %{n}_divide\n"
                f"{n}_divide:\n  %{n}_q = sdiv i64 %{n}_x, %{n}_y\n  %{n}_r = srem i64 %{n}_x, %{n}_y\n"
                f"  %{n}_rest = icmp ne i64 %{n}_r, 0\n  %{n}_signs = xor i64 %{n}_r, %{n}_y\n"
                f"  %{n}_opposite = icmp slt i64 %{n}_signs, 0\n  %{n}_down = and i1 %{n}_rest, %{n}_opposite\n")

    def extreme(op: Op, order: str) -> str:
        n = op.name
        return (other(op) + f"  %{n}_first = icmp {order} i64 %{n}_x, %{n}_y\n"
                f"  %{n}_value = select i1 %{n}_first, i64 %{n}_x, i64 %{n}_y\n" + store(f"%{n}_value"))

    def flag(op: Op, order: str) -> str:
        n = op.name
        return (number(op) + f"  %{n}_holds = icmp {order} i64 %{n}_x, %b\n"
                f"  %{n}_value = zext i1 %{n}_holds to i64\n" + store(f"%{n}_value"))

    def check(op: Op, order: str) -> str:
        n = op.name
        return (number(op) + f"  %{n}_holds = icmp {order} i64 %{n}_x, %b\n"
                f"  br i1 %{n}_holds, label %next, label %none\n")

    def extent(op: Op, function: int) -> str:
        """A size or stride. A row before has checked that this is a tensor with enough dimensions."""
        assert tensors is not None
        n = op.name
        return (f"  %{n}_tensor = getelementptr i8, ptr %v, i64 {tensors.implementation}\n"
                f"  %{n}_status = call i32 inttoptr (i64 {function} to ptr)(ptr %{n}_tensor, ptr %pointer)\n"
                f"  %{n}_ok = icmp eq i32 %{n}_status, 0\n  br i1 %{n}_ok, label %{n}_read, label %none\n{n}_read:\n"
                + field(f"{n}_index", "%pc", 12, "i32") + f"  %{n}_all = load ptr, ptr %pointer, align 8\n"
                f"  %{n}_at = getelementptr i64, ptr %{n}_all, i32 %{n}_index\n"
                f"  %{n}_value = load i64, ptr %{n}_at, align 8\n" + store(f"%{n}_value"))

    nothing = "  br label %none\n"
    as_long = f"inttoptr (i64 {c_function('PyLong_AsLongLongAndOverflow')} to ptr)"
    return {
        Op.INTEGER: (
            field("INTEGER_type", "%v", TYPE) + f"  %INTEGER_is_int = icmp eq i64 %INTEGER_type, {id(int)}\n"
            "  br i1 %INTEGER_is_int, label %INTEGER_read, label %none\nINTEGER_read:\n"
            f"  %INTEGER_value = call i64 {as_long}(ptr %v, ptr %overflow)\n"
            "  %INTEGER_over = load i32, ptr %overflow, align 4\n  %INTEGER_fits = icmp eq i32 %INTEGER_over, 0\n"
            "  br i1 %INTEGER_fits, label %INTEGER_store, label %none\nINTEGER_store:\n" + store("%INTEGER_value")),
        Op.SIZE: extent(Op.SIZE, tensors.sizes) if tensors is not None else nothing,
        Op.STRIDE: extent(Op.STRIDE, tensors.strides) if tensors is not None else nothing,
        Op.SCALE: (number(Op.SCALE) + checked("SCALE_product", "smul", "%SCALE_x", "%ai")
                   + checked("SCALE_sum", "sadd", "%SCALE_product", "%b") + store("%SCALE_sum")),
        Op.ADD_SCALED: (
            other(Op.ADD_SCALED) + checked("ADD_SCALED_product", "smul", "%ADD_SCALED_x", "%ai")
            + checked("ADD_SCALED_sum", "sadd", "%ADD_SCALED_product", "%ADD_SCALED_y") + store("%ADD_SCALED_sum")),
        Op.MULTIPLY: (other(Op.MULTIPLY) + checked("MULTIPLY_product", "smul", "%MULTIPLY_x", "%MULTIPLY_y")
                      + store("%MULTIPLY_product")),
        Op.FLOORDIV: (divide(Op.FLOORDIV) + "  %FLOORDIV_one = zext i1 %FLOORDIV_down to i64\n"
                      "  %FLOORDIV_value = sub i64 %FLOORDIV_q, %FLOORDIV_one\n" + store("%FLOORDIV_value")),
        Op.MOD: (divide(Op.MOD) + "  %MOD_more = select i1 %MOD_down, i64 %MOD_y, i64 0\n"
                 "  %MOD_value = add i64 %MOD_r, %MOD_more\n" + store("%MOD_value")),
        Op.MIN: extreme(Op.MIN, "slt"),
        Op.MAX: extreme(Op.MAX, "sgt"),
        Op.IS_EQUAL: flag(Op.IS_EQUAL, "eq"),
        Op.IS_AT_LEAST: flag(Op.IS_AT_LEAST, "sge"),
        Op.CHOOSE: (
            other(Op.CHOOSE) + "  %CHOOSE_z_at = getelementptr i64, ptr %registers, i64 %b\n"
            "  %CHOOSE_z = load i64, ptr %CHOOSE_z_at, align 8\n  %CHOOSE_true = icmp ne i64 %CHOOSE_x, 0\n"
            "  %CHOOSE_value = select i1 %CHOOSE_true, i64 %CHOOSE_y, i64 %CHOOSE_z\n" + store("%CHOOSE_value")),
        Op.EQUAL: check(Op.EQUAL, "eq"),
        Op.DIFFERENT: check(Op.DIFFERENT, "ne"),
        Op.AT_LEAST: check(Op.AT_LEAST, "sge"),
    }


# Trying it out

Sample = tuple[Callable[[Program], Any], list[Any], list[Any]]


def samples() -> list[Sample]:
    """For the checker's test of itself: rows, ints for which they hold and objects for which they do not.

    Sizes and strides are left out, because a test of Python's layout should not depend on torch's.
    """
    largest = -(LEAST + 1)

    def of(op: Op, expected: int, a: int = 0, b: int = 0) -> Callable[[Program], None]:
        """The result of a row on the argument, and for some rows the constant 7, is `expected`."""

        def build(program: Program) -> None:
            seven = program.load(Op.CONSTANT, a=7)
            x = program.load(Op.INTEGER, 0)
            program.check(Op.EQUAL, program.load(op, x, a, b, index=seven), b=expected)

        return build

    def inverse(op: Op, expected: int) -> Callable[[Program], None]:
        """Like `of`, with 7 on the left."""

        def build(program: Program) -> None:
            x = program.load(Op.INTEGER, 0)
            program.check(Op.EQUAL, program.load(op, program.load(Op.CONSTANT, a=7), index=x), b=expected)

        return build

    def choose(program: Program) -> None:
        x = program.load(Op.INTEGER, 0)
        program.check(Op.EQUAL, program.load(Op.CHOOSE, x, b=program.load(Op.CONSTANT, a=9),
                                             index=program.load(Op.CONSTANT, a=8)), b=8)

    refused = [1 << 63, LEAST - 1, True, 1.0, "1", None]
    found: list[Sample] = [
        (lambda p: p.load(Op.INTEGER, 0), [0, -5, 300, largest, LEAST], refused),
        (lambda p: p.check(Op.EQUAL, p.load(Op.INTEGER, 0), b=-300), [-300], [300, 0, *refused]),
        (lambda p: p.check(Op.DIFFERENT, p.load(Op.INTEGER, 0), b=5), [4, LEAST, largest], [5, *refused]),
        (lambda p: p.check(Op.AT_LEAST, p.load(Op.INTEGER, 0), b=-2), [-2, 0, largest], [-3, LEAST, *refused]),
        (of(Op.SCALE, -6, -4, 2), [2], [-2, 3, largest, LEAST]),
        (of(Op.SCALE, 2, 0, 2), [0, largest, LEAST], []),
        (of(Op.SCALE, LEAST, 1, 1), [], [largest]),
        (of(Op.ADD_SCALED, 1, -3), [2], [1, largest, LEAST]),
        (of(Op.MULTIPLY, -21), [-3], [3, largest, LEAST]),
        (choose, [1, -1], [0]),
    ]
    for op, function in ((Op.FLOORDIV, operator.floordiv), (Op.MOD, operator.mod), (Op.MIN, min), (Op.MAX, max)):
        for x in (-15, -14, -1, 0, 6, 7, 20, LEAST, largest):
            found.append((of(op, function(x, 7)), [x], []))
            if x or op in (Op.MIN, Op.MAX):
                found.append((inverse(op, function(7, x)), [x], []))
            else:
                found.append((inverse(op, 0), [], [0]))
    for op, function in ((Op.IS_EQUAL, operator.eq), (Op.IS_AT_LEAST, operator.ge)):
        found.extend((of(op, int(function(x, 7)), b=7), [x], []) for x in (6, 7, 8))
    least_by_minus_one: Sample = (lambda p: p.load(
        Op.FLOORDIV, p.load(Op.INTEGER, 0), index=p.load(Op.CONSTANT, a=-1)), [5], [LEAST])
    return [*found, least_by_minus_one]
