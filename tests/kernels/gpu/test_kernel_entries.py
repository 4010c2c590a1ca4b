"""Machine code of GPU kernels on disk: found again by what a kernel does, believed only if it is whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from firesteel import config, disk_cache, shapes
from firesteel.kernels.gpu import engine, triton_compiler
from firesteel.kernels.gpu.triton_compiler import Binary, Request, compile_all, load
from firesteel.kernels.gpu.triton_printer import TritonKernel
from firesteel.kernels.plan import KernelPlan
from firesteel.kernels.plan_text import plan_text, read_plan

S0 = shapes.symbol("s0")
WIDE = TritonKernel("k3", "def k3(a, s0):\n    wide\n", S0, ("*fp32", "i64"), 4)
KERNEL = TritonKernel("k3", "def k3(a, s0):\n    k3_row\n", S0, ("*fp32", "i32"), 4, 2, (1,), WIDE, 5 * S0)


@pytest.fixture(autouse=True)
def compiler(tmp_path, monkeypatch):
    """A compiler that notes what it compiles."""
    made = []

    def compiled(request):
        made.append(request)
        return Binary(b"code of " + request.kernel.source.encode(), request.kernel.name, 7)

    monkeypatch.setattr(triton_compiler, "triton_version", lambda: "3.6")
    monkeypatch.setattr(triton_compiler, "_compile", compiled)
    monkeypatch.setattr(triton_compiler.triton_worker, "import_triton", lambda: None)
    with config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        yield made


def test_an_entry_holds_what_other_versions_are_made_of(compiler):
    request = Request(KERNEL, 90)
    [made] = compile_all([request])
    kernel, binary = load(request.key)
    assert binary == made
    assert replace(kernel, programs=S0, extent=5 * S0, wide=None) == replace(KERNEL, wide=None)
    assert replace(kernel.wide, programs=S0) == WIDE
    assert compile_all([request]) == [made] and len(compiler) == 1


def test_names_do_not_matter_and_everything_else_does(compiler):
    other = replace(KERNEL, name="k17", source=KERNEL.source.replace("def k3(", "def k17("),
                    wide=replace(WIDE, name="k17", source=WIDE.source.replace("def k3(", "def k17(")))
    keys = [Request(one, 90).key for one in (KERNEL, other)]
    assert keys[0] == keys[1]
    compile_all([Request(KERNEL, 90), Request(other, 90)])
    assert len(compiler) == 1
    others = [replace(KERNEL, warps=8), replace(KERNEL, stages=3), replace(KERNEL, even=()), replace(KERNEL, wide=None),
              replace(KERNEL, source="def k3(a, s0):\n    other\n"), replace(KERNEL, types=("*bf16", "i32"))]
    keys += [Request(one, 90).key for one in others]
    keys += [Request(KERNEL, 80).key, Request(KERNEL, 90, False).key]
    assert len(set(keys)) == len(keys) - 1
    assert Request(KERNEL, 90, True, False).key == Request(replace(KERNEL, even=()), 90).key


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"\3\0\0\0\0\0\0\0{}x", b"\4\0\0\0\0\0\0\0nullcode"])
def test_damaged_entries_are_made_again(damage, compiler):
    request = Request(KERNEL, 90)
    disk_cache.put(triton_compiler.KIND, request.key, damage)
    assert load(request.key) is None
    [made] = compile_all([request])
    assert isinstance(made, Binary) and load(request.key)[1] == made


def test_failures_are_told_and_not_kept(monkeypatch):
    def fail(request):
        raise ValueError("too many registers")

    monkeypatch.setattr(triton_compiler, "_compile", fail)
    requests = [Request(replace(KERNEL, source=f"def k3():\n    {number}\n"), 90) for number in range(3)]
    assert all(isinstance(found, ValueError) for found in compile_all(requests))
    assert not disk_cache.info().kinds


def test_plans_say_how_many_programs_there_are(compiler, monkeypatch):
    request = Request(KERNEL, 90)
    compile_all([request])
    plan = KernelPlan([], {}, [], [])
    text = plan_text(plan, [], [], {}, [(S0, 5 * S0), (shapes.const(3), None)])
    assert read_plan(text, {}).programs == [(S0, 5 * S0), (shapes.const(3), None)]
    installed = []
    monkeypatch.setattr(engine, "install", lambda key, kernel, binary, device: installed.append(kernel) or key)
    device = torch.device("cuda")
    assert engine.load_for_gpu([request.key], [(S0, 5 * S0)], device) == [request.key]
    assert (installed[0].programs, installed[0].extent) == (S0, 5 * S0)
    assert engine.load_for_gpu([request.key], [(S0, None)], device) is None  # a launch would not say what it has to
    assert engine.load_for_gpu([request.key, "0" * 40], [(S0, 5 * S0), (S0, None)], device) is None
