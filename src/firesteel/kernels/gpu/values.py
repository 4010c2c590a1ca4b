"""Values of the loop IR as Triton expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch

from ...functional.graph import Unsupported
from ...shapes import Call, Expr, Printer, Scalar, Symbol
from ...shapes.expr import Product
from ...shapes.printing import ATOM, MUL, UNARY, Text
from ..ir import Kernel, Value
from ..operations import OPERATIONS
from ..signs import may_be_negative
from . import divisions, short_floats
from .operation_rules import DTYPES

_AB = "a, b"
_FOUND = "a, i, b, j"
HELPERS: dict[str, tuple[str, str]] = {
    "maximum": (_AB, "return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)"),
    "minimum": (_AB, "return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)"),
    "product": (_AB, "return a * b"),
    "total": (_AB, "return a + b"),
    "log_add_exp": (_AB, "m = maximum(a, b)\n    d = libdevice.exp(minimum(a, b) - m)\n"
                    "    return tl.where((a == b) & (tl.abs(a) == float('inf')), a, m + libdevice.log1p(d))"),
    "either": (_AB, "return a | b"),
    "both": (_AB, "return a & b"),
    "exclusive": (_AB, "return a ^ b"),
    "floor_divide": (_AB, "q = a // b\n    return tl.where((a % b != 0) & ((a < 0) != (b < 0)), q - 1, q)"),
    "floor_modulo": (_AB, "r = a % b\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)"),
    "float_modulo": (
        _AB, "r = libdevice.fmod(a, b)\n    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)"),
    "philox": ("seed, low, high, part", "a, b, c, d = tl.philox(seed, low.to(tl.uint32), (low >> 32).to(tl.uint32),\n"
               "                            high.to(tl.uint32), (high >> 32).to(tl.uint32))\n"
               "    return tl.where(part < 2, tl.where(part == 0, a, b), tl.where(part == 2, c, d)).to(tl.int64)"),
    # exp(-abs(a)): a few units of error in the small terms of a sum do not show in it
    "scaling": ("a", "return tl.inline_asm_elementwise('ex2.approx.ftz.f32 $0, $1;', '=f,f', "
                "[tl.abs(a) * -1.4426950408889634], tl.float32, True, 1)"),
    "double_scaling": ("a", "return libdevice.exp(-tl.abs(a))"),
    # Whether the second is what is looked for rather than the first: NaN before all, then the value, then the place.
    "later_max": (_FOUND, "worse = (b > a) | ((b != b) & (a == a))\n"
                  "    return worse | (((a == b) | ((a != a) & (b != b))) & (j < i))"),
    "later_min": (_FOUND, "worse = (b < a) | ((b != b) & (a == a))\n"
                  "    return worse | (((a == b) | ((a != a) & (b != b))) & (j < i))"),
    "argmax": (_FOUND, "c = later_max(a, i, b, j)\n    return tl.where(c, b, a), tl.where(c, j, i)"),
    "argmin": (_FOUND, "c = later_min(a, i, b, j)\n    return tl.where(c, b, a), tl.where(c, j, i)"),
    **short_floats.HELPERS,
    **divisions.HELPERS,
}
"""Functions that kernels define when they use them: parameters and body."""


_NO_INDEX_CODE = frozenset({"pow", "floor", "ceil", "trunc", "round", "is_integer", "not"})


class TritonIndexPrinter(Printer):
    """Index code in Triton's Python, where the names of symbols are given: integers of 64 bits, and nothing else."""

    def __init__(self, names: Mapping[Symbol, str], helper: Callable[[str], str],
                 signed: frozenset[Symbol] = frozenset()) -> None:
        self.names = names
        self.signed = signed
        self.helper = helper

    def visit(self, expr: Expr) -> Text:
        if expr.kind == "float":  # sizes that are computed with floats, such as those of a scaled image
            raise Unsupported(f"index code has no floats: {type(expr).__name__} of {expr}")
        return super().visit(expr)

    def constant(self, value: Scalar) -> Text:
        if isinstance(value, bool):
            return str(int(value)), ATOM
        if abs(value) >= 2**63:
            raise OverflowError(f"{value} does not fit 64 bits")
        return super().constant(value)

    def call(self, call: Call) -> Text:
        if call.op in _NO_INDEX_CODE:
            raise Unsupported(f"index code has no {call.op}: {call}")
        if call.op in ("bitand", "bitor", "bitxor"):
            return f"({super().call(call)[0]})", ATOM
        if call.op in ("min", "max"):
            name = f"tl.{call.op}imum"
            text, *others = self.arguments(call.operands)
            for other in others:
                text = f"{name}({text}, {other})"
            return text, ATOM
        return super().call(call)

    def power(self, base: Expr, exponent: int) -> str:
        return "*".join([self.wrap(base, UNARY)] * exponent)

    def product(self, product: Product) -> Text:
        return super().product(product)[0], MUL

    def symbol(self, symbol: Symbol) -> Text:
        return self.names.get(symbol, symbol.name), ATOM

    def binary(self, op: str, left: Expr, right: Expr) -> Text:
        sign = {"floordiv": " // ", "mod": " % "}.get(op)
        if sign is None:
            return super().binary(op, left, right)
        # Indices and sizes are not negative, except where padding has subtracted from them; numbers may be.
        if any(may_be_negative(operand, lambda symbol: symbol not in self.signed) for operand in (left, right)):
            name = self.helper("floor_divide" if op == "floordiv" else "floor_modulo")
            return f"{name}({self.print(left)}, {self.print(right)})", ATOM
        return f"({self.wrap(left, ATOM)}{sign}{self.wrap(right, ATOM)})", ATOM

    def junction(self, op: str, operands: tuple[Expr, ...]) -> Text:
        sign = {"and": " & ", "or": " | "}[op]
        return sign.join(f"({self.print(operand)})" for operand in operands), ATOM - 4

    def choice(self, condition: Expr, then: Expr, otherwise: Expr) -> Text:
        return f"tl.where({self.print(condition)}, {self.print(then)}, {self.print(otherwise)})", ATOM


