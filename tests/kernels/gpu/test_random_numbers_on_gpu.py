"""Random numbers of compiled programs on a GPU are eager's, and so is the generator behind them."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.torch_compat import cuda_random

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.fixture(autouse=True)
def strict():
    fs.reset()
    with fs.config.patch(raise_on_internal_error=True):
        yield


def same_numbers(program, *args, calls=2, **kwargs):
    """Equal results, bit for bit, over several calls, and an equal state of the generator."""
    compiled = fs.compile(program, backend="native", **kwargs)
    torch.manual_seed(123456789012)
    want = [program(*args) for _ in range(calls)]
    state = torch.cuda.get_rng_state()
    torch.manual_seed(123456789012)
    got = [compiled(*args) for _ in range(calls)]
    for left, right in zip(want, got, strict=True):
        for a, b in zip(left, right, strict=True) if isinstance(left, tuple) else [(left, right)]:
            assert a.dtype is b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    assert torch.equal(state, torch.cuda.get_rng_state())


def test_this_torch_follows_the_rules(monkeypatch):
    device = torch.device("cuda", torch.cuda.current_device())
    monkeypatch.setattr(cuda_random, "CHECKED", ())
    state = torch.cuda.get_rng_state()
    assert cuda_random.follows_rules.__wrapped__(device)
    assert torch.equal(state, torch.cuda.get_rng_state())
    monkeypatch.setattr(cuda_random, "DROPOUT_WIDTHS", {torch.float32: 2})
    assert not cuda_random.follows_rules.__wrapped__(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(7,), (10, 100), (999, 1001), (2, 3000, 513), (3000002,), (4100, 1000)])
def test_dropout_and_rand(dtype, shape):
    x = torch.randn(shape, device="cuda").to(dtype)
    with torch.no_grad():
        same_numbers(lambda x: (F.dropout(x * 2, 0.1), torch.rand_like(x), F.dropout(x * 3, 0.5)), x)


def test_other_operators_draw_between():
    def program(x):
        drawn = torch.randn_like(x), torch.rand(x.shape, device="cuda"), torch.randperm(10, device="cuda")
        numbers = [torch.randint(-5, 1000, (70000,), device="cuda"),
                   torch.randint(7, x.shape, device="cuda", dtype=torch.int32)]
        return F.dropout(x + 1), *drawn, x * torch.bernoulli(x, 0.3), F.dropout1d(x * 2), *numbers

    with torch.no_grad():
        same_numbers(program, torch.randn(300, 70, device="cuda"))


def test_layouts_and_views():
    with torch.no_grad():
        image = torch.randn(4, 6, 10, 10, device="cuda").to(memory_format=torch.channels_last)
        same_numbers(lambda x: (F.dropout(x * 2, 0.3), torch.rand_like(x)), image)
        x = torch.randn(101, 64, device="cuda")
        same_numbers(lambda x: (F.dropout(x, 0.3), F.dropout((x * 2)[1:], 0.3), F.dropout((x * 2).t(), 0.3)), x)
        same_numbers(lambda x: F.dropout(x[:, 1:] * 2, 0.3), x)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_training(mode):
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Dropout(0.2), torch.nn.Linear(256, 64),
        torch.nn.Dropout(0.1)).cuda()
    other = copy.deepcopy(model)
    compiled = fs.compile(other, backend="native", mode=mode)
    x = torch.randn(300, 64, device="cuda")
    for step in range(4):
        torch.manual_seed(step)
        model(x).square().sum().backward()
        torch.manual_seed(step)
        compiled(x).square().sum().backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-3)
            p.grad = q.grad = None


def test_gradients_of_short_floats_are_eagers():
    x = torch.randn(300, 640, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    program = lambda x: F.dropout(x * 2, 0.1)  # noqa: E731
    grads = []
    for run in (program, fs.compile(program, backend="native")):
        torch.manual_seed(7)
        run(x).backward(torch.ones_like(x))
        grads.append(x.grad)
        x.grad = None
    assert torch.equal(*grads)


def test_masks_are_not_kept():
    weight, x = torch.randn(1 << 20, device="cuda", requires_grad=True), torch.randn(1 << 20, device="cuda")
    compiled = fs.compile(lambda w, x: F.dropout(x * w, 0.3), backend="native")
    compiled(weight, x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    result = compiled(weight, x)
    assert torch.cuda.memory_allocated() - before < 4 * x.numel() + (1 << 19)
    del result
