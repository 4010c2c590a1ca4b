"""Versions of kernels with sizes that are not known: what decides between them, and that all compute the same."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel import shapes
from firesteel.kernels.gpu.driver import request_of
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.gpu.versions import COUNT, UNALIGNED, UNEVEN, WIDE, even_sizes, extent_of, print_versions
from firesteel.kernels.plan import Launch
from firesteel.kernels.scheduling.machines import GPU
from kernels.gpu.test_triton_printer import (
    PROGRAMS,
    arg_max,
    cat,
    column_sum,
    layer_norm,
    log_sum_exp,
    printed,
    run_plan,
    softmax,
    transposed_add,
)
from kernels.scheduling.programs import Planned


def launches(program, *args, dynamic=True):
    fs.reset()
    backend = Planned(runs=False, machine=GPU)
    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)(*args)
    [plan] = backend.plans
    return plan, [step for step in plan.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("program", [softmax, layer_norm, column_sum, transposed_add, cat, log_sum_exp, arg_max],
                         ids=lambda program: program.__name__)
def test_narrow_indices_give_the_same(program):
    plan, _, args = printed(program, True)
    made = [print_versions(step.kernel) for step in plan.steps if isinstance(step, Launch)]
    for kernel in made:
        if kernel.wide is not None:
            assert "program_id(0).to(tl.int64)" not in kernel.source and "i32" in kernel.types
            assert kernel.wide.programs == kernel.programs and kernel.wide.warps == kernel.warps
    want = program(*PROGRAMS[program])
    for left, right in zip([want] if isinstance(want, torch.Tensor) else want, run_plan(plan, made, args), strict=True):
        torch.testing.assert_close(right.reshape(left.shape), left)


def test_extents():
    _, [step] = launches(lambda x, b: torch.relu(x + b), torch.randn(6, 7), torch.randn(7))
    sizes = dict(zip(step.kernel.sizes, map(shapes.const, (1000, 300)), strict=True))
    assert int(extent_of(step.kernel).substitute(sizes)) == 300_000
    _, [step] = launches(lambda x: x + 1, torch.randn(6, 7), dynamic=False)
    assert extent_of(step.kernel) is None and print_versions(step.kernel) == print_triton(step.kernel)


def test_a_size_that_is_only_a_value_counts():
    """The last kernel of a mean divides by a size that its loops do not reach."""
    _, steps = launches(lambda x: x.mean(), torch.randn(100_000))
    kernel = steps[-1].kernel
    assert kernel.sizes and extent_of(kernel) is None  # indices have 32 bits, whatever the size
    made = print_versions(kernel)
    assert made.types[-1] == "i64" and f"{kernel.sizes[0]}.to(tl.int64)" in made.source


def test_sizes_that_are_multiples_of_16():
    plan, [step] = launches(lambda x: x * 2, torch.randn(6, 48)[:, :32])
    symbols = {size: value for size, value in zip(step.kernel.sizes, step.sizes, strict=True)}
    found = even_sizes(plan, {symbol: 32 if "1" in str(symbol) else 6 for symbol in plan.symbols})
    assert [str(symbols[symbol]) for symbol in found[id(step.kernel)]] == ["s1"]
    made = print_versions(step.kernel, found[id(step.kernel)])
    assert [made.types[number] for number in made.even] == ["i32"]


def test_how_many_rows_there_are_is_not_taken_for_granted():
    def names(program, *args):
        _, steps = launches(program, *args)
        kernel = steps[0].kernel
        return [str(kernel.sizes[number - len(kernel.buffers)]) for number in print_versions(kernel, kernel.sizes).even]

    assert names(lambda x: torch.softmax(x, -1), torch.randn(4, 6)) == ["s1"]
    assert names(lambda x, y: torch.relu(x + y), torch.randn(4, 6), torch.randn(6)) == ["s1"]
    assert names(lambda x: x * 2, torch.randn(5)) == ["s0"]
    assert len(names(lambda x: x * 2, torch.randn(3, 4, 5))) == 1
    with_768 = torch.randn(3, 4, 768)
    fs.mark_static(with_768, 2)
    assert names(lambda x: torch.softmax(x, -1), with_768) == []


@pytest.mark.parametrize("program", [softmax, layer_norm], ids=lambda program: program.__name__)
def test_every_version_compiles(program):
    pytest.importorskip("triton")
    from firesteel.kernels.gpu.triton_compiler import Binary, compile_all

    plan, _, _ = printed(program, True)
    kernels = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    made = [print_versions(kernel, kernel.sizes) for kernel in kernels]
    requests = [request_of(kernel, 90, version) for kernel in made for version in range(COUNT)]
    assert len({request.key for request in requests}) == sum(COUNT if kernel.even else COUNT // 2 for kernel in made)
    assert not request_of(made[0], 90, UNALIGNED | UNEVEN).aligned and not request_of(made[0], 90, UNEVEN).even
    assert request_of(made[0], 90, WIDE).kernel.types == print_triton(kernels[0]).types
    chosen = [request for number, request in enumerate(requests) if number % COUNT in (0, UNALIGNED | UNEVEN | WIDE)]
    assert all(isinstance(binary, Binary) for binary in compile_all(chosen))
