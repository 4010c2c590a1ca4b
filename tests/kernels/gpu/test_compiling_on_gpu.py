"""How programs are compiled for a GPU: caches, versions of kernels, sizes that change, compiling meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import config, disk_cache
from firesteel.kernels import lowering
from firesteel.kernels.gpu import driver, triton_compiler
from firesteel.kernels.gpu.versions import LIMIT, UNALIGNED, UNEVEN, WIDE

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


KEPT = []


def nothing_installed(monkeypatch):
    """No kernel is on the device; the memory of descriptors stays, for functions that are still alive."""
    KEPT.append(driver._Descriptors())
    monkeypatch.setattr(driver, "_descriptors", KEPT[-1])


@pytest.fixture(autouse=True)
def strict(tmp_path, monkeypatch):
    fs.reset()
    torch.manual_seed(0)
    nothing_installed(monkeypatch)
    with config.patch(raise_on_internal_error=True, disk_cache=True, cache_dir=str(tmp_path)):
        yield
    fs.reset()


def rand(*shape, **kwargs):
    return torch.randn(*shape, device="cuda", **kwargs)


def versions():
    """The versions of kernels that there are."""
    return {version for found in driver._descriptors.all for version in range(8) if found.has_version(version)}


def forget(monkeypatch):
    """As in a new process, in which nothing may be lowered or compiled."""
    fs.reset()

    def refuse(*args, **kwargs):
        raise AssertionError("made again")

    nothing_installed(monkeypatch)
    monkeypatch.setattr(lowering, "lower", refuse)
    monkeypatch.setattr(triton_compiler, "_compile", refuse)


def mixed(x, w):
    hidden = F.gelu(x @ w)
    return torch.softmax(hidden, -1), hidden.sum(0), hidden[:, 1:].t()


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_second_process_makes_nothing_again(dynamic, monkeypatch):
    def check(compiled, rows):
        x, w = rand(rows, 64), rand(64, 32)
        with torch.no_grad():
            for got, want in zip(compiled(x, w), mixed(x, w), strict=True):
                torch.testing.assert_close(got, want)
                assert got.stride() == want.stride()

    check(fs.compile(mixed, dynamic=dynamic), 48)
    assert disk_cache.info().kinds["plan"][0] == 1
    forget(monkeypatch)
    compiled = fs.compile(mixed, dynamic=dynamic)
    check(compiled, 48)
    if dynamic:
        monkeypatch.undo()
        check(compiled, 33)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_training_in_a_second_process(mode, monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda()
    x = rand(32, 64)

    def gradients(run):
        model.zero_grad()
        run(x).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    want = gradients(model)
    for again in (False, True):
        if again:
            forget(monkeypatch)
        compiled = fs.compile(model, mode=mode)
        for _ in range(4):
            torch.testing.assert_close(gradients(compiled), want, rtol=1e-3, atol=1e-4)


def test_triton_is_not_imported_again(tmp_path):
    code = textwrap.dedent("""
        import sys, torch, firesteel as fs
        x = torch.ones(100, device="cuda")
        with torch.no_grad():
            print(fs.compile(lambda x: torch.sin(x).sum())(x).item(), "triton" in sys.modules)
    """)
    file = tmp_path / "program.py"
    file.write_text(code)
    environment = {**os.environ, "FIRESTEEL_CACHE_DIR": str(tmp_path / "cache"), "FIRESTEEL_DISK_CACHE": "1"}
    found = [subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True,
                            env=environment).stdout for _ in range(2)]
    first, second = (text.split() for text in found)
    assert first[0] == second[0] and first[1] == "True" and second[1] == "False"


def test_damaged_code_is_made_again():
    def program(x):
        return torch.relu(x) * 3

    x = rand(1000)
    with torch.no_grad():
        fs.compile(program)(x)
        for path in list(Path(disk_cache.directory(), triton_compiler.KIND).rglob("*.entry")):
            key = path.stem
            for data in (b"", b"\0" * 40, disk_cache.get(triton_compiler.KIND, key)[:-100] + b"x" * 100):
                disk_cache.put(triton_compiler.KIND, key, data)
                fs.reset()
                driver._descriptors.found.clear()
                torch.testing.assert_close(fs.compile(program)(x), program(x))


def test_sizes_that_change_choose_versions():
    def program(x):
        return torch.softmax(x * 2, -1)

    compiled = fs.compile(program, dynamic=True)
    with torch.no_grad():
        for shape in [(64, 128), (128, 64)]:
            x = rand(*shape)
            torch.testing.assert_close(compiled(x), program(x))
        assert versions() == {0}
        x = rand(10, 33)
        torch.testing.assert_close(compiled(x), program(x))
        assert versions() == {0, UNEVEN}
        x = rand(1 + 32 * 16)[1:].view(32, 16)
        torch.testing.assert_close(compiled(x), program(x))
        assert versions() == {0, UNEVEN, UNALIGNED}


def test_indices_that_need_64_bits():
    def program(x):
        return (x + 1).to(torch.int8), x.sum(-1)

    compiled = fs.compile(program, dynamic=True)
    with torch.no_grad():
        compiled(torch.ones(16, 32, device="cuda", dtype=torch.int8))
        x = torch.ones(2 * LIMIT // 512 + 16, 1024, device="cuda", dtype=torch.int8)
        got, sums = compiled(x)
        assert WIDE in versions()
        assert bool((got == 2).all()) and bool((sums == 1024).all())
        del got
        count = fs.compile(lambda x: x.float().mean(), dynamic=True)
        assert count(torch.ones(100, device="cuda", dtype=torch.int8)).item() == 1
        assert count(x.view(-1)).item() == 1


def test_library_calls_with_sizes_that_change():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = torch.nn.Linear(64, 192), torch.nn.Linear(64, 64)

        def forward(self, x):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, 16).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).flatten(2))

    for dtype in (torch.float32, torch.bfloat16):
        model = Attention().to("cuda", dtype)
        compiled = fs.compile(model, dynamic=True)
        for shape in [(2, 32, 64), (3, 17, 64), (1, 100, 64), (5, 1, 64)]:
            x = rand(*shape).to(dtype)
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), model(x))
            got, want = [torch.autograd.grad(run(x).float().square().mean(), list(model.parameters()))
                         for run in (compiled, model)]
            torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2 if dtype is torch.bfloat16 else 1e-4)


def test_branches_are_compiled():
    def program(x):
        return fs.cond(x.sum() > 0, lambda x: torch.sin(x) * 2, lambda x: torch.cos(x) - 1, (x,))

    compiled = fs.compile(program)
    with torch.no_grad():
        for x in (rand(100).abs(), -rand(100).abs()):
            torch.testing.assert_close(compiled(x), program(x))


def test_a_kernel_that_the_device_refuses(monkeypatch):
    """Its operators are called instead."""
    def load(binary, device):
        raise driver.Unsupported("more shared memory than the device has")

    monkeypatch.setattr(driver, "load", load)
    x = rand(64, 64)
    with torch.no_grad():
        torch.testing.assert_close(fs.compile(lambda x: torch.sin(x).sum(-1))(x), torch.sin(x).sum(-1))


def test_compiling_meanwhile():
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64)).cuda()
    for graphs in (False, True):
        compiled = fs.compile(model, options={"background": True, "cuda_graphs": graphs})
        for _ in range(8):
            x = rand(32, 64)
            got, want = [torch.autograd.grad(run(x).square().sum(), list(model.parameters()))
                         for run in (compiled, model)]
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
            with torch.no_grad():
                torch.testing.assert_close(compiled(x), model(x))
            for thread in threading.enumerate():
                if thread.name.startswith("firesteel compiles"):
                    thread.join(0.3)
