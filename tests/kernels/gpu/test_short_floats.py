"""Cheaper arithmetic for short floats: where it is used, and that results are as near to the exact ones as eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.gpu.blocks import Blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.plan import Launch
from firesteel.kernels.scheduling.machines import GPU
from kernels.gpu.test_triton_printer import run_plan
from kernels.scheduling.programs import Planned

FUNCTIONS = {
    "silu": F.silu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "exp": torch.exp, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "third": lambda x: x / 3, "softsign": F.softsign, "mish": F.mish,
}  # fmt: skip
# In double precision too, 1 + erf and 1 + tanh cancel.
EXACT = {
    F.gelu: lambda x: x * 0.5 * torch.special.erfc(-x * 0.5**0.5),
    FUNCTIONS["gelu_tanh"]: lambda x: x * torch.sigmoid(2 * (2 / torch.pi)**0.5 * (x + 0.044715 * x**3)),
}
DTYPES = [torch.bfloat16, torch.float16]


def all_values(dtype, device="cpu"):
    """Every finite number of a short type."""
    every = torch.arange(-(1 << 15), 1 << 15, device=device).to(torch.int16).view(dtype)
    return every[every.isfinite()]


def printed(program, *args):
    fs.reset()
    planned = Planned(runs=False, machine=GPU)
    with torch.no_grad():
        fs.compile(program, backend=planned, fullgraph=True)(*args)
    [plan] = planned.plans
    blocks = Blocks(1 << 20, 1, 1 << 20, 4) if args[0].dim() == 1 else None  # one program is quicker here than many
    return plan, [print_triton(step.kernel, blocks) for step in plan.steps if isinstance(step, Launch)]


def check_near(program, x, got):
    """Whether results are at most as far from the exact ones as eager's, or by half a unit in the last place."""
    eager, exact = program(x), EXACT.get(program, program)(x.double())
    assert torch.equal(got.isnan(), eager.isnan())
    largest = torch.finfo(x.dtype).max
    assert not (got.isinf() & (exact.abs() <= largest)).any()
    assert got[exact.abs() > 1.01 * largest].isinf().all()
    known = got.isfinite() & eager.isfinite()
    got, eager, exact = got[known].double(), eager[known].double(), exact[known]
    info = torch.finfo(x.dtype)
    unit = info.eps * torch.exp2(torch.floor(torch.log2(exact.abs().clamp_min(info.tiny))))
    allowed = torch.maximum((eager - exact).abs(), 0.51 * unit)
    if program is F.gelu:
        allowed += x[known].double().abs() * 2.0**-24  # what eager's kernels for GPUs lose when they add 1 and erf
    bad = (got - exact).abs() > allowed
    assert not bad.any(), (x[known][bad][:5], got[bad][:5], eager[bad][:5], exact[bad][:5])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number(name, dtype):
    x = all_values(dtype)
    plan, made = printed(FUNCTIONS[name], x)
    check_near(FUNCTIONS[name], x, run_plan(plan, made, [x])[0])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_number_on_gpu(name, dtype):
    x = all_values(dtype, "cuda")
    with torch.no_grad():
        check_near(FUNCTIONS[name], x, fs.compile(FUNCTIONS[name], backend="native")(x))


def gelu_errors(device):
    x = torch.linspace(-12, 12, 1 << 20, device=device)
    return x, F.gelu(x), EXACT[F.gelu](x.double())


def check_gelu(got, eager, exact):
    for part in range(16):
        at = slice(part << 16, (part + 1) << 16)
        errors = [(side[at] - exact[at]).abs().max().item() for side in (got, eager)]
        assert errors[0] <= 2 * errors[1] + 1e-12


def test_gelu_of_single_precision():
    x, eager, exact = gelu_errors("cpu")
    plan, made = printed(F.gelu, x)
    assert "one_plus_erf" in made[0].source
    check_gelu(run_plan(plan, made, [x])[0], eager, exact)
    far = torch.tensor([-1e4, -30.0, -0.0, 0.0, 30.0, float("nan")])
    plan, made = printed(F.gelu, far)
    assert torch.equal(run_plan(plan, made, [far])[0][:5], F.gelu(far)[:5])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gelu_of_single_precision_on_gpu():
    x, eager, exact = gelu_errors("cuda")
    with torch.no_grad():
        check_gelu(fs.compile(F.gelu, backend="native")(x), eager, exact)


def test_what_is_not_rounded_to_a_short_type_is_eagers():
    x = torch.randn(8, 64, dtype=torch.bfloat16)
    for program in (lambda x: F.silu(x.float()), lambda x: (F.silu(x.float()), F.silu(x)),
                    lambda x: (x.float() / 3 - 1).to(torch.bfloat16), lambda x: torch.floor(x.float() / 3).to(x.dtype),
                    lambda x: (x.float() / 3 > 0.5).to(x.dtype)):
        source = "".join(kernel.source for kernel in printed(program, x)[1])
        assert "tl.div_rn" in source or "over_one_plus(" in source  # which are rounded as divisions are
        assert " / " not in source.split("def k0")[1]
    softmax = printed(lambda x: torch.softmax(x, -1), x)[1][0].source
    assert "libdevice.exp" in softmax  # it is summed
    # That is the last thing before the result is rounded.
    assert "tl.div_rn" not in softmax and "quotient(" not in softmax
