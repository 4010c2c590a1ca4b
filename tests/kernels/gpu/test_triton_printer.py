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
from firesteel.kernels.gpu import print_triton
from firesteel.kernels.gpu.values import Unsupported
from firesteel.kernels.plan import Allocate, Launch
from kernels.gpu.stand_in_triton import run
from kernels.scheduling.programs import Planned

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


PROGRAMS = {
    column_sum: (torch.randn(300, 70),),
    softmax_of_channels: (torch.randn(2, 10, 4, 16),),
    cross_entropy: (torch.randn(512, 40), torch.arange(512) % 40),
    sin_cos: (torch.randn(33, 5), torch.randn(33, 5)),
    bias_gelu: (torch.randn(6, 24), torch.randn(24)),
    softmax: (torch.randn(8, 60),),
    long_softmax: (torch.randn(2, 5000),),
    layer_norm: (torch.randn(7, 100), torch.randn(100), torch.randn(100)),
    residual_layer_norm: (torch.randn(2, 3, 64), torch.randn(2, 3, 64), torch.randn(64), torch.randn(64)),
    transposed_add: (torch.randn(12, 20), torch.randn(20, 12)),
    cat: (torch.randn(6, 10), torch.randn(6, 5)),
    embedding_add: (torch.arange(12).reshape(3, 4) % 7, torch.randn(7, 16), torch.randn(4, 16)),
    int8_dequantise: (torch.arange(-60, 60, dtype=torch.int8).reshape(10, 12), torch.rand(10, 1)),
    bf16_chain: (torch.randn(9, 10).bfloat16(), torch.randn(10).bfloat16()),
    masked_softmax: (torch.randn(4, 40), torch.arange(160).reshape(4, 40) % 3 == 0),
    log_sum_exp: (torch.randn(5, 48),),
}


def printed(program, dynamic):
    """The plan of a program, its kernels in Triton and the arguments that it is called with."""
    fs.reset()
    planned, given = Planned(runs=False), []

    def backend(module, example_inputs):
        planned(module, example_inputs)
        return lambda *args: given.extend(args) or module(*args)

    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*PROGRAMS[program])
    [plan] = planned.plans
    return plan, [print_triton(step.kernel) for step in plan.steps if isinstance(step, Launch)], given


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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_results(program, dynamic):
    if dynamic and program is softmax_of_channels:
        pytest.skip("rows of a length that is not known, one of many")
    plan, made, args = printed(program, dynamic)
    want = program(*PROGRAMS[program])
    for left, right in zip([want] if isinstance(want, torch.Tensor) else want, run_plan(plan, made, args), strict=True):
        torch.testing.assert_close(right.reshape(left.shape), left)


def test_what_has_no_triton_here_says_so():
    backend = Planned(runs=False)
    with torch.no_grad():
        fs.compile(lambda x: x.cumsum(-1), backend=backend, fullgraph=True)(torch.randn(4, 8))
    with pytest.raises(Unsupported, match="Scan"):
        [print_triton(step.kernel) for step in backend.plans[0].steps if isinstance(step, Launch)]
