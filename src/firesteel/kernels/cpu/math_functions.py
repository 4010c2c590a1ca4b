"""Functions such as exp and erf: where a vector of them comes from.

In order: inline code (`polynomials`, `trigonometry`), the SLEEF inside libtorch, which torch itself uses, and the C
library lane by lane. glibc's libmvec has errors of two to four units in the last place, more than twice torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ...native.templates import filled
from . import trigonometry
from .operands import Operand, Unsupported
from .polynomials import INLINE
from .scopes import Emitter
from .target import has_symbol

LIBM = {
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "lgamma": "lgamma", "pow": "pow", "atan2": "atan2", "hypot": "hypot", "fmod": "fmod", "nextafter": "nextafter",
}
SLEEF = {
    "exp2": "u10", "expm1": "u10", "log2": "u10", "log10": "u10", "log1p": "u10", "tan": "u10", "asin": "u10",
    "acos": "u10", "atan": "u10", "sinh": "u10", "cosh": "u10", "tanh": "u10", "asinh": "u10", "acosh": "u10",
    "atanh": "u10", "erf": "u10", "erfc": "u15", "lgamma": "u10", "pow": "u10", "atan2": "u10", "hypot": "u05",
    "exp": "u10", "log": "u10", "sin": "u10", "cos": "u10", "fmod": "", "nextafter": "",
}


def emit(e: Emitter, op: str, args: list[Operand]) -> Operand:
    """A function of floats."""
    if args[0].dtype is torch.float32:
        if op in INLINE:
            return INLINE[op](e, args[0])
        if op in ("sin", "cos"):
            return trigonometry.emit(e, op, args[0])
    special = SPECIAL.get(op)
    if special is not None:
        return special(e, args)
    return library(e, op, args)


def library(e: Emitter, op: str, args: list[Operand]) -> Operand:
    """A function from a vector library, or the C library."""
    dtype, lanes = args[0].dtype, args[0].lanes
    if op not in LIBM:
        raise Unsupported(f"the function {op}")
    if lanes == 1:
        return scalar(e, op, args)
    width = e.target.vector_bytes // dtype.itemsize
    name = _vector_name(e, op, dtype, width)
    if name is None:
        return lane_by_lane(e, op, args)
    if lanes < width:
        padding = list(range(lanes)) + [-1] * (width - lanes)
        whole = e.call(name, *[e.shuffle(arg, None, padding) for arg in args])
        return e.shuffle(whole, None, list(range(lanes)))
    pieces = [e.pieces(arg, width) for arg in args]
    return e.join([e.call(name, *parts) for parts in zip(*pieces, strict=True)])


def _vector_name(e: Emitter, op: str, dtype: torch.dtype, width: int) -> str | None:
    if op in SLEEF:
        instructions = {"x86_64": {64: "avx512f", 32: "avx2", 16: "sse4"}, "aarch64": {16: "advsimd"}}
        ending = instructions.get(e.target.architecture, {}).get(e.target.vector_bytes)
        name = f"Sleef_{op}{'f' if dtype is torch.float32 else 'd'}{width}_{SLEEF[op]}{ending}"
        if ending is not None and has_symbol(name):
            return name
    return None


def scalar(e: Emitter, op: str, args: list[Operand]) -> Operand:
    """One call of the C library."""
    name = LIBM[op] + ("f" if args[0].dtype is torch.float32 else "")
    # LLVM takes the remainder of a finite number by one that is not zero for a number, though the divisor may be NaN.
    return e.call(name, *args, attributes="nounwind willreturn memory(none) nobuiltin") if op == "fmod" \
        else e.call(name, *args)


def lane_by_lane(e: Emitter, op: str, args: list[Operand]) -> Operand:
    """The C library for each lane."""
    lanes = args[0].lanes
    if lanes == 1:
        return scalar(e, op, args)
    result = Operand("poison", args[0].dtype, lanes)
    for lane in range(lanes):
        one = scalar(e, op, [e.extract(arg, lane) for arg in args])
        result = e.insert(result, one, lane)
    return result


def _sigmoid(e: Emitter, args: list[Operand]) -> Operand:
    """1 / (1 + exp(-x))"""
    x = args[0]
    one = e.constant(1.0, x.dtype, x.lanes)
    negated = e.instruction(f"fneg {x.typed}", x.dtype, x.lanes)
    return e.binary("fdiv", one, e.binary("fadd", one, emit(e, "exp", [negated])))


def _inverse_hyperbolic(op: str) -> Callable[[Emitter, list[Operand]], Operand]:
    """asinh and acosh: the library squares its argument, so large ones go by log(2*|x|)."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        x = args[0]
        size = e.intrinsic("fabs", x) if op == "asinh" else x
        limit = 2.0**40 if x.dtype is torch.float32 else 2.0**300
        far = e.binary("fadd", emit(e, "log", [size]), e.constant(math.log(2), x.dtype, x.lanes))
        far = e.intrinsic("copysign", far, x)
        return e.select(e.compare("ogt", size, e.constant(limit, x.dtype, x.lanes)), far, library(e, op, [x]))

    return rule


SPECIAL: dict[str, Callable[[Emitter, list[Operand]], Operand]] = {
    "sigmoid": _sigmoid, "asinh": _inverse_hyperbolic("asinh"), "acosh": _inverse_hyperbolic("acosh"),
}


def integer_power(e: Emitter, base: Operand, exponent: Operand) -> Operand:
    """Integers to integer powers, wrapping."""
    dtype, lanes = base.dtype, base.lanes
    if dtype is torch.bool:
        raise Unsupported("pow of bool")
    name = "firesteel.ipow.i64"
    e.module.helper(name, filled("kernels/cpu/integer_power.ll", {}))
    extend = "sext" if dtype.is_signed else "zext"
    result = Operand("poison", dtype, lanes)
    for lane in range(lanes):
        one = [arg if lanes == 1 else e.extract(arg, lane) for arg in (base, exponent)]
        wide = [arg if dtype.itemsize == 8 else e.convert(extend, arg, torch.int64) for arg in one]
        power = e.instruction(f"call i64 @{name}({', '.join(arg.typed for arg in wide)})", torch.int64, 1)
        if dtype.itemsize < 8:
            power = e.convert("trunc", power, dtype)
        if lanes == 1:
            return power
        result = e.insert(result, Operand(power.text, dtype, 1, power.scope), lane)
    return result
