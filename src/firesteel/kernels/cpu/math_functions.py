"""Functions such as exp and erf: where a vector of them comes from.

In order: inline code (`polynomials`, `trigonometry`), the SLEEF inside libtorch, which torch itself uses, and the C
library lane by lane. glibc's libmvec has errors of two to four units in the last place, more than twice torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ...functional.graph import Unsupported
from ...native.templates import filled
from . import doubles, polynomials, trigonometry
from .operands import Operand
from .scopes import Emitter
from .target import has_symbol

Rule = Callable[[Emitter, list[Operand]], Operand]


def inline(written_out: Callable[[Emitter, Operand], Operand], otherwise: Rule) -> Rule:
    """A function that is written out for float32, and comes from elsewhere for float64."""
    return lambda e, args: (written_out(e, args[0]) if args[0].dtype is torch.float32 else otherwise(e, args))


def of_doubles(written_out: Callable[..., Operand], otherwise: Rule) -> Rule:
    """A function that is written out for float64, and comes from elsewhere for float32."""
    return lambda e, args: (written_out(e, *args) if args[0].dtype is torch.float64 else otherwise(e, args))


def library(name: str, accuracy: str) -> Rule:
    """A function of SLEEF, whose names end in the accuracy, or of the C library where there is no vector of it."""

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        dtype, lanes = args[0].dtype, args[0].lanes
        if lanes == 1:
            return _scalar(e, name, args)
        width = e.target.vector_bytes // dtype.itemsize
        vector = _vector_name(e, name, accuracy, dtype, width)
        if vector is None:
            return _lane_by_lane(e, name, args)
        if lanes < width:
            padding = list(range(lanes)) + [-1] * (width - lanes)
            whole = e.call(vector, *[e.shuffle(arg, None, padding) for arg in args])
            return e.shuffle(whole, None, list(range(lanes)))
        pieces = [e.pieces(arg, width) for arg in args]
        return e.join([e.call(vector, *parts) for parts in zip(*pieces, strict=True)])

    return rule


def _vector_name(e: Emitter, name: str, accuracy: str, dtype: torch.dtype, width: int) -> str | None:
    instructions = {"x86_64": {64: "avx512f", 32: "avx2", 16: "sse4"}, "aarch64": {16: "advsimd"}}
    ending = instructions.get(e.target.architecture, {}).get(e.target.vector_bytes)
    full = f"Sleef_{name}{'f' if dtype is torch.float32 else 'd'}{width}_{accuracy}{ending}"
    return full if ending is not None and has_symbol(full) else None


def lane_by_lane(name: str) -> Rule:
    """A function of the C library that has no vector form."""
    return lambda e, args: _lane_by_lane(e, name, args)


def _scalar(e: Emitter, name: str, args: list[Operand]) -> Operand:
    """One call of the C library."""
    full = name + ("f" if args[0].dtype is torch.float32 else "")
    # LLVM takes the remainder of a finite number by one that is not zero for a number, though the divisor may be NaN.
    return e.call(full, *args, attributes="nounwind willreturn memory(none) nobuiltin") if name == "fmod" \
        else e.call(full, *args)


def _lane_by_lane(e: Emitter, name: str, args: list[Operand]) -> Operand:
    lanes = args[0].lanes
    if lanes == 1:
        return _scalar(e, name, args)
    result = Operand("poison", args[0].dtype, lanes)
    for lane in range(lanes):
        one = _scalar(e, name, [e.extract(arg, lane) for arg in args])
        result = e.insert(result, one, lane)
    return result


exp = inline(polynomials.exp, of_doubles(doubles.exp, library("exp", "u10")))
log = inline(polynomials.log, of_doubles(doubles.log, library("log", "u10")))
tanh = inline(polynomials.tanh, of_doubles(doubles.tanh, library("tanh", "u10")))
expm1 = of_doubles(doubles.expm1, library("expm1", "u10"))
sinh = of_doubles(doubles.sinh, library("sinh", "u10"))
cosh = of_doubles(doubles.cosh, library("cosh", "u10"))
hypot = of_doubles(doubles.hypot, library("hypot", "u05"))
log1p = of_doubles(lambda e, x: doubles.log1p(e, x, log), library("log1p", "u10"))
erf = inline(polynomials.erf, library("erf", "u10"))


def _sigmoid(e: Emitter, args: list[Operand]) -> Operand:
    """1 / (1 + exp(-x))"""
    x = args[0]
    one = e.constant(1.0, x.dtype, x.lanes)
    negated = e.instruction(f"fneg {x.typed}", x.dtype, x.lanes)
    return e.binary("fdiv", one, e.binary("fadd", one, exp(e, [negated])))


sigmoid = inline(polynomials.sigmoid, _sigmoid)


def sine_or_cosine(name: str) -> Rule:
    """``sin`` or ``cos``: of ordinary float32 written out."""
    called = library(name, "u10")
    return inline(lambda e, x: trigonometry.emit(e, name, x, called), called)


def inverse_hyperbolic(name: str) -> Rule:
    """``asinh`` or ``acosh``: the library squares its argument, so large ones go by log(2*|x|)."""
    called = library(name, "u10")

    def rule(e: Emitter, args: list[Operand]) -> Operand:
        x = args[0]
        if name == "asinh" and x.dtype is torch.float64:
            return doubles.asinh(e, x, log)
        size = e.intrinsic("fabs", x) if name == "asinh" else x
        limit = 2.0**40 if x.dtype is torch.float32 else 2.0**300
        far = e.binary("fadd", log(e, [size]), e.constant(math.log(2), x.dtype, x.lanes))
        far = e.intrinsic("copysign", far, x)
        return e.select(e.compare("ogt", size, e.constant(limit, x.dtype, x.lanes)), far, called(e, [x]))

    return rule


def integer_power(e: Emitter, args: list[Operand]) -> Operand:
    """Integers to integer powers, wrapping; negative exponents give what torch gives: 0, or ±1 for ±1."""
    base, exponent = args
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
