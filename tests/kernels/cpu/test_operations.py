"""Operations of the loop IR as machine code, against eager torch."""

from __future__ import annotations

import math

import pytest
import torch

from firesteel.kernels import ir
from firesteel.kernels.cpu import target
from kernels.cpu.running import axis, run

FLOATS = (torch.float32, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1e-30, -1e-30, 1e30, 88.0, -88.0, 700.0,
           1e-42, -104.0, 2.5, -2.5, 1.5]

UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "exp": torch.exp, "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log,
    "log2": torch.log2, "log10": torch.log10, "log1p": torch.log1p, "sin": torch.sin, "cos": torch.cos,
    "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "tanh": torch.tanh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh,
    "erf": torch.erf, "erfc": torch.erfc, "lgamma": torch.lgamma, "sigmoid": torch.sigmoid, "floor": torch.floor,
    "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round, "isnan": torch.isnan, "isinf": torch.isinf,
    "signbit": torch.signbit,
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "atan2": torch.atan2,
    "fmod": torch.fmod, "remainder": torch.remainder, "copysign": torch.copysign, "nextafter": torch.nextafter,
    "hypot": torch.hypot, "min": torch.minimum, "max": torch.maximum, "fmin": torch.fmin, "fmax": torch.fmax,
    "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
}
INTEGER_BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "min": torch.minimum, "max": torch.maximum,
    "and": torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor, "eq": torch.eq, "lt": torch.lt,
    "ge": torch.ge, "div_floor": lambda a, b: torch.div(a, b, rounding_mode="floor"), "remainder": torch.remainder,
    "div_trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"), "mod_trunc": torch.fmod,
    "shl": torch.bitwise_left_shift, "shr": torch.bitwise_right_shift, "pow": torch.pow,
}


def narrow() -> target.Target:
    """A CPU without AVX-512, where this one has it."""
    return target.avx2() if target.host().vector_bytes > 32 else target.host()


@pytest.fixture(params=["host", "avx2"])
def machine(request):
    if request.param == "avx2" and narrow() is target.host():
        pytest.skip("that is what the host is, or less")
    return target.host() if request.param == "host" else narrow()


def apply(op: str, inputs: list[torch.Tensor], result: torch.dtype, machine, build=None) -> torch.Tensor:
    """The operation on tensors of one size, as one vectorised loop."""
    count = inputs[0].numel()
    i = axis("i", count)
    out = torch.empty(count, dtype=result)
    loads = [ir.load(f"x{n}", i.symbol, tensor.dtype) for n, tensor in enumerate(inputs)]
    value = build(*loads) if build else ir.op(op, *loads)
    body = [ir.Loop(i, [ir.Store(ir.Place("out", i.symbol), value)])]
    run(body, {**{f"x{n}": tensor for n, tensor in enumerate(inputs)}, "out": out}, ["out"], target=machine)
    return out


def floats(dtype: torch.dtype, count: int = 300, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scale = torch.tensor([1e-3, 1.0, 10.0])[torch.randint(0, 3, (count,), generator=generator)]
    return torch.cat([torch.tensor(SPECIAL), torch.randn(count, generator=generator) * scale]).to(dtype)


def check_close(op: str, got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    """Equal to eager, and no further from the exact result than twice eager's error or an ulp."""
    torch.testing.assert_close(got, eager, equal_nan=True)
    if got.dtype is not torch.float32:
        return
    finite = torch.isfinite(exact) & torch.isfinite(eager.double())
    ulp = torch.maximum(exact.abs() * 2.0**-23, torch.tensor(2.0**-149, dtype=torch.float64))
    errors = [((value.double() - exact).abs() / ulp)[finite].max() for value in (got, eager)]
    assert errors[0] <= max(2 * errors[1], 1.01), (op, errors)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, dtype, machine):
    x = floats(dtype)
    if op == "lgamma":
        x = x.abs()
    eager = UNARY[op](x)
    got = apply(op, [x], eager.dtype, machine)
    if eager.dtype is torch.bool:
        assert torch.equal(got, eager)
    else:
        check_close(op, got, eager, UNARY[op](x.double()))


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_angles_near_multiples_of_a_right_one(op, machine):
    """Where the result is small, next to nothing is left of the angle: that has to be exact."""
    quarter = (torch.arange(1, 20000, dtype=torch.float64) * (torch.pi / 2)).to(torch.float32)
    x = torch.cat([quarter, torch.nextafter(quarter, torch.zeros(())), -quarter, torch.linspace(-300, 300, 20001)])
    eager = UNARY[op](x)
    check_close(op, apply(op, [x], torch.float32, machine), eager, UNARY[op](x.double()))


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_huge_angles_beside_ordinary_ones(op, machine):
    x = torch.tensor([1.0, 40000.0, -2.0, 1e30, 0.5, -32768.0, 32769.0, float("nan")]).repeat(40)
    eager = UNARY[op](x)
    check_close(op, apply(op, [x], torch.float32, machine), eager, UNARY[op](x.double()))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, dtype, machine):
    x, y = floats(dtype), floats(dtype, seed=1)[torch.randperm(320, generator=torch.Generator().manual_seed(2))]
    eager = BINARY[op](x, y)
    got = apply(op, [x, y], eager.dtype, machine)
    if eager.dtype is torch.bool:
        assert torch.equal(got, eager)
    else:
        torch.testing.assert_close(got, eager, equal_nan=True)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", INTEGER_BINARY)
