"""Ufuncs: what each does to tensors of its loop's dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from ..undecidable import SYMBOLIC
from .dtypes import is_number
from .registry import UFUNCS, ufunc
from .traced import Tensor

LOGIC = frozenset({numpy.logical_and, numpy.logical_or, numpy.logical_xor, numpy.logical_not})
"""Ufuncs that take elements of any dtype for truth values."""


def _is_integer(x: Tensor) -> bool:
    return not x.dtype.is_floating_point and not x.dtype.is_complex


def _same(x: Tensor) -> Tensor:
    return x.clone()


def _rounding(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Integers are rounded already."""
    return lambda x: _same(x) if _is_integer(x) else function(x)


def _scaled(factor: float) -> Callable[[Any], Any]:
    """Halves are scaled in single precision."""
    return lambda x: x.to(torch.float32) * factor if x.dtype is torch.float16 else x * factor


def _sum_of_complex(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """torch multiplies what it adds by a complex 1, which makes NaN of infinities: real and imaginary parts apart."""
    def total(a: Tensor, b: Tensor) -> Any:
        tensors = [one for one in (a, b) if not is_number(one)]
        if not tensors[0].dtype.is_complex:
            return function(a, b)
        a, b = (torch.full_like(tensors[0], one) if is_number(one) else one for one in (a, b))
        return torch.complex(function(a.real, b.real), function(a.imag, b.imag))

    return total


def _simple() -> None:
    """Ufuncs that are functions of torch's."""
    single: dict[str, Any] = {
        "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2,
        "log10": torch.log10, "log1p": torch.log1p, "sqrt": torch.sqrt, "square": torch.square,
        "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "sinh": torch.sinh, "cosh": torch.cosh,
        "tanh": torch.tanh, "arcsin": torch.asin, "arccos": torch.acos, "arctan": torch.atan,
        "arcsinh": torch.asinh, "arccosh": torch.acosh, "arctanh": torch.atanh,
        "absolute": lambda x: _same(x) if x.dtype is torch.bool else torch.abs(x), "fabs": torch.abs,
        "negative": torch.neg, "positive": _same,
        "logical_not": torch.logical_not, "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
        "signbit": torch.signbit, "floor": _rounding(torch.floor), "ceil": _rounding(torch.ceil),
        "trunc": _rounding(torch.trunc), "rint": torch.round, "bitwise_invert": torch.bitwise_not,
        "conjugate": lambda x: torch.conj_physical(x) if x.dtype.is_complex else _same(x),
        "deg2rad": _scaled(math.pi / 180), "radians": _scaled(math.pi / 180),
        "rad2deg": _scaled(180 / math.pi), "degrees": _scaled(180 / math.pi),
    }
    double: dict[str, Any] = {
        "add": _sum_of_complex(lambda a, b: a + b), "subtract": _sum_of_complex(lambda a, b: a - b),
        "multiply": lambda a, b: a * b,
        "divide": lambda a, b: a / b, "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
        "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b, "greater": lambda a, b: a > b,
        "greater_equal": lambda a, b: a >= b,
    }
    of_tensors: dict[str, Any] = {
        # of zeros of both signs NumPy takes the second, torch the first
        "maximum": lambda a, b: torch.maximum(b, a), "minimum": lambda a, b: torch.minimum(b, a),
        "fmax": torch.fmax, "fmin": torch.fmin,
        "arctan2": torch.atan2, "hypot": torch.hypot, "logaddexp": torch.logaddexp, "logaddexp2": torch.logaddexp2,
        "copysign": torch.copysign, "nextafter": torch.nextafter,
        "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
        "bitwise_xor": torch.bitwise_xor, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
        "logical_xor": torch.logical_xor, "float_power": torch.pow,
    }
    for name, function in {**single, **double}.items():
        ufunc(getattr(numpy, name))(function)
    for name, function in of_tensors.items():
        ufunc(getattr(numpy, name))(function)
        TENSORS_ONLY.add(getattr(numpy, name))


TENSORS_ONLY: set[Any] = set()
"""Ufuncs whose functions do not take plain numbers."""
_simple()


def of_tensors(*names: Any) -> Callable[[Any], Any]:
    """Registers a function that takes no plain numbers."""
    def add(function: Any) -> Any:
        TENSORS_ONLY.update(names)
        return ufunc(*names)(function)

    return add


@ufunc(numpy.sign)
def sign(x: Tensor) -> Any:
    if x.dtype.is_complex:
        return torch.sgn(x)
    # torch's sign of NaN is 0
    return torch.sign(x) if _is_integer(x) else torch.where(torch.isnan(x), x, torch.sign(x))


@of_tensors(numpy.heaviside)
def heaviside(x: Tensor, at_zero: Tensor) -> Any:
    # torch's of NaN is 0
    return torch.where(torch.isnan(x), x, torch.heaviside(x, at_zero))


@of_tensors(numpy.gcd)
def gcd(a: Tensor, b: Tensor) -> Any:
    # the smallest integer of a dtype has no absolute value there
    return torch.abs(torch.gcd(a.to(torch.int64), b.to(torch.int64)))


@of_tensors(numpy.lcm)
def lcm(a: Tensor, b: Tensor) -> Any:
    a, b = a.to(torch.int64), b.to(torch.int64)
    divisor = gcd(a, b)
    parts = torch.abs(torch.div(a, torch.where(divisor == 0, 1, divisor), rounding_mode="trunc"))
    return parts * torch.abs(b)


def _in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """Steps on half precision are not rounded one by one: NumPy computes such ufuncs in single precision."""
    def computed(*operands: Tensor) -> Any:
        if operands[0].dtype is not torch.float16:
            return function(*operands)
        return function(*(one.to(torch.float32) for one in operands))

    return computed


@ufunc(numpy.cbrt)
@_in_single
def cbrt(x: Tensor) -> Any:
    """A polynomial of the mantissa, with an error of some thousandths, then two steps that each treble the digits."""
    mantissa, exponent = torch.frexp(x)
    third = torch.floor(exponent.to(x.dtype) * (1 / 3))
    left = exponent.to(x.dtype) - 3 * third
    size = torch.abs(mantissa) * torch.where(left == 0, 1.0, torch.where(left == 1, 2.0, 4.0))  # from 0.5 to 4, or 0
    root = (((size * _CUBE_ROOT[4] + _CUBE_ROOT[3]) * size + _CUBE_ROOT[2]) * size + _CUBE_ROOT[1]) * size
    root = root + _CUBE_ROOT[0]
    for _ in range(2):
        cube = root * root * root
        root = root - root * (cube - size) / (2 * cube + size)
    bits, middle, integer = (52, 1023, torch.int64) if x.dtype is torch.float64 else (23, 127, torch.int32)
    power = ((third.to(integer) + middle) << bits).view(x.dtype)
    return torch.where((x == 0) | ~torch.isfinite(x), x, torch.copysign(root * power, x))


_CUBE_ROOT = (0.5189978361037302, 0.6542973117201535, -0.21580018957752015, 0.04437845996234062, -0.003660165019409193)


@ufunc(numpy.reciprocal)
def reciprocal(x: Tensor) -> Any:
    if _is_integer(x):
        raise GraphBreak("np.reciprocal of integers")
    if x.dtype.is_complex:
        return torch.where(x == 0, x * math.nan, torch.reciprocal(x))
    return torch.reciprocal(x)


@of_tensors(numpy.floor_divide)
def floor_divide(a: Tensor, b: Tensor) -> Any:
    if _is_integer(a):
        zero = b == 0
        quotient = torch.div(a, torch.where(zero, 1, b), rounding_mode="floor")
        return torch.where(zero, 0, quotient)
    return divide_floats(a, b)[0]


@_in_single
def divide_floats(a: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Floored quotient and remainder as NumPy computes them: the quotient of what the remainder leaves."""
    remainder = torch.fmod(a, b)
    quotient = (a - remainder) / b
    turned = (remainder != 0) & ((b < 0) != (remainder < 0))
    remainder = torch.where(turned, remainder + b, remainder)
    quotient = torch.where(turned, quotient - 1, quotient)
    remainder = torch.where(remainder == 0, torch.copysign(torch.zeros_like(b), b), remainder)
    whole = torch.floor(quotient)
    whole = torch.where(quotient - whole > 0.5, whole + 1, whole)
    whole = torch.where(quotient == 0, torch.copysign(torch.zeros_like(quotient), a / b), whole)
    by_zero = b == 0
    return torch.where(by_zero, a / b, whole), torch.where(by_zero, math.nan, remainder)


@of_tensors(numpy.remainder)
def remainder(a: Tensor, b: Tensor) -> Any:
    if _is_integer(a):
        zero = b == 0
        return torch.where(zero, 0, torch.remainder(a, torch.where(zero, 1, b)))
    return divide_floats(a, b)[1]


@of_tensors(numpy.divmod)
def divided(a: Tensor, b: Tensor) -> Any:
    if _is_integer(a):
        return floor_divide(a, b), remainder(a, b)
    return divide_floats(a, b)


@of_tensors(numpy.fmod)
def fmod(a: Tensor, b: Tensor) -> Any:
    if _is_integer(a):
        zero = b == 0
        return torch.where(zero, 0, torch.fmod(a, torch.where(zero, 1, b)))
    return torch.fmod(a, b)


@ufunc(numpy.power)
def power(a: Tensor, b: Tensor) -> Any:
    if not is_number(b):
        if isinstance(a, int):
            a = torch.full_like(b, a)
        if _is_integer(b) and b.dtype not in (torch.bool, torch.uint8):
            raise GraphBreak("np.power with an array of integers as exponent, which must not be negative",
                             "use an array of floats")
    elif _is_integer(a) and not (isinstance(b, int) and b >= 0):
        raise GraphBreak("a power of integers whose exponent may be negative")
    powers = torch.pow(a, b)
    return _complex_power(a, b, powers) if powers.dtype.is_complex else powers


def _complex_power(a: Tensor, b: Tensor, powers: Tensor) -> Any:
    """NumPy's powers of zero and powers to zero."""
    part = torch.full_like(powers.real, math.nan)
    missing = torch.complex(part, part)
    if is_number(b):
        if isinstance(b, SYMBOLIC):
            raise GraphBreak("a complex number to a power that varies")
        if b == 0:
            return torch.ones_like(powers)
        return torch.where(a == 0, torch.zeros_like(powers) if b > 0 else missing, powers)
    vanishes = b.real > 0 if _ZERO_TO_COMPLEX else (b.real > 0) & (b.imag == 0)
    zero: Any = torch.where(vanishes, torch.zeros_like(powers), missing)
    return torch.where(b == 0, 1.0, torch.where(a == 0, zero, powers)).to(powers.dtype)


with numpy.errstate(all="ignore"):
    _ZERO_TO_COMPLEX = bool(numpy.power(numpy.array(0j), 1 + 1j) == 0)
    """Whether zero to a power with an imaginary part is zero in this NumPy: in older ones it is NaN."""


def _shift(function: Callable[[Any, Any], Any], beyond: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def shift(a: Tensor, b: Tensor) -> Any:
        bits = torch.iinfo(a.dtype).bits
        within = (b >= 0) & (b < bits)
        return torch.where(within, function(a, torch.where(within, b, 0)), beyond(a))

    return shift


of_tensors(numpy.left_shift)(_shift(torch.bitwise_left_shift, torch.zeros_like))
of_tensors(numpy.right_shift)(_shift(torch.bitwise_right_shift, lambda a: torch.where(
    a < 0, torch.full_like(a, -1), torch.zeros_like(a)) if a.dtype is not torch.uint8 else torch.zeros_like(a)))


@ufunc(numpy.modf)
def modf(x: Tensor) -> Any:
    whole = torch.trunc(x)
    return torch.copysign(torch.where(torch.isinf(x), 0.0, x - whole), x), whole


@of_tensors(numpy.ldexp)
def ldexp(x: Tensor, exponent: Tensor) -> Any:
    """Multiplied by powers of two that are numbers themselves, so that only the last product is rounded."""
    exponent = torch.clamp(exponent.to(torch.int64), -4096, 4096)
    if x.dtype is not torch.float64:  # whose products with such powers double precision holds
        product = x.to(torch.float64) * _power_of_two(torch.clamp(exponent, -400, 400))
        return product.to(torch.float32) if x.dtype is torch.float16 else product.to(x.dtype)
    for _ in range(2):
        large, small = exponent > 1023, exponent < -1022
        x = x * torch.where(large, 2.0 ** 1023, torch.where(small, 2.0 ** -969, torch.ones_like(x)))
        exponent = exponent - torch.where(large, 1023, torch.where(small, -969, 0))
    return x * _power_of_two(torch.clamp(exponent, -1022, 1023))


def _power_of_two(exponent: Tensor) -> Any:
    """The numbers of double precision, of exponents that are those of normal numbers."""
    return ((exponent + 1023) << 52).view(torch.float64)


@ufunc(numpy.frexp)
def frexp(x: Tensor) -> Any:
    mantissa, exponent = torch.frexp(x)
    return mantissa, exponent


__all__ = ["LOGIC", "TENSORS_ONLY", "UFUNCS"]