def constant(value: Value) -> str:
    """A literal of its dtype; Triton would choose one by the number alone."""
    return f"tl.full([], {_literal(value)}, {DTYPES[value.dtype]})"


def _literal(value: Value) -> str:
    data = value.data
    if isinstance(data, float) and not math.isfinite(data):
        return f"float('{data}')"
    if isinstance(data, bool):
        return str(int(data))
    return repr(data)


_NARROW = (torch.float16, torch.bfloat16)


def operation(node: Value, args: Sequence[str], helper: Callable[[str], str], loose: bool = False) -> str:
    """An operation on operands that are names, calls or in parentheses; a loose one need not be rounded as eager's."""
    if node.op == "cast":
        return _cast(node, args[0])
    if node.op == "bitcast":
        return f"{args[0]}.to({DTYPES[node.dtype]}, bitcast=True)"
    known = OPERATIONS[node.op]
    if known.is_infix and node.args[0].op != node.args[1].op:
        # A plain number takes the dtype of the other operand.
        args = [_literal(arg) if arg.op == "const" and arg.dtype is not torch.bool else text
                for arg, text in zip(node.args, args, strict=True)]
    kind = node.args[-1].dtype
    if kind in _NARROW and not known.takes_short_floats:
        wides = [f"{text}.to(tl.float32)" for text in args]
        wide = (known.triton_loosely(wides, torch.float32, helper) if known.triton_loosely is not None
                else _operation(node, wides, helper, torch.float32))
        return f"{wide}.to({DTYPES[node.dtype]})" if node.dtype is not torch.bool else wide
    if loose and kind is torch.float32 and known.triton_loosely is not None and not _is_power_of_two(node.args[-1]):
        return known.triton_loosely(args, kind, helper)
    return _operation(node, args, helper, kind)


def _cast(node: Value, operand: str) -> str:
    if node.dtype is torch.bool:
        return f"({operand} != 0)"
    if node.args[0].dtype.is_floating_point and node.dtype is torch.uint8:
        return f"{operand}.to(tl.int32).to(tl.uint8)"  # negative numbers wrap, as eager's do
    return f"{operand}.to({DTYPES[node.dtype]})"


def _operation(node: Value, args: Sequence[str], helper: Callable[[str], str], dtype: torch.dtype) -> str:
    rule = OPERATIONS[node.op].triton.rule(dtype)
    if rule is None:
        raise Unsupported(f"{node.op} of {dtype}")
    if node.op == "div" and _is_power_of_two(node.args[1]):
        return f"({args[0]} * {1.0 / node.args[1].data!r})"
    return rule(args, dtype, helper)


def _is_power_of_two(value: Value) -> bool:
    """Whether a number's reciprocal is exact."""
    return (value.op == "const" and math.isfinite(value.data) and abs(math.frexp(value.data)[0]) == 0.5
            and 2.0**-100 < abs(value.data) < 2.0**100)


def identity(kind: str, dtype: torch.dtype) -> str:
    """What a reduction of nothing gives."""
    if kind in ("sum", "xor", "any"):
        return "0"
    if kind in ("prod", "all"):
        return "1"
    if dtype is torch.bool:
        return "0" if kind == "max" else "1"
    if dtype.is_floating_point:
        return "float('-inf')" if kind == "max" else "float('inf')"
    limits = torch.iinfo(dtype)
    return str(limits.min if kind == "max" else limits.max)


def types_of(kernel: Kernel, sizes: str = "i64") -> tuple[str, ...]:
    """The parameters of a kernel in Triton's notation: buffers, then sizes, then numbers."""
    def name(dtype: torch.dtype) -> str:
        if dtype not in DTYPES:
            raise Unsupported(f"dtype {dtype}")
        return (DTYPES[dtype].removeprefix("tl.").replace("float", "fp").replace("bfp", "bf")
                .replace("uint", "u").replace("int", "i"))

    return (*[f"*{name(buffer.dtype)}" for buffer in kernel.buffers], *[sizes] * len(kernel.sizes),
            *["fp64"] * len(kernel.numbers))
