"""Kernels for 64-bit ARM: compiled here, looked at, and run in an emulator where there is one."""

from __future__ import annotations

import platform
import re

import pytest
import torch
from torch.nn import functional as F

import firesteel as fs
from firesteel.kernels.cpu import engine, gemm, object_emitter, target
from firesteel.kernels.cpu.engine import compile_kernels
from firesteel.kernels.options import Options
from firesteel.kernels.plan import kernels_of
from firesteel.pipeline.compile import compile_graph
from kernels.cpu import emulating
from kernels.cpu.running import launcher

NUMBERS = torch.linspace(-3, 3, 203)
PROGRAMS = {
    "pointwise": (lambda x, y: torch.relu(x) * 2 + y, NUMBERS, NUMBERS.flip(0)),
    "softmax": (lambda x: torch.softmax(x, -1), torch.randn(7, 53)),
    "layer norm": (lambda x: F.layer_norm(x, (50,)), torch.randn(5, 50)),
    "gelu": (lambda x: F.gelu(x), NUMBERS),
    "functions": (lambda x: torch.tanh(x) + torch.exp(x) + torch.log(x.abs() + 1), NUMBERS),
    "functions of the C library": (lambda x: torch.sin(x) * torch.pow(x.abs(), 1.3), NUMBERS),
    "bfloat16": (lambda x: torch.relu(x) * x, NUMBERS.bfloat16()),
    "float16": (lambda x: torch.relu(x) * x, NUMBERS.half()),
    "double": (lambda x: torch.exp(x) / (1 + x * x), NUMBERS.double()),
    "integers": (lambda x, y: (x // 3 + y % 5).to(torch.int8), torch.arange(-60, 60), torch.arange(120)),
    "transposed": (lambda x: x.t() + 1, torch.randn(37, 21)),
    "reductions": (lambda x: x.sum(0) * x.amax(0) + x.mean(), torch.randn(37, 21)),
    "scan": (lambda x: x.cumsum(-1), torch.randn(6, 19)),
    "threads": (lambda x: x * 2 + 1, torch.randn(150_000)),
}


def kernels(program, *args):
    plans = []

    def backend(gm, examples):
        plans.append(compile_graph(gm, examples, Options()).plan)
        return gm.forward

    with torch.no_grad():
        fs.compile(program, backend=backend, fullgraph=True)(*args)
    return [kernel for plan in plans for kernel in kernels_of(plan)]


@pytest.fixture(scope="module")
def machine():
    llvm = target.llvm_binding()
    llvm.initialize_all_targets()
    try:
        llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this build of llvmlite has no aarch64")
    return target.aarch64()


@pytest.mark.parametrize("name", PROGRAMS)
def test_code_is_made_for_the_target(machine, name):
    for kernel in kernels(*PROGRAMS[name]):
        text = engine.llvm_text(kernel, machine)
        assert "x86" not in text and "Sleef" not in text  # the vector functions of this process are another CPU's
        widths = {int(lanes) * bits for lanes, kind in re.findall(r"<(\d+) x (float|double|i32|i64)>", text)
                  for bits in [{"float": 32, "i32": 32}.get(kind, 64)]}
        code = engine.assembly(kernel, machine)
        assert not widths or re.search(r"\bv\d+\.(4s|2d|8h|16b)|\bq\d+", code), code


def test_guards_and_host_programs_are_made_for_the_target(machine):
    from firesteel.kernels.host import machine as host
    from firesteel.native import checker as guards
    from firesteel.native.tensors import tensor_layout
    from firesteel.torch_compat import native_calls

    llvm = target.llvm_binding()
    made = target.new_machine(machine.cpu, machine.features, machine.architecture)
    for text, name in ((guards.source(tensor_layout()), b"firesteel_guards"),
                       (host.source(native_calls.implementation_offset()), b"firesteel_host")):
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
        code = made.emit_object(module)
        assert code[18:20] == b"\xb7\x00" and name in code  # an object file for aarch64


def test_matrix_products_are_made_for_the_target(machine):
    text = gemm.module_text(machine, "product")
    assert "x86" not in text and b"product" in object_emitter.object_code(text, machine)


def fill(buffer):
    """A tensor for a buffer of a kernel, with numbers that any operation takes."""
    sizes, strides = ([int(part.evaluate({})) for part in parts] for parts in (buffer.shape, buffer.strides))
    count = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    values = torch.linspace(-3, 3, count) if buffer.dtype.is_floating_point else torch.arange(count) % 100 - 50
    return torch.as_strided(values.to(buffer.dtype), sizes, strides)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the results are compared with those of x86-64")
@pytest.mark.parametrize("name", PROGRAMS)
def test_code_runs_in_an_emulator(machine, name):
    pytest.importorskip("unicorn", reason="the emulator unicorn is not installed")
    for kernel in kernels(*PROGRAMS[name]):
        data = object_emitter.object_code(engine.llvm_text(kernel, machine, "emulated"), machine)
        emulated = [fill(buffer) for buffer in kernel.buffers]
        here = [fill(buffer) for buffer in kernel.buffers]
        launcher(compile_kernels([kernel])[0], here)()
        emulating.run(data, "emulated", emulated)
        for one, other in zip(emulated, here, strict=True):
            torch.testing.assert_close(one, other)
