"""Matrix products of our own: which products are, what becomes part of their kernel, and that results are eager's."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.functional import run, trace
from firesteel.functional.graph import Unsupported
from firesteel.kernels.gpu.product import tile_product
from firesteel.kernels.gpu.product_printer import is_product, print_product
from firesteel.kernels.gpu.tiles import Tiles, choose_tiles
from firesteel.kernels.gpu.triton_printer import print_triton
from firesteel.kernels.ir import ExternCall
from firesteel.kernels.lowering import lower
from firesteel.kernels.plan import Launch, kernels_of
from firesteel.kernels.plan_text import _find_function
from firesteel.kernels.products.tile_products import tile_products
from firesteel.kernels.scheduling import schedule
from firesteel.kernels.scheduling.machines import GPU
from firesteel.passes.settings import Settings
from kernels.gpu.test_triton_printer import run_plan
from passes.pass_checks import body, functional, input_positions, operators, transformed

module = sys.modules["firesteel.kernels.products.tile_products"]
measured_products = sys.modules["firesteel.kernels.products.measured_products"]
SMALL = Tiles(16, 32, 16, 1, 1, 2)


@pytest.fixture(autouse=True)
def all_products(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(module, "is_faster", lambda *args: True)


GENERATOR = torch.Generator().manual_seed(0)
"""The same numbers each time: a sum near 0 may differ by more than the tolerance."""


def rand(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, generator=GENERATOR).to(dtype)


def planned(program, args):
    """The plan of a program, and its arguments in order."""
    graph = module.tile_products(functional(program, args))
    order = [args[position] for position in input_positions(graph, args)]
    return schedule(lower(graph.module), GPU), order


def linear_gelu(x0, x1, x2):
    return F.gelu(F.linear(x0, x1, x2))


def heads(x0, x1, x2, x3):
    return F.linear(x0, x1, x2).reshape(3, 7, 5, 8).transpose(1, 2) * x3


def residual(x0, x1, x2):
    return x2 + torch.mm(x0, x1)


def one_row(x0, x1, x2):
    return torch.relu(torch.addmm(x2, x0, x1))


def both_transposed(x0, x1):
    return torch.mm(x0.t(), x1.t())


def of_integers(x0, x1, x2):
    return F.linear(x0, x1.to(x0.dtype) * x2)


def batches(x0, x1, x2):
    return torch.bmm(x0, x1.transpose(1, 2)) * 0.5 + x2


def part_of_a_matrix(x0, x1):
    return torch.mm(x0[2:, 3:], x1[3:])


PROGRAMS = {
    linear_gelu: (rand(37, 24), rand(45, 24), rand(45)),
    heads: (rand(3, 7, 24), rand(40, 24), rand(40), rand(3, 5, 7, 8)),
    residual: (rand(40, 33), rand(33, 50), rand(40, 50)),
    one_row: (rand(1, 72), rand(72, 70), rand(70)),
    of_integers: (rand(5, 40), torch.randint(-128, 128, (50, 40), generator=GENERATOR).to(torch.int8), rand(50, 1)),
    both_transposed: (rand(24, 37), rand(45, 24)),
    batches: (rand(3, 37, 24), rand(3, 45, 24), rand(37, 45)),
    part_of_a_matrix: (rand(20, 24), rand(24, 19)),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("tiles", [None, SMALL], ids=["chosen", "small"])
def test_results(program, tiles):
    args = PROGRAMS[program]
    plan, order = planned(program, args)
    [kernel] = kernels_of(plan)  # what follows the product is part of it
    [found] = run_plan(plan, [print_product(kernel, tiles)], order)
    torch.testing.assert_close(found.reshape(program(*args).shape), program(*args))
    exact = program(*[arg.double() if arg.is_floating_point() else arg for arg in args])
    errors = [(result.double().reshape(exact.shape) - exact).abs().max() for result in (found, program(*args))]
    assert errors[0] <= 2 * errors[1]


def test_one_row_of_sums():
    args = rand(1, 72), rand(70, 72), rand(70)
    plan, order = planned(linear_gelu, args)
    [kernel] = kernels_of(plan)
    assert not is_product(kernel) and "sum(i1 < 72) mul(" in str(kernel)
    [found] = run_plan(plan, [print_triton(kernel)], order)
    torch.testing.assert_close(found, linear_gelu(*args))


@pytest.mark.parametrize("rows", [1, 37])
def test_sums_in_parts(rows, monkeypatch):
    def program(x0, x1, x2, x3):
        return F.layer_norm(F.linear(x0, x1, x2) + x3, (45,))

    usual = module.in_tiles
    tiles = Tiles(16, 32, 16, 1, 1, parts=3)
    monkeypatch.setattr(module, "in_tiles", lambda rewriter, node, parts: usual(rewriter, node, parts, tiles))
    args = rand(rows, 96), rand(45, 96), rand(45), rand(rows, 45)
    plan, order = planned(program, args)
    product, norm = kernels_of(plan)
    assert is_product(product) and " < 3:" in str(product) and str(norm).count("load(in0") >= 3
    [found] = run_plan(plan, [print_triton(kernel) for kernel in (product, norm)], order)
    torch.testing.assert_close(found, program(*args))


def test_any_number_of_rows():
    found = []

    def backend(graph, examples):
        found.append((trace(graph, examples), examples))
        return graph.forward

    args = rand(37, 24), rand(45, 24), rand(45)
    fs.mark_dynamic(args[0], 0)
    with torch.no_grad():
        fs.compile(linear_gelu, backend=backend, fullgraph=True)(*args)
    [(graph, examples)] = found
    graph = module.tile_products(graph)
    plan = schedule(lower(graph.module), GPU)
    [kernel] = kernels_of(plan)
    assert kernel.sizes
    for rows in (1, 37, 200):
        args = rand(rows, 24), *args[1:]
        order = [args[position] for position in input_positions(graph, args)]
        [result] = run_plan(plan, [print_triton(kernel)], order)
        torch.testing.assert_close(result, linear_gelu(*args))


def test_half_precision():
    args = rand(20, 24, dtype=torch.float16), rand(30, 24, dtype=torch.float16), rand(30, dtype=torch.float16)
    plan, order = planned(linear_gelu, args)
    [found] = run_plan(plan, [print_triton(kernel) for kernel in kernels_of(plan)], order)
    torch.testing.assert_close(found, linear_gelu(*args))


def test_products_of_one_matrix_stay_apart_and_so_do_reductions():
    def program(x0, x1, x2):
        return torch.mm(x0, x1), torch.softmax(torch.mm(x0, x2), -1)

    args = rand(20, 24), rand(24, 30), rand(24, 30)
    plan, order = planned(program, args)
    kernels = kernels_of(plan)
    launched = [step.kernel for step in plan.steps if isinstance(step, Launch)]
    assert [is_product(kernel) for kernel in launched].count(True) == 2 and len(launched) == 3
    found = run_plan(plan, [print_triton(kernel) for kernel in launched], order)
    torch.testing.assert_close(found, list(program(*args)))
    assert all(is_product(kernel) or "dot" not in str(kernel) for kernel in kernels)


def test_graph_before_and_after():
    args = rand(16, 8), rand(13, 8), rand(13)
    assert body(transformed(tile_products, lambda x0, x1, x2: F.linear(x0, x1, x2), *args)) == (
        "t: bf16[8, 13]/[1, 8] = aten.t.default(x1)\n"
        "tile_product: bf16[16, 13] = firesteel.tile_product(x0, t, x2, '16x32x16, 4 warps, 5 stages, groups of 8')\n"
        "return tile_product")


@pytest.mark.parametrize("program, args", [
    (lambda x0, x1: torch.mm(x0, x1), (torch.randn(8, 8), torch.randn(8, 8))),
    (lambda x0, x1, x2: torch.addmm(x2, x0, x1, beta=2), (rand(8, 8), rand(8, 8), rand(8))),
    (lambda x0, x1, x2: torch.addmm(x2, x0, x1), (rand(8, 8), rand(8, 8), rand(8, 8))),
    (lambda x0, x1: torch.mm(x0, x1), (rand(8, 8), rand(8, 1))),
], ids=["float32", "beta", "matrix as bias", "vector"])  # fmt: skip
def test_others_stay(program, args):
    assert "firesteel.tile_product" not in operators(transformed(tile_products, program, *args))


def test_rule(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(module, "LEAST_WORK", 1 << 10)

    def chosen(program, *args):
        return "firesteel.tile_product" in operators(tile_products(functional(program, args)))

    def product(x0, x1):
        return torch.mm(x0, x1.t())

    assert chosen(product, rand(64, 64), rand(99, 64))
    assert not chosen(product, rand(64, 63), rand(99, 63))  # the operands cannot be read 16 bytes at a time
    assert not chosen(lambda x0, x1: torch.mm(x0, x1), rand(64, 64), rand(64, 99))
    assert chosen(product, rand(200, 64), rand(99, 64))
    assert chosen(torch.mm, rand(48, 64), rand(64, 96)) and not chosen(torch.mm, rand(24, 64), rand(64, 96))
    assert not chosen(product, rand(48, 64), rand(96, 64))
    monkeypatch.setattr(module, "SMALL_MATRIX", 1000)
    assert not chosen(torch.mm, rand(48, 64), rand(64, 96))
    assert chosen(product, rand(1, 64), rand(96, 64)) and not chosen(product, rand(1, 64), rand(4096, 64))
    assert chosen(lambda x0, x1: F.linear(x0, x1.to(x0.dtype)), rand(4, 64), torch.ones(96, 64, dtype=torch.int8))
    assert not chosen(lambda x0, x1: F.linear(x0, x1.to(x0.dtype)), rand(4, 64), torch.ones(96, 64))
    # The kernel that reads a padded product skips the padding.
    assert not chosen(lambda x0, x1: torch.mm(x0, x1.t()).sum(-1), rand(200, 64), rand(99, 64))


class Timer:
    """A tuner that takes what it is told to, after preparing everything."""

    def __init__(self, wanted):
        self.wanted, self.ways = wanted, []

    def choose(self, what, identity, ways):
        self.ways.append(list(ways))
        return next(name for name in ways if self.wanted in name)


def test_measured_products(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(module, "LEAST_WORK", 1)
    args = rand(40, 64), rand(96, 64), rand(96)
    tuner = Timer("64x16x128")
    graph = module.tile_products(functional(linear_gelu, args), Settings(tuner=tuner))
    [[library, *others]] = tuner.ways
    assert library == "library" and len(others) >= 4
    assert "firesteel.tile_product(x0, t, x2, '64x16x128, 4 warps" in str(graph)
    plan = schedule(lower(graph.module), GPU)
    [made] = [print_triton(kernel) for kernel in kernels_of(plan)]
    assert "tl.zeros([64, 16]" in made.source and made.stages == 5
    [found] = run_plan(plan, [made], [args[position] for position in input_positions(graph, args)])
    torch.testing.assert_close(found, linear_gelu(*args))
    graph = module.tile_products(functional(linear_gelu, args), Settings(tuner=Timer("library")))
    assert "firesteel.tile_product" not in operators(graph)


def test_programs_that_are_measured():
    def program(x0, x1, x2):
        made = F.gelu(F.linear(x0, x1)).view(5, 8, 96) + x2
        return made.sum(-1)

    args = rand(40, 64), rand(96, 64), rand(5, 8, 96)
    graph = functional(program, args)
    [product] = [node for node in graph.graph.nodes if module.product_parts(node)]
    chain = measured_products.followed(product)
    assert [str(node.target).split(".")[1] for node in chain] == ["mm", "gelu", "view", "add"]
    inputs = list(dict.fromkeys(source for node in chain for source in node.all_input_nodes if source not in chain))
    given = [measured_products._made_up(source.meta["val"]) for source in inputs]
    assert [(t.shape, t.stride()) for t in given] == [(s.meta["val"].shape, s.meta["val"].stride()) for s in inputs]
    want = F.gelu(given[0] @ given[1]).view(5, 8, 96) + given[2]
    for tiles in (None, choose_tiles(40, 96, 64)):
        made = measured_products._program(chain, inputs, given, tiles)
        assert ("firesteel.tile_product" in operators(made)) is (tiles is not None)
        torch.testing.assert_close(run(made, given)[0], want)


def test_indices_have_32_bits():
    plan, _ = planned(residual, (torch.empty(4096, 1024, dtype=torch.bfloat16), *[
        torch.empty(*shape, dtype=torch.bfloat16) for shape in ((1024, 2048), (4096, 2048))]))
    [kernel] = kernels_of(plan)
    assert "int64" not in print_triton(kernel).source


def test_tiles_fit_the_shared_memory():
    for m in (1, 5, 16, 17, 64, 65, 300, 8192):
        for n in (2, 100, 768, 50257):
            for k in (16, 100, 768, 8192):
                tiles = choose_tiles(m, n, k)
                assert 2 * tiles.stages * tiles.k * (tiles.m + tiles.n) <= 227 * 1024
                assert min(tiles.m, tiles.n, tiles.k) >= 16


def test_what_is_no_product_says_so():
    plan, _ = planned(residual, PROGRAMS[residual])
    [kernel] = kernels_of(plan)
    body = kernel.body[0].body[0].body
    body[0].value = body[0].value.args[0]
    with pytest.raises(Unsupported, match="a product of cast"):
        print_product(kernel)


def test_machine_code():
    pytest.importorskip("triton")
    from firesteel.kernels.gpu.triton_compiler import Binary, Request, compile_all

    args = rand(100, 72), rand(200, 72), rand(200)
    plan, _ = planned(linear_gelu, args)
    [kernel] = kernels_of(plan)
    made = [print_product(kernel, tiles) for tiles in (Tiles(128, 128, 64, 4, 4), Tiles(16, 32, 64, 4, 2))]
    for binary in compile_all([Request(one, 90) for one in made]):
        assert isinstance(binary, Binary), binary


def test_without_a_kernel_it_is_a_call_of_the_library():
    args = PROGRAMS[linear_gelu]
    graph = module.tile_products(functional(linear_gelu, args))
    [node] = [node for node in graph.graph.nodes if node.target is tile_product]
    lowered = lower(graph.module, without={node})
    [call] = [operation for operation in lowered.operations if isinstance(operation, ExternCall)]
    assert call.target is tile_product
    x, w, b = args
    assert torch.equal(call.target(x, w.t(), b), F.linear(x, w, b))
    assert torch.equal(tile_product(x[None], w.t()[None]), (x @ w.t())[None])
    plan = schedule(lowered, GPU)
    assert _find_function(["function", tile_product.__module__, tile_product.__qualname__]) is tile_product
    assert "tile_product(" in str(plan)


@pytest.mark.parametrize("program", [residual, heads, one_row], ids=lambda program: program.__name__)
def test_golden(program):
    plan, _ = planned(program, PROGRAMS[program])
    [kernel] = kernels_of(plan)
    text = f"{kernel}\n\n{print_product(kernel, SMALL).source}"
    path = Path(__file__).parent / f"product_{program.__name__}.golden"
    if os.environ.get("FIRESTEEL_UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()
