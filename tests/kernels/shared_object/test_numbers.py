"""Shape expressions as code give what Python gives."""

from __future__ import annotations

import ctypes
import random

from firesteel.kernels.cpu.engine import compile_text
from firesteel.kernels.shared_object.checked_code import CheckedFunction, PackageModule
from firesteel.kernels.shared_object.numbers import Numbers, add_helpers
from firesteel.shapes import and_, eq, floor, if_else, maximum, minimum, ne, not_, or_, to_float, trunc
from firesteel.shapes.arithmetic import absolute, bitxor, ceil, lshift, math_call, pow_by_natural, round_, rshift
from firesteel.shapes.expr import symbol

A, B, C = (symbol(name) for name in "abc")
REAL = symbol("x", "float")
INTEGERS = [
    A * B * B - 3 * C + 7, A // 3, A // -3, A % 5, (A - 100) // B, (A - 100) % B, (A - B) // -7, (A - B) % -7,
    maximum(A, B, C, 2), minimum(A - B, C, 9), absolute(A - B), pow_by_natural(A % 5, B % 4), bitxor(A, B),
    lshift(A, 2), rshift(A - B, 1), if_else(A > B, A, B * 2), floor(to_float(A) / 3.0), ceil(to_float(A) / B),
    trunc(to_float(A - B) / 4), round_(to_float(A) / 2),
]  # fmt: skip
TRUTHS = [
    eq(A % 3, 0), ne(A, B), A >= B + 1, and_(A > 2, B > 3, C < 50), or_(A > 90, B < 9), not_(eq(A, C)), REAL < 0.25,
    and_(REAL > 0.0, A > 1), if_else(A > B, eq(B, 3), A > 7),
]  # fmt: skip
FLOATS = [
    REAL * 2.0 + 1.0, REAL / 3.0 - A, -REAL, absolute(REAL), math_call("sqrt", absolute(REAL)), math_call("exp", REAL),
    to_float(A) * 0.5, if_else(A > B, REAL, to_float(B)),
]  # fmt: skip


def text(name: str) -> str:
    """A function that stores the values of all expressions."""
    module = PackageModule()
    add_helpers(module)
    code = CheckedFunction(module, f"void @{name}(ptr %integers, ptr %reals, ptr %found, ptr %results)")
    values = {A: code.load("i64", "%integers"), B: code.load("i64", code.element("i64", "%integers", 1)),
              C: code.load("i64", code.element("i64", "%integers", 2)), REAL: code.load("double", "%reals")}
    numbers = Numbers(code, values.__getitem__)
    for position, expr in enumerate(INTEGERS + TRUTHS):
        value = numbers.integer(expr)
        code.line(f"store i64 {value}, ptr {code.element('i64', '%found', position)}, align 8")
    for position, expr in enumerate(FLOATS):
        value = numbers.double(expr)
        code.line(f"store double {value}, ptr {code.element('double', '%results', position)}, align 8")
    code.line("ret void")
    module.functions.append(code)
    return module.text()


def test_values_are_those_of_python():
    made = compile_text("numbers of a test", text)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(made.address)
    chance = random.Random(0)
    for _ in range(300):
        values = {A: chance.randint(1, 100), B: chance.randint(1, 100), C: chance.randint(1, 100),
                  REAL: chance.uniform(-2, 2)}
        found, results = (ctypes.c_int64 * 40)(), (ctypes.c_double * 40)()
        function((ctypes.c_int64 * 3)(values[A], values[B], values[C]), (ctypes.c_double * 1)(values[REAL]), found,
                 results)
        for position, expr in enumerate(INTEGERS + TRUTHS):
            assert found[position] == int(expr.evaluate(values)), (expr, values)
        for position, expr in enumerate(FLOATS):
            assert results[position] == float(expr.evaluate(values)), (expr, values)
