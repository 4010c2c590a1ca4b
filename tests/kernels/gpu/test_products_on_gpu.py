"""Matrix products of our own on a GPU against eager, where there is one."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.kernels.gpu.measuring import GpuTuner
from firesteel.passes.settings import Settings
from firesteel.pipeline.compile import compile_alternative
from passes.pass_checks import functional

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
module = sys.modules["firesteel.kernels.products.tile_products"]


@pytest.fixture(autouse=True)
def all_products(monkeypatch):
    fs.reset()
    torch.manual_seed(0)
    monkeypatch.setattr(module, "is_faster", lambda *args: True)
    with fs.config.patch(raise_on_internal_error=True):
        yield


def rand(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(dtype)


def check(program, *args, absolute=1e-5, **options):
    """Results are eager's, and no farther from exact ones than twice as far as eager's are."""
    compiled = fs.compile(program, backend="native", fullgraph=True, **options)
    with torch.no_grad():
        for _ in range(2):
            found, eager = compiled(*args), program(*args)
            torch.testing.assert_close(found, eager, rtol=1.6e-2, atol=absolute)
            assert found.stride() == eager.stride()
        exact = program(*[arg.double() for arg in args])
        error, allowed = [(result.double() - exact).abs().max().item() for result in (found, eager)]
        assert error <= 2 * allowed, f"{error} of {allowed}"
    return compiled


def linear_gelu(x0, x1, x2):
    return F.gelu(F.linear(x0, x1, x2))


@pytest.mark.parametrize("rows", [1, 5, 16, 64, 100, 300])
def test_rows(rows):
    check(linear_gelu, rand(rows, 768), rand(1000, 768), rand(1000))
    check(lambda x, w: torch.mm(x, w), rand(rows, 264), rand(264, 1001))


def test_layouts():
    check(lambda x, w: torch.mm(x.t(), w.t()), rand(512, 200), rand(333, 512))
    check(lambda x, y: torch.bmm(x, y.transpose(1, 2)) * 0.125, rand(12, 200, 64), rand(12, 300, 64))
    check(lambda x, w, r: torch.mm(x, w) + r, rand(200, 768), rand(768, 768), rand(200, 768))
    check(lambda x, w, b: F.linear(x, w, b).reshape(4, 50, 12, 64).transpose(1, 2).contiguous(),
          rand(4, 50, 768), rand(768, 768), rand(768))


@pytest.mark.parametrize("rows", [3, 64])
def test_sums_in_parts(rows):
    check(lambda x, w, b, r: F.layer_norm(F.linear(x, w, b) + r, (768,)),
          rand(rows, 3072), rand(768, 3072), rand(768), rand(rows, 768))


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_weights_of_integers(rows):
    args = rand(rows, 1024), torch.randint(-128, 128, (2000, 1024), device="cuda").to(torch.int8), rand(2000)
    compiled = fs.compile(lambda x, q, s: F.linear(x, q.to(x.dtype)) * s, backend="native")
    with torch.no_grad():
        x, q, s = args
        found, eager = compiled(*args), F.linear(x, q.to(x.dtype)) * s
        torch.testing.assert_close(found, eager, rtol=1.6e-2, atol=0.1)
        exact = F.linear(x.double(), q.double()) * s.double()
        assert (found - exact).abs().max() <= 2 * (eager - exact).abs().max()


def test_half_precision_and_memory_that_is_not_aligned():
    check(linear_gelu, *[rand(*shape, dtype=torch.float16) for shape in ((80, 256), (200, 256), (200,))])
    base = rand(64 * 768 + 1)
    check(lambda x, w: torch.mm(x, w.t()), base[1:].view(64, 768), rand(1000, 768))


def test_vocabulary(monkeypatch):
    """Products with the sizes of GPT-2's last layer, without anything forced."""
    monkeypatch.undo()
    with fs.config.patch(raise_on_internal_error=True):
        for rows in (1, 64, 1024):
            # Among so many sums there are some of which next to nothing is left, and what is depends on their order.
            check(lambda x, w: F.linear(x, w), rand(rows, 768), rand(50257, 768), absolute=1e-4)


def test_any_number_of_rows():
    w, b = rand(1000, 768), rand(1000)
    compiled = fs.compile(linear_gelu, backend="native")
    with torch.no_grad():
        for rows in (70, 3, 300):
            x = rand(rows, 768)
            fs.mark_dynamic(x, 0)
            torch.testing.assert_close(compiled(x, w, b), linear_gelu(x, w, b))


def test_relu_of_the_library(monkeypatch):
    monkeypatch.undo()
    with fs.config.patch(raise_on_internal_error=True):
        for dtype in (torch.bfloat16, torch.float32):
            args = [rand(*shape, dtype=dtype) for shape in ((512, 256), (1024, 256), (1024,), (64, 1024))]
            check(lambda x, w, b, v: F.linear(F.relu(F.linear(x, w, b)), v), *args)


def test_measured(monkeypatch):
    monkeypatch.undo()
    device = torch.device("cuda", torch.cuda.current_device())
    tuner = GpuTuner(device=device, compile=compile_alternative)
    graph = functional(linear_gelu, [rand(512, 768), rand(3072, 768), rand(3072)])
    module.tile_products(graph, Settings(tuner=tuner, device=device))
    assert len(tuner.decisions) == 1
    with fs.config.patch(raise_on_internal_error=True):
        check(linear_gelu, rand(512, 768), rand(3072, 768), rand(3072), mode="max-autotune")


def test_recorded():
    compiled = check(linear_gelu, rand(64, 768), rand(1000, 768), rand(1000), mode="reduce-overhead")
    x, w, b = rand(64, 768), rand(1000, 768), rand(1000)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(compiled(x, w, b), linear_gelu(x, w, b))
