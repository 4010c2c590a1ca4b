"""Kernels as Triton source: golden files, and the source run by a stand-in for Triton gives eager's results.

``FIRESTEEL_UPDATE_GOLDEN=1 pytest tests/kernels/gpu`` writes the files anew; read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.functional.graph import Unsupported
from firesteel.kernels.gpu.blocks import Blocks
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.plan import Allocate, Launch
from firesteel.kernels.scheduling.machines import GPU
from kernels.gpu.stand_in_triton import run
from kernels.scheduling.programs import Planned, planned_for_gpu

GOLDEN = Path(__file__).parent


def sin_cos(x, y):
    return torch.sin(x) + torch.cos(y) * x


def bias_gelu(x, b):
    return F.gelu(x + b)


def softmax(x):
    return torch.softmax(x, -1)


def long_softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x, w, b):
    return F.layer_norm(x, (100,), w, b)


def residual_layer_norm(x, y, w, b):
    z = x + y
    return z, F.layer_norm(z, (64,), w, b)


def transposed_add(x, y):
    return x + y.t()


def cat(x, y):
    return torch.cat([x, y * 2], 1)


def cat_halves(x, y):
    return torch.cat([x, y * 2], 1)


def group_norm(x, w, b):
    return F.silu(F.group_norm(x, 2, w, b))


def embedding_add(tokens, table, positions):
    return table[tokens] + positions


def int8_dequantise(q, scale):
    return q.to(torch.float32) * scale


def bf16_chain(x, y):
    return torch.relu(x * y + 1)


def masked_softmax(x, mask):
    return torch.softmax(x.masked_fill(mask, -1e9), -1)


def log_sum_exp(x):
    return torch.logsumexp(x, -1)


def column_sum(x):
    return x.sum(0)


def softmax_of_channels(x):
    return torch.softmax(x, 1)


def cross_entropy(x, target):
    return F.cross_entropy(x, target)


def total(x):
    return (x * x).sum()


def arg_max(x):
    return x.argmax(-1), x.argmin()


def any_all(x):
    return (x > 2).any(-1), (x > -9).all()


def middle_sum(x):
    return x.sum((0, 2))


def gradient_of_edges(x):
    return torch.gradient(x, dim=0)[0]


def doubles(x):
    return torch.where(x > 0.1, 0.1, -0.3).to(torch.float64) + x * 0.7


PROGRAMS = {
    total: (torch.randn(3, 70),),
    arg_max: (torch.tensor([[1.0, 3.0, 3.0], [float("nan"), 5.0, float("nan")], [-1.0, -1.0, -2.0]]),),
    any_all: (torch.randn(9, 40),),
    middle_sum: (torch.randn(5, 6, 7),),
    gradient_of_edges: (torch.randn(6, 5),),
    doubles: (torch.randn(20, dtype=torch.float64),),
    column_sum: (torch.randn(300, 70),),
    softmax_of_channels: (torch.randn(2, 10, 4, 16),),
    cross_entropy: (torch.randn(512, 40), torch.arange(512) % 40),
    sin_cos: (torch.randn(33, 5), torch.randn(33, 5)),
    bias_gelu: (torch.randn(6, 24), torch.randn(24)),
    softmax: (torch.randn(8, 60),),
    long_softmax: (torch.randn(2, 20000),),
    layer_norm: (torch.randn(7, 100), torch.randn(100), torch.randn(100)),
    residual_layer_norm: (torch.randn(2, 3, 64), torch.randn(2, 3, 64), torch.randn(64), torch.randn(64)),
    transposed_add: (torch.randn(12, 20), torch.randn(20, 12)),
    cat: (torch.randn(6, 10), torch.randn(6, 5)),
    cat_halves: (torch.randn(6, 10), torch.randn(6, 10)),
    group_norm: (torch.randn(3, 4, 8, 16) + 3, torch.randn(4), torch.randn(4)),
    embedding_add: (torch.arange(12).reshape(3, 4) % 7, torch.randn(7, 16), torch.randn(4, 16)),
    int8_dequantise: (torch.arange(-60, 60, dtype=torch.int8).reshape(10, 12), torch.rand(10, 1)),
    bf16_chain: (torch.randn(9, 10).bfloat16(), torch.randn(10).bfloat16()),
    masked_softmax: (torch.randn(4, 40), torch.arange(160).reshape(4, 40) % 3 == 0),
    log_sum_exp: (torch.randn(5, 48),),
}

# Lowered otherwise for the CPU, where eager's NaN of large numbers is computed along.
NORMS = {layer_norm, residual_layer_norm, group_norm}


def printed(program, dynamic, blocks=None):
    """The plan of a program, its kernels in Triton and the arguments that it is called with."""
    device = torch.device("cuda") if program in NORMS else None
    plan, given = planned_for_gpu(program, *PROGRAMS[program], dynamic=dynamic, device=device)
    return plan, [print_triton(step.kernel, blocks) for step in plan.steps if isinstance(step, Launch)], given


def run_plan(plan, made, args):
    """The results of a plan that only allocates and launches."""
    symbols, memory = {}, {}
    for part, arg in zip(plan.inputs, args):
        memory[part.name] = arg
    for symbol, (name, kind, dim) in plan.symbols.items():
        symbols[symbol] = memory[name].size(dim) if kind == "size" else memory[name].stride(dim)

    def number(expr):
        return int(expr.evaluate(symbols)) if expr.free_symbols else int(expr.value)

    made = iter(made)
    for step in plan.steps:
        if isinstance(step, Allocate):
            b = step.buffer
            memory[b.name] = torch.empty_strided(
                [number(n) for n in b.shape], [number(s) for s in b.strides], dtype=b.dtype
            )
        elif isinstance(step, Launch):
            sizes = [(symbol, number(expr)) for symbol, expr in zip(step.kernel.sizes, step.sizes)]
            run(next(made), [memory[name] for name in step.buffers], sizes)
    return [memory[ref.buffer] for ref in plan.outputs]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_golden(program):
    _, made, _ = printed(program, False)
    text = "\n\n".join(kernel.source for kernel in made)
    path = GOLDEN / f"{program.__name__}.golden"
    if os.environ.get("FIRESTEEL_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.exists(), f"{path.name} is missing; FIRESTEEL_UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text()


def check_results(program, dynamic, blocks=None):
    plan, made, args = printed(program, dynamic, blocks)
    want = program(*PROGRAMS[program])
    for left, right in zip([want] if isinstance(want, torch.Tensor) else want, run_plan(plan, made, args), strict=True):
        torch.testing.assert_close(right.reshape(left.shape), left)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_results(program, dynamic):
    check_results(program, dynamic)


BLOCKS = [Blocks(8, 16, 0, 1), Blocks(2, 16, 64, 1), Blocks(16, 8, 32, 1, 4), Blocks(1, 16, 0, 1, held=2)]


# A long row in short blocks takes seconds; it is the same program as the short one.
@pytest.mark.parametrize("program", [program for program in PROGRAMS if program is not long_softmax],
                         ids=lambda program: program.__name__)
@pytest.mark.parametrize("blocks", BLOCKS, ids=["looped", "some_looped", "tiles", "held"])
def test_results_do_not_depend_on_blocks(program, blocks):
    try:
        check_results(program, False, blocks)
    except Unsupported as error:
        assert "longer than a block" in str(error)


def test_what_has_no_triton_here_says_so():
    backend = Planned(runs=False, machine=GPU)
    with torch.no_grad():
        fs.compile(lambda x, i: x.scatter_reduce(0, i, x, "prod"), backend=backend, fullgraph=True)(
            torch.rand(8), torch.arange(8))
    with pytest.raises(Unsupported, match="combines: mul"):
        [print_triton(step.kernel) for step in backend.plans[0].steps if isinstance(step, Launch)]


def test_few_short_rows_are_one_kernel():
    """Another launch would take longer than the rows."""
    backend = Planned(runs=False, machine=GPU)
    x, w = torch.randn(64, 768), torch.randn(768)
    with torch.no_grad():
        fs.compile(lambda x, w: F.layer_norm(x, (768,), w, w), backend=backend, fullgraph=True)(x, w)
    assert sum(isinstance(step, Launch) for step in backend.plans[0].steps) == 1
