"""Scans, scatters and numbers on the CPU in compiled programs on a GPU, against eager."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from kernels.gpu.on_gpu import needs_gpu, strict
from kernels.gpu.test_scans_and_scatters import SCANS, SCATTERS

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


def on_gpu(args):
    return [arg.cuda() for arg in args]


def check(program, *args, **kwargs):
    compiled = fs.compile(program, backend="native", **kwargs)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*args), program(*args), equal_nan=True)


def check_accuracy(program, x, **kwargs):
    """Floats are added up in another order than eager's, so both are compared with what is right."""
    exact, eager, got = program(x.double()), program(x), fs.compile(program, backend="native", **kwargs)(x)
    assert got.dtype is eager.dtype and got.stride() == eager.stride()
    torch.testing.assert_close(got.double(), exact, rtol=2e-3 if x.dtype is torch.float32 else 2e-2, atol=2e-3)
    assert (got - exact).abs().max() <= 2 * (eager - exact).abs().max() + 1e-6


@pytest.mark.parametrize("name", SCANS)
def test_scans(name):
    program, x = SCANS[name]
    if x.dtype is torch.bfloat16:
        check_accuracy(program, x.cuda())
    else:
        check(program, x.cuda())


@pytest.mark.parametrize("name", SCATTERS)
def test_scatters(name):
    program, *args = SCATTERS[name]
    check(program, *on_gpu(args))


@pytest.mark.parametrize("shape, dim", [
    ((3, 100003), 1), ((5, 16000), 1), ((2000, 300), 0), ((70000,), 0), ((300, 1025), 1), ((1 << 20,), 0),
    ((30000, 3, 7), 0),
])
def test_long_scans(shape, dim):
    x = torch.randn(shape, device="cuda")
    check_accuracy(lambda x: x.cumsum(dim), x)
    check(lambda x: (x.cummax(dim), x.cummin(dim), (x * 9).long().cumsum(dim)), x)


def test_other_long_scans():
    check_accuracy(lambda x: torch.logcumsumexp(x, 1), torch.randn(20, 9000, device="cuda"))
    check(lambda x: x.cumprod(1), torch.where(torch.rand(20, 30000, device="cuda") > 0.5, 1.0, -1.0))
    x = torch.randn(4, 100000, device="cuda")
    x[2, 5000] = float("nan")
    check(lambda x: x.cummax(1), x)


def test_scans_of_sizes_that_change():
    for shape in [(5, 7), (100, 3000), (3, 20000), (2, 2)]:
        check_accuracy(lambda x: x.cumsum(-1), torch.randn(shape, device="cuda"), dynamic=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", [None, 3])
def test_gradients_of_embeddings(dtype, padding):
    table = torch.randn(5000, 96, device="cuda").to(dtype).requires_grad_()
    tokens = torch.randint(0, 40, (8, 64), device="cuda")

    def loss(tokens, table):
        return (F.embedding(tokens, table, padding) @ table.t()).float().square().mean()

    compiled = fs.compile(loss, backend="native")
    loss(tokens, table).backward()
    want, table.grad = table.grad, None
    compiled(tokens, table).backward()
    torch.testing.assert_close(table.grad, want, rtol=2e-2 if dtype is torch.bfloat16 else 1e-4, atol=1e-5)


def test_deterministic_algorithms():
    x, i, s = torch.zeros(50, device="cuda"), torch.randint(0, 50, (10000,), device="cuda"), torch.randn(10000).cuda()
    compiled = fs.compile(lambda x, i, s: x.index_add(0, i, s), backend="native")
    torch.testing.assert_close(compiled(x, i, s), x.index_add(0, i, s), rtol=1e-4, atol=1e-4)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.equal(compiled(x, i, s), x.index_add(0, i, s))
    finally:
        torch.use_deterministic_algorithms(False)


def test_numbers_on_the_cpu():
    x, half = torch.randn(100, device="cuda"), torch.randn(100, device="cuda").bfloat16()
    for number in (torch.tensor(3.0), torch.tensor(0.1, dtype=torch.float64), torch.tensor(3), torch.tensor(True),
                   torch.tensor(2**40 + 1), torch.tensor(7, dtype=torch.int32), torch.tensor(0.1).bfloat16()):
        for y in (x, half, torch.arange(100, device="cuda")) if number.dtype is torch.float32 else (x,):
            check(lambda x, s: (x * s, x + s, s < x, x > s, torch.where(x > 0, x, s)), y, number)
