"""The operations of the loop IR, one record each: all that is known about an operation stands in its row of the table.

Rows say how an operation is printed for each target by rules, for floats and for integers (which bools are printed
like). A rule is one of the short forms of `cpu.operation_rules` and `gpu.operation_rules`, such as an instruction, a
function of a library or a sign between the operands, or a function there that writes it out. Where there is none the
target cannot do it, and what needs it is called in ATen. Short floats are computed in float32.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import torch

from ..records import dataclass
from .cpu import math_functions as cpu_functions
from .cpu import operation_rules as cpu
from .cpu.math_functions import Rule as LlvmRule
from .cpu.math_functions import lane_by_lane, library
from .cpu.operation_rules import comparison, instruction, integer_division, intrinsic
from .gpu import operation_rules as gpu
from .gpu.operation_rules import Infix, call, pattern
from .gpu.operation_rules import Rule as TritonRule

AnyRule = TypeVar("AnyRule")


@dataclass(frozen=True)
class Cost:
    """What one operation costs, as far as decisions need to know it. The two scales have limits of their own."""

    arithmetic: int
    """In additions: whether to compute something again or to keep it in memory (`lowering.policy`)."""
    scheduled: float
    """In vector loads from cache: which loops to run together (`scheduling.costs`)."""


SIMPLE = Cost(1, 0.25)
DIVISION = Cost(4, 2.0)
FUNCTION = Cost(10, 10.0)
"""Integer division too: no machine has vectors of it."""
RANDOM = Cost(40, 40.0)


@dataclass(frozen=True)
class Forms(Generic[AnyRule]):
    """How an operation is printed; None where it is not."""

    floats: AnyRule | None = None
    integers: AnyRule | None = None

    def rule(self, dtype: torch.dtype) -> AnyRule | None:
        return self.floats if dtype.is_floating_point else self.integers


@dataclass(frozen=True)
class Operation:
    """An operation on values of one dtype."""

    name: str
    arity: int
    cost: Cost
    llvm: Forms[LlvmRule]
    triton: Forms[TritonRule]
    is_test: bool = False
    """Whether the result is a bool, rather than of the operands' dtype."""
    chooses: bool = False
    """Whether the result is one of the operands as it is."""
    plain_nan: bool = False
    """Whether NaNs of the result are those of operands or the machine's own, which ends in zeros."""
    takes_short_floats: bool = False
    """Whether Triton has it for short floats; others are computed in float32."""
    triton_loosely: TritonRule | None = None
    """A cheaper form with a few units of error in float32."""
    keeps_relative_error: bool = False
    """Whether the result has about the relative errors of the operands."""
    is_positive: bool = False
    """Whether no result is negative."""
    divides: bool = False
    """Whether integers must not be divided by 0."""

    @property
    def is_infix(self) -> bool:
        return isinstance(self.triton.floats or self.triton.integers, Infix)


def _arithmetic(name: str, sign: str) -> Operation:
    return Operation(name, 2, SIMPLE, Forms(instruction(f"f{name}"), instruction(name)),
                     _both(Infix(sign, bools=False)), plain_nan=True, takes_short_floats=True,
                     keeps_relative_error=name == "mul")


def _comparison(name: str, sign: str) -> Operation:
    integers = comparison(name) if name in ("eq", "ne") else cpu.integer_order(name)
    return Operation(name, 2, SIMPLE, Forms(comparison(f"{'u' if name == 'ne' else 'o'}{name}"), integers),
                     _both(Infix(sign)), is_test=True, takes_short_floats=True)


def _bitwise(name: str, sign: str) -> Operation:
    return Operation(name, 2, SIMPLE, Forms(integers=instruction(name)), Forms(integers=Infix(sign)),
                     takes_short_floats=True)


def _rounding(name: str, llvm: str, triton: str) -> Operation:
    return Operation(name, 1, SIMPLE, Forms(intrinsic(llvm), cpu.same), Forms(call(triton)), plain_nan=True)


def _function(name: str, llvm: LlvmRule, triton: str = "", arity: int = 1, *, plain_nan: bool = False,
              is_positive: bool = False, triton_loosely: TritonRule | None = None) -> Operation:
    return Operation(name, arity, FUNCTION, Forms(llvm), Forms(call(triton or f"libdevice.{name}")),
                     plain_nan=plain_nan, is_positive=is_positive, triton_loosely=triton_loosely)


