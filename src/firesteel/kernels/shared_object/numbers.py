"""Shape expressions as code: integers of 64 bits, doubles and truth values, each computed once."""

from __future__ import annotations

import struct
from collections.abc import Callable

from ...native.templates import filled
from ...shapes import Call, Const, Expr, Product, Sum, Symbol
from ...shapes.operations import MATH_FUNCTIONS
from .checked_code import CheckedFunction, PackageModule

_INTEGERS = {"floordiv": "fs.floordiv", "mod": "fs.mod", "pow": "fs.pow"}
_BITS = {"mul": "mul", "lshift": "shl", "rshift": "ashr", "bitand": "and", "bitor": "or", "bitxor": "xor"}
_FLOATS = {"fadd": "fadd", "fsub": "fsub", "fmul": "fmul", "truediv": "fdiv"}
_COMPARISONS = {"eq": ("eq", "oeq"), "ne": ("ne", "une"), "lt": ("slt", "olt"), "le": ("sle", "ole")}
_ZERO = {"eq0": "eq", "ne0": "ne", "ge0": "sge"}
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "roundeven"}


class NotPrintable(Exception):
    """An expression that has no code here."""


def add_helpers(module: PackageModule) -> None:
    """The functions that expressions call."""
    module.functions.append(filled("kernels/shared_object/numbers.ll", {}))


class Numbers:
    """Computes expressions in a function; ``symbol`` finds the value of a symbol, of the symbol's own kind."""

    def __init__(self, code: CheckedFunction, symbol: Callable[[Symbol], str]) -> None:
        self.code = code
        self.symbol = symbol
        self.known: dict[Expr, str] = {}

    def integer(self, expr: Expr) -> str:
        """The value as i64."""
        if isinstance(expr, Const):
            return str(int(expr.value))
        value = self.value(expr)
        if expr.kind == "float":
            raise NotPrintable(f"the number {expr} where an integer is needed")
        return self.code.value(f"zext i1 {value} to i64") if expr.kind == "bool" else value

    def double(self, expr: Expr) -> str:
        """The value as double."""
        if isinstance(expr, Const):
            return f"0x{struct.unpack('<Q', struct.pack('<d', float(expr.value)))[0]:016X}"
        if expr.kind == "float":
            return self.value(expr)
        return self.code.value(f"sitofp i64 {self.integer(expr)} to double")

    def truth(self, expr: Expr) -> str:
        """The value as i1."""
        if isinstance(expr, Const):
            return "true" if expr.value else "false"
        if expr.kind == "bool":
            return self.value(expr)
        if expr.kind == "float":
            return self.code.value(f"fcmp une double {self.value(expr)}, 0.0")
        return self.code.value(f"icmp ne i64 {self.integer(expr)}, 0")

    def value(self, expr: Expr) -> str:
        """The value of an expression that is no constant, of its own kind."""
        if expr not in self.known:
            self.known[expr] = self._compute(expr)
        return self.known[expr]

    def _compute(self, expr: Expr) -> str:
        code = self.code
        match expr:
            case Symbol():
                return self.symbol(expr)
            case Sum():
                total = str(expr.const) if expr.const else ""
                for part, count in expr.terms:
                    term = self.integer(part)
                    if count != 1:
                        term = code.value(f"mul i64 {term}, {count}")
                    total = term if not total else code.value(f"add i64 {total}, {term}")
                return total
            case Product():
                result = ""
                for base, power in expr.factors:
                    factor = self.integer(base)
                    for _ in range(power):
                        result = code.value(f"mul i64 {result}, {factor}") if result else factor
                return result
            case Call():
                return self._call(expr.op, expr.operands)
        raise NotPrintable(str(expr))

    def _call(self, op: str, operands: tuple[Expr, ...]) -> str:
        code = self.code
        floating = any(operand.kind == "float" for operand in operands)
        if op in _INTEGERS:
            left, right = map(self.integer, operands)
            return code.value(f"call i64 @{_INTEGERS[op]}(i64 {left}, i64 {right})")
        if op in _BITS:
            left, right = map(self.integer, operands)
            return code.value(f"{_BITS[op]} i64 {left}, {right}")
        if op in _FLOATS:
            left, right = map(self.double, operands)
            return code.value(f"{_FLOATS[op]} double {left}, {right}")
        if op in ("min", "max"):
            return self._extremum(f"s{op}", [self.integer(operand) for operand in operands])
        if op == "abs":
            self.code.module.declare("llvm.abs.i64", "i64", "i64, i1")
            return code.value(f"call i64 @llvm.abs.i64(i64 {self.integer(operands[0])}, i1 false)")
        if op == "fneg":
            return code.value(f"fneg double {self.double(operands[0])}")
        if op == "fabs":
            return self._function("llvm.fabs.f64", [self.double(operands[0])])
        if op == "float":
            return self.double(operands[0])
        if op in _ROUNDING and len(operands) == 1:
            rounded = self._function(f"llvm.{_ROUNDING[op]}.f64", [self.double(operands[0])])
            return code.value(f"fptosi double {rounded} to i64")
        if op in MATH_FUNCTIONS:
            return self._function(op, [self.double(operands[0])])
        if op == "fpow":
            return self._function("pow", [self.double(operand) for operand in operands])
        if op in _ZERO:
            return code.value(f"icmp {_ZERO[op]} i64 {self.integer(operands[0])}, 0")
        if op in _COMPARISONS:
            whole, real = _COMPARISONS[op]
            if floating:
                return code.value(f"fcmp {real} double {self.double(operands[0])}, {self.double(operands[1])}")
            return code.value(f"icmp {whole} i64 {self.integer(operands[0])}, {self.integer(operands[1])}")
        if op == "not":
            return code.value(f"xor i1 {self.truth(operands[0])}, true")
        if op in ("and", "or"):
            result = self.truth(operands[0])
            for operand in operands[1:]:
                result = code.value(f"{op} i1 {result}, {self.truth(operand)}")
            return result
        if op == "ifelse":
            condition = self.truth(operands[0])
            if floating:
                then, otherwise = (self.double(operand) for operand in operands[1:])
                return code.value(f"select i1 {condition}, double {then}, double {otherwise}")
            if all(operand.kind == "bool" for operand in operands):
                then, otherwise = (self.truth(operand) for operand in operands[1:])
                return code.value(f"select i1 {condition}, i1 {then}, i1 {otherwise}")
            then, otherwise = (self.integer(operand) for operand in operands[1:])
            return code.value(f"select i1 {condition}, i64 {then}, i64 {otherwise}")
        raise NotPrintable(f"the operation {op} on sizes")

    def _extremum(self, name: str, values: list[str]) -> str:
        self.code.module.declare(f"llvm.{name}.i64", "i64", "i64, i64")
        result = values[0]
        for value in values[1:]:
            result = self.code.value(f"call i64 @llvm.{name}.i64(i64 {result}, i64 {value})")
        return result

    def _function(self, name: str, arguments: list[str]) -> str:
        self.code.module.declare(name, "double", ", ".join(["double"] * len(arguments)))
        given = ", ".join(f"double {argument}" for argument in arguments)
        return self.code.value(f"call double @{name}({given})")
