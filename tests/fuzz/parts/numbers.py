"""Programs of one to three operators on numbers at the edges: every dtype, special values, scalars that do not fit,
layouts of every kind; compared with the signs of zeros.

Left out is what eager itself leaves undefined: quotients of the smallest integer, conversions of floats to integers
that cannot hold them, sums of large numbers whose result depends on their order, remainders of huge quotients (NaN in
eager's vectors, a number in the rest of its loops). Functions that amplify roundings come last in a chain.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..program import Program
from ..values import Dice

SAMPLE = 40
FLOATS = ("float32", "float64", "float16", "bfloat16")
WHOLE = ("int64", "uint8", "int32", "int8", "int16", "bool")
DTYPES = ((5, "float32"), (3, "float64"), (3, "float16"), (3, "bfloat16"), (3, "int64"), (3, "uint8"), (2, "int32"),
          (2, "int8"), (1, "int16"), (3, "bool"), (1, "complex64"))
LARGEST = {"float32": "3.4e38", "float64": "1.7e308", "float16": "65504.0", "bfloat16": "3.3e38"}
SMALLEST = {"float32": "1e-40", "float64": "5e-320", "float16": "6e-8", "bfloat16": "1e-40"}
BITS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7}

# Operators that are rounded once, so that a chain of them has one result: with how they are written.
EXACT = (
    "{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.abs({x})", "-{x}", "torch.neg({x})", "torch.sign({x})",
    "torch.sgn({x})", "torch.floor({x})", "torch.ceil({x})", "torch.round({x})", "torch.trunc({x})", "torch.frac({x})",
    "torch.square({x})", "torch.positive({x})", "torch.relu({x})", "F.relu6({x})", "F.hardtanh({x})",
    "F.leaky_relu({x}, {s})", "F.hardshrink({x})", "F.threshold({x}, {s}, {s})", "torch.clamp({x}, min={s})",
    "torch.clamp({x}, max={s})", "{x}.clamp({s}, {s})", "torch.where({x} > {s}, {x}, {y})",
    "torch.where({x} == {x}, {x}, {s})", "torch.where({x} != {x}, {s}, {x})", "{x}.masked_fill({x} > {s}, {s})",
    "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.fmax({x}, {y})", "torch.fmin({x}, {y})",
    "torch.nan_to_num({x})", "torch.nan_to_num({x}, nan={s})", "torch.copysign({x}, {y})", "torch.copysign({x}, {s})",
    "torch.signbit({x}) & ({x} == {x})",
    "torch.isnan({x})", "torch.isinf({x})", "torch.isfinite({x})", "torch.isposinf({x})",
    "torch.logical_not({x})", "torch.logical_and({x}, {y})", "torch.logical_xor({x}, {y})", "{x} == {y}", "{x} != {y}",
    "{x} < {y}", "{x} <= {s}", "{x} > {s}", "{x} == {s}", "{x} != {s}", "{x} & {y}", "{x} | {y}", "{x} ^ {s}", "~{x}",
    "{x} << 1", "{x} >> 1", "torch.heaviside({x}, {y})", "torch.nextafter({x}, {y})", "torch.hypot({x}, {y})",
    "{x} + {s}", "{x} - {s}", "{s} - {x}", "{x} * {s}", "torch.add({x}, {y}, alpha={s})", "torch.full_like({x}, {s})",
    "{x}.new_full((2, 3), {s})", "torch.rsub({x}, {s})", "{x}.fill_diagonal_({s}) if {x}.dim() == 99 else {x} * 1",
    "torch.zeros_like({x})", "{x}.new({x}.shape).fill_(2)", "torch.flip({x}, (0,)) if {x}.dim() else {x}",
    "torch.roll({x}, 1)", "torch.tril({x})",
    "torch.cat([{x}, {y}])", "torch.stack([{x}, {y}])", "{x}.t() if {x}.dim() == 2 else {x} + 0", "{x}.contiguous()",
    "{x}.clone()", "{x}.to(torch.float64)", "{x}.to(torch.float16)", "{x}.to(torch.bfloat16)", "{x}.to(torch.bool)",
    "F.pad({x}, (1, 1), value={s})", "F.pad({x}, (1, 0), mode='replicate')", "F.pad({x}, (1, 1), mode='reflect')",
    "{x}.amax()", "{x}.amin()", "{x}.argmax()", "{x}.argmin()", "{x}.any()", "{x}.all()", "{x}.amax(-1)",
    "torch.max({x}, -1)", "torch.min({x}, -1)", "torch.aminmax({x})", "torch.cummax({x}, -1)", "{x}.sort(-1)",
    "{x}.count_nonzero()", "torch.diff({x})", "{x}.repeat(2, 1)", "{x}.unsqueeze(0)", "{x}.flatten()",
    "torch.index_select({x}, 0, torch.tensor([0]))", "F.one_hot({x}, 5)", "torch.isclose({x}, {y})",
    "torch.lerp({x}, {y}, 0.5)", "torch.bitwise_not({x})", "torch.bitwise_and({x}, {s})", "{x} // {y}", "{x} % {y}",
    "{x} // {s}", "{x} % {s}", "torch.fmod({x}, {s})", "torch.remainder({x}, {s})", "torch.remainder({s}, {x})",
    "torch.div({x}, {s}, rounding_mode='trunc')", "torch.div({x}, {s}, rounding_mode='floor')", "torch.gcd({x}, {y})",
    "torch.softmax({x}, -1)[:0]", "{x}.real", "torch.conj({x}) * 1", "torch.view_as_real({x})",
    "{x} * torch.tensor({s})", "torch.as_tensor([{s}])",
)  # fmt: skip
# Images, of any layout: the last ones are asked for a rank of 4.
IMAGES = (
    "F.max_pool2d({x}, 2)", "F.max_pool2d({x}, 2, return_indices=True)",
    "F.max_pool2d({x}, 3, 2, 1, return_indices=True)",
    "F.adaptive_max_pool2d({x}, 2)", "F.adaptive_max_pool2d({x}, 1, return_indices=True)",
    "F.pad({x}, (1, 1, 1, 0), mode='reflect')", "F.pad({x}, (1, 0, 1, 1), mode='replicate')",
    "F.pad({x}, (1, 2, 0, 1), value={s})", "F.pad({x}, (1, 1, 1, 1), mode='circular')",
    "F.interpolate({x}, scale_factor=2)", "{x}.relu()", "{x} * 2", "F.pixel_shuffle({x}, 2)", "{x}.permute(0, 2, 3, 1)",
    "{x}.contiguous(memory_format=torch.channels_last)", "F.max_pool2d({x}, 4, 4)", "{x}.amax((2, 3))",
)  # fmt: skip
# Operators whose roundings are their own: only at the end of a chain.
INEXACT = tuple(f"torch.{name}({{x}})" for name in (
    "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp", "exp2",
    "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sigmoid", "erf", "erfc",
    "erfinv", "lgamma",
    "digamma", "logit", "sinc", "deg2rad", "rad2deg", "angle", "i0", "special.entr", "special.i1", "special.log_ndtr",
    "special.ndtr",
)) + tuple(f"F.{name}({{x}})" for name in (
    "elu", "selu", "celu", "silu", "mish", "softplus", "softsign", "tanhshrink", "logsigmoid", "hardsigmoid",
    "hardswish",
    "softshrink", "normalize",
)) + (
    "{x} / {y}", "{x} / {s}", "{s} / {x}", "{x} ** 2", "{x} ** 3", "{x} ** 0.5", "{x} ** -0.5", "{x} ** -1",
    "{x} ** -2",
    "{x} ** {s}", "torch.pow({s}, {x})", "torch.atan2({x}, {y})", "torch.xlogy({x}, {y})", "torch.logaddexp({x}, {y})",
    "torch.addcmul({x}, {x}, {y}, value={s})", "torch.ldexp({x}, torch.tensor(2))", "torch.softmax({x}, -1)",
    "torch.log_softmax({x}, -1)", "torch.float_power({x}, 2)", "torch.special.xlog1py({x}, {y})",
    "torch.linalg.vector_norm({x}[..., :1], 3.0, dim=-1)", "F.glu(torch.cat([{x}, {x}], -1))",
)  # fmt: skip
# What has one result only for numbers of one size: first in a chain, on moderate numbers.
SUMS = (
    "{x}.sum()", "{x}.sum(-1)", "{x}.mean(-1)", "{x}.prod(-1)", "{x}.cumsum(-1)", "torch.logsumexp({x}, -1)",
    "F.layer_norm({x}, {x}.shape[-1:])", "{x}.nansum()", "torch.linalg.vector_norm({x}, 2, dim=-1)", "{x}.var(-1)",
    "torch.var_mean(torch.cat([{x}, torch.full_like({x}[..., :1], INF)], -1), -1)",
    "torch.std_mean(torch.cat([torch.full_like({x}[..., :1], -INF), {x}], -1), -1)",
    "torch.cat([{x}, torch.full_like({x}[..., :1], LARGEST)], -1).std()",
    "torch.var_mean(torch.cat([{x}, torch.full_like({x}[..., :1], LARGEST)], -1), -1)",
    "torch.cat([{x}, torch.full_like({x}[..., :1], 1e20)], -1).std(-1)", "torch.full_like({x}, LARGEST).var()",
)
# Reductions of one element, whose zeros have the signs that eager gives them: sums begin with 0.
OF_ONE = (
    "{x}.sum(0)", "{x}.sum(0, keepdim=True)", "{x}[:, :1].sum()", "{x}[0, 0].sum()", "{x}.mean(0)", "{x}[0, 0].mean()",
    "{x}.nansum(0)", "{x}.nanmean(0)", "{x}.cumsum(0)", "{x}[0, 0].cumsum(0)", "{x}.logcumsumexp(0)", "{x}.prod(0)",
    "{x}.cumprod(0)", "{x}.amax(0)", "F.avg_pool1d({x}, 1)", "F.avg_pool2d({x}[None, None], 1)",
    "F.adaptive_avg_pool1d({x}[None], 3)", "{x}[:, 0] @ {x}[:, 1]", "torch.dot({x}[:, 0], {x}[:, 0])",
    "torch.mv({x}.t(), {x}[:, 0])", "torch.linalg.vecdot({x}, -{x}, dim=0)", "torch.trace({x}[:, :1])",
    "{x}.sum_to_size(3)", "torch.einsum('ij->j', {x})", "torch.einsum('ij,ik->jk', {x}, {x})", "{x}.t() @ -{x}",
    "F.layer_norm({x}[:, :1], (1,))", "torch.var_mean({x}, 0, correction=0)[1]", "{x}.sum(0, dtype=torch.float64)",
    "F.fold({x}[None], (1, 3), (1, 1))", "F.interpolate({x}[None, None], size=(1, 3), mode='area')",
    "F.linear({x}[:, :1], {x}.t(), -torch.zeros_like({x}[0]))",
    "torch.addmv(-torch.zeros_like({x}[0]), {x}.t(), {x}[:, 0])",
    "F.linear({x}[:, :0], {x}.t()[:, :0], -torch.zeros_like({x}[0]))",
    "F.nll_loss({x}[:, :1], torch.tensor([0]))", "F.nll_loss({x}[:, :1], torch.tensor([0]), reduction='sum')",
)  # fmt: skip
# The sign of a zero is that of the instruction at hand, or a sum's.
SIGNLESS = ("max", "min", "clamp", "relu", "hardtanh", "threshold", "soft", "sum", "mean", "norm", "sort", "hardshrink",
            "remainder", "%", "//", "rounding_mode", "fmod", "lerp", "addcmul", "alpha", "cumsum", "var(", "std(",
            "logaddexp", "leaky", "mish", "tanhshrink", "i0", "i1", "angle", "sinc", "expm1", "interpolate", "glu",
            "hypot")
# What shows the sign of a zero: an infinity of that sign, a half turn, another sign.
SHOWS_SIGNS = ("/", "reciprocal", "rsqrt", "**", "pow", "digamma", "atan2", "copysign", "signbit")
REMAINDERS = ("remainder", "%", "fmod")
# Templates with several results, which end a chain.
SEVERAL = ("return_indices", "max(", "min(", "minmax", "cummax", ".sort")
SCALARS = ("0", "1", "-1", "2", "3", "-3", "7", "127", "128", "255", "256", "-129", "300", "2**31", "2**40", "-(2**62)",
           "0.1", "1 / 3", "(0.1 + 0.2) * 10", "2.000000001", "1e-46", "2.0**24 + 1",  # rounded by some dtypes
           "2**53 + 1", "0.0", "-0.0", "0.5", "-0.5", "1.5", "2.5", "1e6", "1e39", "-1e39", "1e300", "INF",
    "-INF", "NAN",
           "True", "False", "np.float32(1.5)", "np.int64(3)", "np.bool_(True)", "np.float64(-0.0)", "np.uint8(200)",
           "np.complex64(2 + 1j)", "np.longdouble('0.1')")

# What is far from 1 becomes 1, where floats are divided.
NEAR = (
    "def near(value):",
    "    if not isinstance(value, torch.Tensor):",
    "        return value if isinstance(value, (bool, int)) or value == 0 or 1e-3 < abs(value) < 1e4 else 1.0",
    "    if not value.is_floating_point():",
    "        return value",
    "    size = value.abs()",
    "    return torch.where((size < 1e4) & (size > 1e-3) | (size == 0), value, 1.0)", "",
)
# Zeros have no sign, where the next operator would show one that is not eager's own choice.
UNSIGNED = (
    "def unsigned(value):",
    "    if isinstance(value, torch.Tensor) and value.is_floating_point():",
    "        return torch.where(value == 0, torch.zeros_like(value), value)",
    "    return value", "",
)


@dataclass(frozen=True)
class Operand:
    """An argument: how it is made, its dtype."""

    name: str
    source: str
    dtype: str


def _values(dice: Dice, dtype: str, count: int, moderate: bool) -> str:
    if dtype == "bool":
        return ", ".join(dice.choice(("True", "False")) for _ in range(count))
    if dtype in WHOLE:
        pool = ["0", "1", "2", "3", "5", "7", "100"]
        if dtype != "uint8":
            pool += ["-1", "-2", "-7"]
        if not moderate:
            pool += ["255", "254"] if dtype == "uint8" else [f"2**{BITS[dtype]} - 1", f"1 - 2**{BITS[dtype]}"]
            if dtype == "int64":
                pool += ["2**53 + 1", "-(2**53) - 1"]
        return ", ".join(dice.choice(pool) for _ in range(count))
    pool = ["0.0", "-0.0", "1.0", "-1.0", "0.5", "-0.5", "1.5", "2.5", "-2.5", "0.3", "-3.0", "7.25", "0.1", "3.0"]
    pool += ["INF", "-INF", "NAN", "NAN"] if dice.chance(0.7) else []
    real = "float32" if dtype == "complex64" else dtype
    if not moderate:
        pool += [LARGEST[real], f"-{LARGEST[real]}", SMALLEST[real], f"-{SMALLEST[real]}", "2048.0", "100.0"]
    return ", ".join(dice.choice(pool) for _ in range(count))


def _tensor(dice: Dice, name: str, dtype: str, kind: str, moderate: bool) -> Operand:
    """A tensor of this kind of shape, in one of many layouts."""
    if kind == "scalar":
        text = f"torch.tensor([{_values(dice, dtype, 1, moderate)}], dtype=torch.{dtype})[0]"
        return Operand(name, text, dtype)
    if kind == "image":
        text = f"torch.tensor([{_values(dice, dtype, 64, moderate)}], dtype=torch.{dtype}).reshape(1, 4, 4, 4)"
        text += dice.choice(("", ".contiguous(memory_format=torch.channels_last)", ".transpose(2, 3)",
                             ".permute(0, 3, 1, 2)"))
        return Operand(name, text, dtype)
    if kind == "one":
        numbers = "-0.0, -0.0, -0.0" if dtype in FLOATS and dice.chance(0.5) else _values(dice, dtype, 3, moderate)
        return Operand(name, f"torch.tensor([[{numbers}]], dtype=torch.{dtype})", dtype)
    if kind == "empty":
        return Operand(name, f"torch.empty({dice.choice(('(0, 3)', '(2, 0)'))}, dtype=torch.{dtype})", dtype)
    rows, columns = {"row": (1, dice.choice((3, 9, 20))), "matrix": (3, 4)}[kind]
    layout = dice.below(5)
    count = rows * columns * (2 if layout == 3 else 1)
    text = f"torch.tensor([{_values(dice, dtype, columns if layout == 4 else count, moderate)}], dtype=torch.{dtype})"
    if layout == 4:
        return Operand(name, f"{text}.expand({rows}, {columns})", dtype)
    shape = {0: f".reshape({rows}, {columns})", 1: f".reshape({columns}, {rows}).t()",
             2: f".reshape({rows}, {columns})", 3: f".reshape({rows}, {2 * columns})[:, ::2]"}[layout]
    if kind == "row" and dice.chance(0.5):
        shape = f"{shape}[0]"
    return Operand(name, text + shape, dtype)


def _is_signed(template: str) -> bool:
    return not any(word in template for word in SIGNLESS)


def generate(seed: int) -> Program:
    """The program of this number."""
    dice = Dice(seed)
    dtype = dice.weighted(DTYPES)
    kind = dice.weighted(((5, "matrix"), (3, "row"), (1, "scalar"), (1, "empty"), (2, "image"), (1, "one")))
    sums = kind in ("matrix", "row") and dice.chance(0.12)
    other = dtype if dice.chance(0.75) else dice.weighted(DTYPES)
    same_kind = kind in ("image", "empty", "one") or dice.chance(0.8)
    operands = [_tensor(dice, "x", dtype, kind, sums or kind == "one"),
                _tensor(dice, "y", other, kind if same_kind else "scalar", sums)]
    if kind in ("row", "empty"):
        operands[1] = Operand("y", f"{operands[0].source}.to(torch.{other})" if _converts(dtype, other, kind)
                              else operands[0].source, other)
    varies = dice.chance(0.2)
    lines, results, signed = [], [], []
    chains = 1 if dice.chance(0.6) else dice.between(2, 4)
    for chain in range(chains):
        value, is_signed = "x", True
        length = dice.weighted(((5, 1), (3, 2), (1, 3)))
        for step in range(length):
            pool = IMAGES if kind == "image" and dice.chance(0.8) and step == 0 else EXACT
            pool = SUMS if sums and step == 0 else OF_ONE if kind == "one" and step == 0 else pool
            if not sums and pool is not OF_ONE and step == length - 1 and dice.chance(0.4):
                pool = INEXACT
            template = dice.choice(pool)
            if pool is SUMS and step == length - 1 and length > 1:
                template = dice.choice(EXACT[:12])
            scalar = "n" if varies and dice.chance(0.5) else dice.choice(SCALARS)
            second = dice.choice(("y", "x", "y", value))
            rest = any(word in template for word in REMAINDERS)
            operand = f"near({value})" if rest else value
            second = f"near({second})" if rest else second
            if not is_signed and any(word in template for word in SHOWS_SIGNS):
                operand, second = f"unsigned({operand})", f"unsigned({second})"
            text = template.replace("{x}", operand).replace("{y}", second)
            while "{s}" in text:
                text = text.replace("{s}", f"near({scalar})" if rest else f"({scalar})", 1)
                scalar = "n" if varies and dice.chance(0.3) else dice.choice(SCALARS)
            is_signed = is_signed and (pool is OF_ONE or _is_signed(template))
            name = f"v{chain}_{step}"
            lines.append(f"    {name} = {text}")
            value = name
            if pool is SUMS or any(word in template for word in SEVERAL):
                break
        results.append(value)
        signed.append(is_signed)
    numbers = [dice.choice(("2", "3", "-3", "300", "0", "5", "-1")) for _ in range(3)] if varies else []
    if varies and dice.chance(0.5):
        pool = ("0.5", "-0.0", "1e39", "2.5", "-1.5", "INF", "-0.5", "2.000000001", "0.1")
        numbers = [dice.choice(pool) for _ in range(3)]
    calls = [f"((x, y, {number}), {{}})" for number in numbers] or ["((x, y), {})", "((x.clone(), y), {})"]
    source = "\n".join([
        "import numpy as np", "import torch", "import torch.nn.functional as F",
    "INF, NAN = float('inf'), float('nan')",
        f"SIGNED, LARGEST = {tuple(signed)}, {LARGEST.get(dtype, '100')}", "",
        *NEAR,
        *UNSIGNED,
        f"def fn(x, y{', n' if varies else ''}):", *lines, f"    return ({', '.join(results)},)", "",
        "def zeros(value):",
        "    if isinstance(value, (tuple, list)):",
        "        return [zeros(part) for part in value]",
        "    if not value.is_floating_point():",
        "        return None",
        "    return (value.abs() <= torch.finfo(value.dtype).smallest_normal) & value.signbit()", "",
        "def use(fn, args, kwargs):",
        "    result = fn(*args, **kwargs)",
        "    return result, [zeros(part) for part, sign in zip(result, SIGNED) if sign]", "",
        "def make():", f"    x = {operands[0].source}", f"    y = {operands[1].source}",
        f"    return fn, [{', '.join(calls)}], lambda index: None, lambda: {{}}, use", "",
    ])  # fmt: skip
    return Program(seed, source)


def _converts(dtype: str, other: str, kind: str) -> bool:
    """Whether any value of the first dtype becomes one of the second in a way that is defined."""
    if kind == "empty" or (dtype in WHOLE and other != "complex64"):
        return True
    return dtype in FLOATS and other in (*FLOATS, "bool")
