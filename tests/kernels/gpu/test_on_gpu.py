"""Compiled programs on a GPU against eager, where there is one."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from kernels.gpu.on_gpu import needs_gpu, rand, strict

pytestmark = needs_gpu
__all__ = ["strict"]  # a fixture


def check(program, *args, **kwargs):
    compiled = fs.compile(program, backend="native", **kwargs)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(*args), program(*args))
    return compiled


def test_rows_and_columns():
    check(lambda x, w, b: F.gelu(F.layer_norm(x, (700,), w, b)), rand(33, 700), rand(700), rand(700))
    check(lambda x: (torch.softmax(x, -1), torch.softmax(x, 0), x.sum(0), x.amax(-1)), rand(40, 20000))
    check(lambda x, y: x + y.t(), rand(100, 200), rand(200, 100))


def test_buffers_that_are_not_aligned():
    compiled = fs.compile(lambda x: torch.relu(x + 1), backend="native")
    base = rand(1001)
    with torch.no_grad():
        torch.testing.assert_close(compiled(base[:-1]), torch.relu(base[:-1] + 1))
        torch.testing.assert_close(compiled(base[1:]), torch.relu(base[1:] + 1))


def test_sizes_that_change():
    compiled = fs.compile(lambda x: torch.softmax(x * 2, -1), backend="native", dynamic=True)
    with torch.no_grad():
        for shape in [(5, 7), (100, 3000), (3, 20000), (1, 1)]:
            x = rand(*shape)
            torch.testing.assert_close(compiled(x), torch.softmax(x * 2, -1))


def test_devices_and_random_numbers_are_eagers():
    check(lambda x, s: (x * s).sum() + torch.tensor(2.0), rand(100), torch.tensor(3.0))
    check(lambda x: (x.cpu() + 1).cuda() * 2, rand(10))
    check(lambda x: (x.cumsum(0), x.new_zeros(10).index_add(0, torch.tensor([1, 2, 1], device="cuda"), x[:3])), rand(9))

    def random(x):
        return F.dropout(x, 0.5) + torch.rand_like(x)

    x = rand(1000)
    torch.manual_seed(5)
    want = random(x)
    torch.manual_seed(5)
    torch.testing.assert_close(fs.compile(random, backend="native")(x), want)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_training(mode):
    import copy

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(512, 10)).cuda()
    other = copy.deepcopy(model)
    compiled = fs.compile(model, backend="native", mode=mode)
    for _ in range(5):
        x, y = rand(4, 3, 16, 16), torch.randint(0, 10, (4,), device="cuda")
        for run in (compiled, other):
            F.cross_entropy(run(x), y).backward()
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4)
            p.grad = q.grad = None
    for p, q in zip(model.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(p, q)


def test_results_that_are_held_are_not_overwritten():
    def program(x, w):
        return torch.relu(x @ w), (x * 2).sum()

    w = rand(256, 256)
    compiled = fs.compile(program, backend="native", mode="reduce-overhead")
    held = []
    with torch.no_grad():
        for _ in range(10):
            x = rand(256, 256)
            held.append((compiled(x, w), program(x, w)))
    for got, want in held:
        torch.testing.assert_close(got, want)


def test_a_thread_that_has_not_used_the_gpu():
    compiled = fs.compile(lambda x: torch.relu(x + 1), backend="native")
    x, found = rand(100), []
    with torch.no_grad():
        compiled(x)
    thread = threading.Thread(target=lambda: found.append(compiled(x)))
    thread.start()
    thread.join()
    torch.testing.assert_close(found[0], torch.relu(x + 1))