def _both(rule: AnyRule) -> Forms[AnyRule]:
    return Forms(rule, rule)


_ROWS = (
    _arithmetic("add", "+"),
    _arithmetic("sub", "-"),
    _arithmetic("mul", "*"),
    Operation("div", 2, DIVISION, Forms(instruction("fdiv")), Forms(gpu.divided), plain_nan=True,
              triton_loosely=pattern("({0} / {1})"), keeps_relative_error=True, divides=True),
    # Quotients rounded down and towards zero; integers by zero are undefined.
    Operation("div_floor", 2, FUNCTION, Forms(cpu.div_floor, integer_division("div_floor")),
              Forms(integers=call("floor_divide")), divides=True),
    Operation("div_trunc", 2, FUNCTION, Forms(cpu.div_trunc, integer_division("div_trunc")),
              Forms(integers=pattern("({0} // {1})")), divides=True),
    # The remainder with the sign of the dividend, and that with the sign of the divisor.
    Operation("mod_trunc", 2, FUNCTION, Forms(cpu.fmod, integer_division("mod_trunc")),
              Forms(call("libdevice.fmod"), pattern("({0} % {1})")), divides=True),
    Operation("fmod", 2, FUNCTION, Forms(cpu.fmod, integer_division("mod_trunc")), Forms(call("libdevice.fmod")),
              divides=True),
    Operation("remainder", 2, FUNCTION, Forms(cpu.remainder, integer_division("remainder")),
              Forms(call("float_modulo"), call("floor_modulo")), divides=True),
    Operation("fma", 3, SIMPLE, Forms(intrinsic("fma")), Forms(call("tl.fma")), plain_nan=True),  # one rounding

    # A NaN operand gives NaN, and with an f in front is ignored.
    Operation("min", 2, SIMPLE, Forms(cpu.extreme("olt"), cpu.integer_extreme("min")),
              Forms(call("minimum"), gpu.integer_extreme("tl.minimum", "&")), chooses=True, keeps_relative_error=True),
    Operation("max", 2, SIMPLE, Forms(cpu.extreme("ogt"), cpu.integer_extreme("max")),
              Forms(call("maximum"), gpu.integer_extreme("tl.maximum", "|")), chooses=True, keeps_relative_error=True),
    Operation("fmin", 2, SIMPLE, Forms(cpu.extreme_number("ole"), cpu.integer_extreme("min")),
              Forms(call("tl.minimum")), chooses=True, keeps_relative_error=True),
    Operation("fmax", 2, SIMPLE, Forms(cpu.extreme_number("oge"), cpu.integer_extreme("max")),
              Forms(call("tl.maximum")), chooses=True, keeps_relative_error=True),
    # Condition, then, otherwise. Both printers know it by name, since the condition is of another dtype.
    Operation("where", 3, SIMPLE, Forms(), _both(pattern("tl.where({0}, {1}, {2})")), takes_short_floats=True),

    # Bitwise, logical on bool. A shift to the right keeps the sign.
    _bitwise("and", "&"),
    _bitwise("or", "|"),
    _bitwise("xor", "^"),
    Operation("not", 1, SIMPLE, Forms(integers=cpu.inversion), Forms(integers=gpu.inversion)),
    Operation("shl", 2, SIMPLE, Forms(integers=cpu.shift("shl")), Forms(integers=Infix("<<", bools=False))),
    Operation("shr", 2, SIMPLE, Forms(integers=cpu.shift("ashr")), Forms(integers=Infix(">>", bools=False))),

    _comparison("eq", "=="),
    _comparison("ne", "!="),
    _comparison("lt", "<"),
    _comparison("le", "<="),
    _comparison("gt", ">"),
    _comparison("ge", ">="),
    Operation("isnan", 1, SIMPLE, Forms(cpu.isnan, cpu.never), _both(pattern("({0} != {0})")), is_test=True,
              takes_short_floats=True),
    Operation("isinf", 1, SIMPLE, Forms(cpu.isinf, cpu.never), _both(pattern("(tl.abs({0}) == float('inf'))")),
              is_test=True),
    Operation("signbit", 1, SIMPLE, Forms(cpu.signbit, cpu.is_negative),
              Forms(pattern("(libdevice.signbit({0}) != 0)"), pattern("({0} < 0)")), is_test=True),

    Operation("neg", 1, SIMPLE, Forms(cpu.negation, cpu.integer_negation), _both(pattern("(-{0})")), plain_nan=True,
              takes_short_floats=True, keeps_relative_error=True),
    Operation("abs", 1, SIMPLE, Forms(intrinsic("fabs"), cpu.integer_abs), _both(call("tl.abs")), plain_nan=True,
              keeps_relative_error=True, is_positive=True),
    Operation("sign", 1, SIMPLE, Forms(cpu.sign, cpu.integer_sign), _both(gpu.sign)),
    Operation("copysign", 2, SIMPLE, Forms(intrinsic("copysign")), Forms(call("libdevice.copysign"))),
    _rounding("floor", "floor", "tl.floor"),
    _rounding("ceil", "ceil", "tl.ceil"),
    _rounding("trunc", "trunc", "libdevice.trunc"),
    _rounding("round", "rint", "libdevice.rint"),  # half to even

    Operation("sqrt", 1, DIVISION, Forms(intrinsic("sqrt")), Forms(gpu.root), plain_nan=True,
              triton_loosely=pattern("libdevice.sqrt({0})"), keeps_relative_error=True, is_positive=True),
    # libdevice's is what eager's kernels call too.
    Operation("rsqrt", 1, DIVISION, Forms(cpu.rsqrt), Forms(call("libdevice.rsqrt")), plain_nan=True,
              keeps_relative_error=True, is_positive=True),
    Operation("reciprocal", 1, DIVISION, Forms(cpu.reciprocal), Forms(gpu.reciprocal), plain_nan=True,
              triton_loosely=pattern("(1.0 / {0})"), keeps_relative_error=True),

    _function("exp", cpu_functions.exp, plain_nan=True, is_positive=True, triton_loosely=pattern("tl.exp({0})")),
    _function("exp2", library("exp2", "u10"), is_positive=True),
    _function("expm1", cpu_functions.expm1),
    _function("log", cpu_functions.log, plain_nan=True),
    _function("log2", library("log2", "u10")),
    _function("log10", library("log10", "u10")),
    _function("log1p", cpu_functions.log1p),
    _function("sin", cpu_functions.sine_or_cosine("sin")),
    _function("cos", cpu_functions.sine_or_cosine("cos")),
    _function("tan", library("tan", "u10")),
    _function("asin", library("asin", "u10")),
    _function("acos", library("acos", "u10")),
    _function("atan", library("atan", "u10")),
    _function("sinh", cpu_functions.sinh),
    _function("cosh", cpu_functions.cosh),
    _function("tanh", cpu_functions.tanh, plain_nan=True, triton_loosely=call("short_tanh")),
    _function("asinh", cpu_functions.inverse_hyperbolic("asinh")),
    _function("acosh", cpu_functions.inverse_hyperbolic("acosh")),
    _function("atanh", library("atanh", "u10")),
    _function("erf", cpu_functions.erf, "tl.erf", plain_nan=True),
    _function("erfc", library("erfc", "u15")),
    _function("lgamma", library("lgamma", "u10")),
    Operation("sigmoid", 1, FUNCTION, Forms(cpu_functions.sigmoid), Forms(gpu.sigmoid), plain_nan=True,
              triton_loosely=pattern("(1.0 / (tl.exp(-{0}) + 1.0))"), is_positive=True),
    Operation("pow", 2, FUNCTION, Forms(library("pow", "u10"), cpu_functions.integer_power),
              Forms(call("libdevice.pow"))),
    _function("atan2", library("atan2", "u10"), arity=2),
    _function("hypot", cpu_functions.hypot, arity=2),
    _function("nextafter", lane_by_lane("nextafter"), arity=2),

    # Seed, low and high half of the counter, which of the four words: 32 random bits, of int64.
    Operation("philox", 4, RANDOM, Forms(), Forms(integers=call("philox"))),
)

OPERATIONS: dict[str, Operation] = {row.name: row for row in _ROWS}
assert len(OPERATIONS) == len(_ROWS), "an operation has two rows"
HEAVY = frozenset(row.name for row in _ROWS if row.cost in (FUNCTION, RANDOM))
"""Operations that cost a CPU more than the memory that they work on."""
