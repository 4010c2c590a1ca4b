"""Packages in a C++ program: no Python, the same results, an immediate start."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from pathlib import Path

import numpy
import pytest
import torch
import torchvision
import transformers
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

import firesteel as fs
from firesteel.export import Dim, export

ROOT = Path(__file__).resolve().parents[3]
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")
TORCH = Path(torch.__file__).parent

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


def test_the_header_is_c_too(tmp_path):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = tmp_path / "program.c"
    source.write_text('#include "firesteel_model.h"\nint main(void) { return FIRESTEEL_OK; }\n')
    include = ROOT / "src" / "firesteel" / "export" / "packages"
    subprocess.run([compiler, "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", f"-I{include}",
                    str(source)], check=True)


def build(source: Path, program: Path) -> Path:
    """Compile a program against libtorch."""
    include = ROOT / "src" / "firesteel" / "export" / "packages"
    abi = int(torch.compiled_with_cxx11_abi())
    subprocess.run(
        [COMPILER, "-std=c++20", "-O0", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-I{include}",
         f"-I{TORCH / 'include'}", str(source), "-o", str(program), f"-L{TORCH / 'lib'}",
         f"-Wl,-rpath,{TORCH / 'lib'},--no-as-needed", "-ltorch_cpu", "-lc10", "-ldl"], check=True)  # fmt: skip
    return program


def run(program: Path, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program), *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})


def seconds(program: Path, *words: object) -> float:
    """What the fastest of a few runs takes of a processor: others may be at work on this machine."""
    best = 1e9
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run(program, *words).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def check(program: Path, package: Path, model: torch.nn.Module, x: torch.Tensor, folder: Path) -> str:
    """Run a package from C++ and compare with Python; the words that the run took."""
    loaded = fs.export.load_package(package)
    x.numpy().tofile(folder / "x.bin")
    shape = "x".join(map(str, x.shape))
    done = run(program, package, "-", folder / "y", f"{shape}:{folder / 'x.bin'}")
    assert done.returncode == 0, done.stderr
    with torch.no_grad():
        expected, packaged = model(x), loaded(x)
    got = torch.from_numpy(numpy.fromfile(folder / "y.0", dtype=numpy.float32)).reshape(expected.shape)
    torch.testing.assert_close(got, expected)
    torch.testing.assert_close(got, packaged, rtol=0, atol=0)
    exact = model.double()(x.double())
    model.float()
    assert (got - exact).abs().max() <= 2 * (expected - exact).abs().max()
    return f"{shape}:{folder / 'x.bin'}"


class Block(torch.nn.Module):
    """A block of GPT-2 that returns a tensor, whatever the release of transformers."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.GPT2Config(n_embd=192, n_head=6, attn_implementation="sdpa")
        self.block = GPT2Block(config, layer_idx=0)

    def forward(self, hidden_states):
        result = self.block(hidden_states)
        return result[0] if isinstance(result, tuple) else result


def test_resnet_and_gpt2_run_in_a_cpp_program(tmp_path):
    program = build(ROOT / "examples" / "cpp_package" / "run_package.cpp", tmp_path / "run_package")
    (tmp_path / "empty.cpp").write_text("int main() { return 0; }\n")
    empty = build(tmp_path / "empty.cpp", tmp_path / "empty")

    resnet = torchvision.models.resnet18().eval()
    started = time.process_time()
    with torch.no_grad():
        exported = export(resnet, (torch.randn(2, 3, 64, 64),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
    fs.export.package(exported, tmp_path / "resnet.fsp")
    assert time.process_time() - started < 5
    for batch in (1, 3):
        words = check(program, tmp_path / "resnet.fsp", resnet, torch.randn(batch, 3, 64, 64), tmp_path)

    block = Block().eval()
    with torch.no_grad():
        exported = export(block, (torch.randn(2, 16, 192),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
    fs.export.package(exported, tmp_path / "gpt2.fsp")
    for batch in (1, 4):
        words = check(program, tmp_path / "gpt2.fsp", block, torch.randn(batch, 16, 192), tmp_path)

    # The start alone: a call of the block takes a few milliseconds. Others at work make it slower, never faster.
    assert any(seconds(program, tmp_path / "gpt2.fsp", "-", tmp_path / "y", words) < seconds(empty) + 0.1
               for _ in range(4))

    path = words.split(":")[1]
    new = torch.randn(192)
    new.numpy().tofile(tmp_path / "new.bin")
    changed = run(program, tmp_path / "gpt2.fsp", "-", tmp_path / "z", words,
                  f"block.ln_1.bias=192:{tmp_path / 'new.bin'}")
    assert changed.returncode == 0, changed.stderr
    with torch.no_grad():
        block.block.ln_1.bias.copy_(new)
        expected = block(torch.from_numpy(numpy.fromfile(path, dtype=numpy.float32)).reshape(-1, 16, 192))
    got = torch.from_numpy(numpy.fromfile(tmp_path / "z.0", dtype=numpy.float32)).reshape(expected.shape)
    torch.testing.assert_close(got, expected)

    refused = run(program, tmp_path / "gpt2.fsp", "-", tmp_path / "y", f"1x16x96:{path}")
    assert refused.returncode == 3
    assert "the input hidden_states has size 96 in dimension 2, expected 192" in refused.stderr
    missing = run(program, tmp_path / "gpt2.fsp", "other", tmp_path / "y", f"1x16x192:{path}")
    assert missing.returncode == 1 and "has no model other" in missing.stderr
    data = (tmp_path / "gpt2.fsp").read_bytes()
    for name, damaged in (("short", data[: len(data) // 2]), ("empty", b""), ("other", b"PK" * 4096)):
        (tmp_path / name).write_bytes(damaged)
        failed = run(program, tmp_path / name, "-", tmp_path / "y", f"1x16x192:{path}")
        assert failed.returncode == 1 and "damaged or not a package" in failed.stderr