def test_integers(op, dtype):
    machine = narrow() if dtype in (torch.int16, torch.uint8) else target.host()
    generator = torch.Generator().manual_seed(0)
    low, high = (0, 120) if dtype is torch.uint8 else (-120, 120)
    x = torch.randint(low, high, (77,), generator=generator).to(dtype)
    y = torch.randint(1 if low == 0 else -7, 8, (77,), generator=generator).to(dtype)
    if op in ("div_floor", "remainder", "div_trunc", "mod_trunc"):
        y[y == 0] = 3
    if op in ("shl", "shr", "pow"):
        y = y.abs()
    eager = INTEGER_BINARY[op](x, y)
    assert torch.equal(apply(op, [x, y], eager.dtype, machine), eager)


@pytest.mark.parametrize("op", ["neg", "abs", "sign", "not"])
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_unary(op, dtype):
    machine = narrow() if dtype in (torch.int64, torch.int8) else target.host()
    x = torch.arange(-40, 41).to(dtype)
    eager = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "not": torch.bitwise_not}[op](x)
    assert torch.equal(apply(op, [x], dtype, machine), eager)


@pytest.mark.parametrize("op", ["and", "or", "xor", "max", "min", "eq", "ne", "lt"])
def test_bool(op, machine):
    x, y = torch.tensor([0, 0, 1, 1] * 21).bool(), torch.tensor([0, 1, 0, 1] * 21).bool()
    reference = {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor, "max": torch.maximum,
                 "min": torch.minimum, "eq": torch.eq, "ne": torch.ne, "lt": torch.lt}[op]
    assert torch.equal(apply(op, [x, y], torch.bool, machine), reference(x, y))


ALL = (*FLOATS, torch.float16, torch.bfloat16, *INTEGERS, torch.bool)


@pytest.mark.parametrize("result", ALL, ids=str)
@pytest.mark.parametrize("source", ALL, ids=str)
def test_casts(source, result):
    machine = target.host() if (ALL.index(source) + ALL.index(result)) % 3 else narrow()
    if source.is_floating_point:
        large = 65504.0 if result.is_floating_point else 3
        x = torch.cat([torch.randn(60) * 50, torch.tensor([0.0, -0.0, 1e-40, 0.1, large])])
        if result.is_floating_point or result is torch.bool:
            x = torch.cat([x, torch.tensor([math.nan, math.inf, -math.inf])])
        elif not result.is_signed:
            x = x.abs()
        x = x.to(source)
    else:
        x = torch.randint(-300, 300, (65,)).to(source)
    eager = x.to(result)
    got = apply("", [x], result, machine, lambda value: ir.cast(value, result))
    torch.testing.assert_close(got, eager, rtol=0, atol=0, equal_nan=True)


def test_where_and_constants(machine):
    x = floats(torch.float32)
    got = apply("", [x], torch.float32, machine, lambda v: ir.op(
        "where", ir.op("gt", v, ir.const(0.1, torch.float32)), v, ir.const(-3.5, torch.float32)))
    assert torch.equal(got, torch.where(x > 0.1, x, torch.tensor(-3.5)))


