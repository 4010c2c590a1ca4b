"""Machine code through Triton, where it is installed; no GPU is needed for that."""

from __future__ import annotations

import pytest

pytest.importorskip("triton")

from firesteel.kernels.gpu.triton_compiler import Binary, Request, compile_all
from kernels.gpu.test_triton_printer import PROGRAMS, arg_max, cross_entropy, printed, sin_cos, softmax


@pytest.mark.parametrize("program", [sin_cos, softmax, cross_entropy, arg_max], ids=lambda program: program.__name__)
def test_machine_code(program):
    assert program in PROGRAMS
    _, made, _ = printed(program, False)
    found = compile_all([Request(kernel, 90, aligned) for kernel in made for aligned in (True, False)])
    for binary in found:
        assert isinstance(binary, Binary), binary
        assert binary.code.startswith(b"\x7fELF") and binary.name.encode() in binary.code


def test_machine_code_of_all_programs():
    made = [kernel for program in PROGRAMS for kernel in printed(program, False)[1]]
    found = compile_all([Request(kernel, 90) for kernel in made])
    assert {kernel.source: binary for kernel, binary in zip(made, found, strict=True)
            if not isinstance(binary, Binary)} == {}


@pytest.mark.parametrize("arch", [80, 120])
def test_other_gpus(arch):
    _, made, _ = printed(softmax, False)
    [binary] = compile_all([Request(kernel, arch) for kernel in made])
    assert isinstance(binary, Binary), binary
