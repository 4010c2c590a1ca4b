"""Values of the loop IR as Triton expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ...shapes import Expr, Symbol, polynomials
from ...shapes.printing import ATOM, IndexPrinter, Text
from ..ir import Value


class Unsupported(Exception):
    """Something that this printer has no Triton for."""


DTYPES = {
    torch.float64: "tl.float64", torch.float32: "tl.float32", torch.float16: "tl.float16",
    torch.bfloat16: "tl.bfloat16", torch.int64: "tl.int64", torch.int32: "tl.int32", torch.int16: "tl.int16",
    torch.int8: "tl.int8", torch.uint8: "tl.uint8", torch.bool: "tl.int1",
}  # fmt: skip

HELPERS = {
    "maximum": "return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)",
    "product": "return a * b",
    "either": "return a | b",
    "both": "return a & b",
    "exclusive": "return a ^ b",
    "floor_divide": "q = a // b\n    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), q - 1, q)",
    "floor_modulo": "r = a % b\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)",
    "float_modulo": "r = libdevice.fmod(a, b)\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)",
}
"""Functions of a and b that kernels define when they use them."""

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_FLOAT_CALLS = {
    "abs": "tl.abs", "fma": "tl.fma", "floor": "tl.floor", "ceil": "tl.ceil",
    "min": "minimum", "max": "maximum", "remainder": "float_modulo", "erf": "tl.erf", "exp": "libdevice.exp",
    "fmin": "libdevice.fmin", "fmax": "libdevice.fmax", "mod_trunc": "libdevice.fmod", "round": "libdevice.rint",
    **{name: f"libdevice.{name}" for name in (
        "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "tanh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma", "trunc", "pow", "atan2", "fmod", "copysign",
        "nextafter", "hypot",
    )},
}  # fmt: skip
_INTEGER_CALLS = {"min": "tl.minimum", "max": "tl.maximum", "abs": "tl.abs", "div_floor": "floor_divide",
                  "remainder": "floor_modulo"}  # fmt: skip


class TritonIndexPrinter(IndexPrinter):
    """Index code in Triton's Python, where the names of symbols are given."""

    def __init__(self, names: Mapping[Symbol, str], helper: Callable[[str], str]) -> None:
        super().__init__()
        self.names = names
        self.helper = helper

    def symbol(self, symbol: Symbol) -> Text:
        return self.names.get(symbol, symbol.name), ATOM

    def binary(self, op: str, left: Expr, right: Expr) -> Text:
        if op not in self.operators:
            return super().binary(op, left, right)
        # Indices and sizes are not negative, except where padding has subtracted from them.
        if _may_be_negative(left):
            name = self.helper("floor_divide" if op == "floordiv" else "floor_modulo")
            return f"{name}({self.print(left)}, {self.print(right)})", ATOM
        sign = {"floordiv": " // ", "mod": " % "}[op]
        return f"({self.wrap(left, ATOM)}{sign}{self.wrap(right, ATOM)})", ATOM

    def nested(self, name: str, texts: list[str]) -> Text:
        return super().nested({"min": "tl.minimum", "max": "tl.maximum"}[name], texts)

    def junction(self, op: str, operands: tuple[Expr, ...]) -> Text:
        sign = {"and": " & ", "or": " | "}[op]
        return sign.join(f"({self.print(operand)})" for operand in operands), ATOM - 4

    def choice(self, condition: Expr, then: Expr, otherwise: Expr) -> Text:
        return f"tl.where({self.print(condition)}, {self.print(then)}, {self.print(otherwise)})", ATOM


def _may_be_negative(expr: Expr) -> bool:
    constant, terms = polynomials.parts(expr)
    return constant < 0 or any(coefficient < 0 for _, coefficient in terms)


def constant(value: Value) -> str:
    """A literal. Triton gives a Python number the dtype of what it meets."""
    data = value.data
    if isinstance(data, float) and not math.isfinite(data):
        return f"float('{data}')"
    return repr(data)


def operation(node: Value, args: Sequence[str], helper: Callable[[str], str]) -> str:
    """An operation on operands that are names, literals or in parentheses."""
    floats = node.args[0].dtype.is_floating_point if node.op != "where" else False
    match node.op:
        case "where":
            return f"tl.where({', '.join(args)})"
        case "cast" if node.dtype is torch.bool:
            return f"({args[0]} != 0)"
        case "cast":
            return f"{args[0]}.to({DTYPES[node.dtype]})"
        case "bitcast":
            return f"{args[0]}.to({DTYPES[node.dtype]}, bitcast=True)"
        case "neg":
            return f"(-{args[0]})"
        case "not":
            return f"({args[0]} == 0)" if node.dtype is torch.bool else f"(~{args[0]})"
        case "isnan":
            return f"({args[0]} != {args[0]})"
        case "isinf":
            return f"(tl.abs({args[0]}) == float('inf'))"
        case "sign":
            kind = DTYPES[node.dtype]
            return f"(({args[0]} > 0).to({kind}) - ({args[0]} < 0).to({kind}))"
        case "rsqrt" | "reciprocal" if floats:
            return _divided("1.0", _root(args[0], node.dtype) if node.op == "rsqrt" else args[0], node.dtype)
        case "sigmoid" if floats:
            return _divided("1.0", f"(libdevice.exp(-{args[0]}) + 1.0)", node.dtype)
        case "div":
            return _divided(args[0], args[1], node.dtype)
        case "sqrt":
            return _root(args[0], node.dtype)
        case "div_trunc" | "mod_trunc" if not floats:
            return f"({args[0]} {'//' if node.op == 'div_trunc' else '%'} {args[1]})"
    if node.op in _INFIX:
        return f"({args[0]} {_INFIX[node.op]} {args[1]})"
    name = (_FLOAT_CALLS if floats else _INTEGER_CALLS).get(node.op)
    if name is None:
        raise Unsupported(f"{node.op} of {node.args[0].dtype}")
    return f"{helper(name) if name in HELPERS else name}({', '.join(args)})"


def _divided(a: str, b: str, dtype: torch.dtype) -> str:
    """A quotient. In float32 Triton's plain division and square root are not rounded correctly, as eager's are."""
    return f"tl.div_rn({a}, {b})" if dtype is torch.float32 else f"({a} / {b})"


def _root(a: str, dtype: torch.dtype) -> str:
    return f"tl.sqrt_rn({a})" if dtype is torch.float32 else f"tl.sqrt({a})"