def test_products_are_rounded_before_they_are_added(machine):
    x, y, z = (floats(torch.float32, seed=n)[20:] for n in range(3))
    got = apply("", [x, y, z], torch.float32, machine, lambda a, b, c: ir.op("add", ir.op("mul", a, b), c))
    assert torch.equal(got, x * y + z)
    fused = apply("", [x, y, z], torch.float32, machine, lambda a, b, c: ir.op("fma", a, b, c))
    assert torch.equal(fused, (x.double() * y.double() + z.double()).float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_chain(dtype, machine):
    x, y = torch.randn(75).to(dtype), torch.randn(75).to(dtype)

    def build(a, b):
        product = ir.cast(ir.op("mul", ir.cast(a, torch.float32), ir.cast(b, torch.float32)), dtype)
        return ir.cast(ir.op("add", ir.cast(product, torch.float32), ir.cast(a, torch.float32)), dtype)

    assert torch.equal(apply("", [x, y], dtype, machine, build), x * y + x)


def _bfloat_bits(x):
    """Rounding to bfloat16 as the upper half of a float32, on bits."""
    bits = x.view(torch.int32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    return torch.where(x.isnan(), 0x7FC00000, rounded)


def _edges():
    """Float32s of every exponent and sign with the lower bits around ties, subnormal numbers and NaNs among them."""
    upper = torch.arange(-0x8000, 0x8000, dtype=torch.int32) << 16
    lower = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=torch.int32)
    return (upper[:, None] + lower).flatten().view(torch.float32)


def test_round_trip_through_bfloat16(machine):
    x = _edges()
    got = apply("", [x], torch.float32, machine, lambda v: ir.cast(ir.cast(v, torch.bfloat16), torch.float32))
    assert torch.equal(got.view(torch.int32), _bfloat_bits(x))
    narrow = apply("", [x], torch.bfloat16, machine, lambda v: ir.cast(v, torch.bfloat16))
    assert torch.equal(narrow.view(torch.int16), (_bfloat_bits(x) >> 16).to(torch.int16))


@pytest.mark.parametrize("bound", [0.0, 0.5, 1.001, 3e-45, math.inf])
def test_choice_among_bfloat16(bound, machine):
    """What is chosen among rounded numbers is rounded, a constant that is no bfloat16 is not."""
    x = _edges()

    def build(v):
        rounded = ir.cast(ir.cast(v, torch.bfloat16), torch.float32)
        return ir.cast(ir.op("max", rounded, ir.const(bound, torch.float32)), torch.bfloat16)

    rounded = _bfloat_bits(x).view(torch.float32)
    want = _bfloat_bits(torch.where((rounded >= bound) | rounded.isnan(), rounded, torch.tensor(bound)))
    got = apply("", [x], torch.bfloat16, machine, build)
    assert torch.equal(got.view(torch.int16), (want >> 16).to(torch.int16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("op", "eager"), [("max", torch.clamp_min), ("min", torch.clamp_max)])
def test_bounds_keep_zeros_and_nans(op, eager, dtype, machine):
    """A zero beside a zero bound keeps its sign, and a NaN stays one."""
    x = torch.tensor([-0.0, 0.0, math.nan, -math.nan, math.inf, -math.inf, 1.0, -1.0, 1e-40, -1e-40] * 7, dtype=dtype)
    got = apply("", [x], dtype, machine, lambda v: ir.op(op, v, ir.const(0.0, dtype)))
    want = eager(x, 0.0)
    assert torch.equal(got.isnan(), want.isnan())
    assert torch.equal(got.nan_to_num(), want.nan_to_num())
    assert torch.equal(got.signbit()[~got.isnan()], want.signbit()[~want.isnan()])


@pytest.mark.parametrize(
    "pair", [(torch.float32, torch.int32), (torch.int64, torch.float64), (torch.int16, torch.float16)])
def test_bitcast(pair, machine):
    x = torch.arange(50).to(pair[0])
    got = apply("", [x], pair[1], machine, lambda v: ir.Value("bitcast", pair[1], (v,)))
    assert torch.equal(got.view(torch.uint8), x.view(pair[1]).view(torch.uint8))
