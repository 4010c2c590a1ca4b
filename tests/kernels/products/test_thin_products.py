"""Products that add up few numbers, or give one for each batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import firesteel as fs
from firesteel.kernels.products.thin_products import thin_products
from passes.pass_checks import operators, transformed


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


CASES = {
    "few products": ((1, 4100, 2), (1, 2, 1)), "three": ((3, 100, 3), (3, 3, 33)), "four": ((65, 4), (4, 70)),
    "one": ((80, 1), (1, 80)), "a row by a column": ((70, 1, 64), (70, 64, 1)),
    "five": ((65, 5), (5, 70)), "too few results": ((5, 2), (2, 7)), "nothing to add": ((70, 0), (0, 70)),
    "no batches": ((0, 1, 64), (0, 64, 1)),
}
CHANGED = {"few products", "three", "four", "one", "a row by a column"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_which_become_loops(name, dtype):
    left, right = CASES[name]
    args = random(*left, dtype=dtype), random(*right, dtype=dtype)

    def function(x0, x1):
        return torch.matmul(x0, x1)

    graph = transformed(thin_products, function, *args)
    loops = not {"aten.mm.default", "aten.bmm.default"} & set(operators(graph))
    assert loops == (name in CHANGED and dtype is not torch.bfloat16)
    torch.testing.assert_close(fs.compile(function, backend="native", fullgraph=True)(*args), function(*args))


def test_errors_are_no_larger_than_those_of_the_library():
    x, y = random(512, 1, 300, dtype=torch.float32), random(512, 300, 1, dtype=torch.float32)
    exact = x.double() @ y.double()
    ours, theirs = (f(x, y) for f in (fs.compile(torch.bmm, backend="native"), torch.bmm))
    assert (ours - exact).abs().max() <= 2 * (theirs - exact).abs().max()


def test_permuted_operands_and_what_follows():
    def grey(picture, weights):
        grey = torch.einsum("ijk,j->ik", picture, weights)
        return ((grey - grey.min()) / (grey.max() - grey.min()) * 255).to(torch.uint8)

    args = random(65, 3, 64), random(3)
    torch.testing.assert_close(fs.compile(grey, backend="native", fullgraph=True)(*args), grey(*args), atol=1, rtol=0)

    def numpy_version(x, y):
        return np.einsum("ij,ij->i", x, y), np.einsum("ijk,j->ik", x.reshape(8, 4, -1), y[0, :4])

    x, y = (random(64, 96).numpy(), random(64, 96).numpy() + 1)
    for one, two in zip(fs.compile(numpy_version, fullgraph=True)(x, y), numpy_version(x, y), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_gradients():
    x, w = random(4100, 2).requires_grad_(), random(2, 3).requires_grad_()
    (x @ w).square().sum().backward()
    expected = x.grad.clone(), w.grad.clone()
    x.grad = w.grad = None
    fs.compile(lambda x, w: (x @ w).square().sum(), backend="native")(x, w).backward()
    torch.testing.assert_close((x.grad, w.grad), expected)
