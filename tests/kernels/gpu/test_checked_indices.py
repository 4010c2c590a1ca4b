"""Kernels of a GPU stop the program at an index that is out of range, and name the line."""

import re

import pytest
import torch
import torch.nn.functional as F
from tests.kernels.gpu.index_programs import PROGRAMS, WRAPPING, outside
from tests.kernels.gpu.pretended_gpu import PretendedGpu
from tests.kernels.gpu.stand_in_triton import Stopped

import firesteel as fs
from firesteel.errors import UserFrame
from firesteel.functional import trace
from firesteel.kernels import plan_cache
from firesteel.kernels.gpu import triton_worker
from firesteel.kernels.gpu.device import CudaTarget
from passes.gpu_graphs import GPU, on_gpu


def run(program, *args):
    gpu = PretendedGpu()
    fs.reset()
    with gpu.here(), fs.config.patch(raise_on_internal_error=True), torch.no_grad():
        return fs.compile(program, backend=gpu)(*args), gpu


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_index_out_of_range_stops_the_program(name):
    program, table = PROGRAMS[name], torch.randn(9, 8)
    lowest = -9 if name in WRAPPING else 0
    fine = torch.tensor([8, lowest, 3, 0, 5])
    got, _ = run(program, table, fine)
    torch.testing.assert_close(got, program(table, fine))
    line = program.__code__.co_firstlineno + 1
    for bad in outside(name, 9)[::4]:
        with pytest.raises(Stopped, match=f"an index is out of range: .* at index_programs.py:{line}: return "):
            run(program, table, torch.tensor([1, bad, 2, 3, 0]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_checks_indices_stay_inside(name):
    program, table = PROGRAMS[name], torch.randn(9, 8)
    with fs.config.patch(check_indices=False):
        _, gpu = run(program, table, torch.tensor([1, 9, 2, 3, 0]))
    assert not any("device_assert" in kernel.source for kernel in gpu.printed)


def test_what_is_not_looked_up_is_not_checked():
    def program(table, index, logits):
        parts = torch.cat([table[index], table])
        return parts, F.cross_entropy(logits, index.clamp(min=0) * 0 - 100)

    table, index = torch.randn(5, 70), torch.tensor([4, -5, 0])  # neither a part of a concatenation nor a last block
    got, gpu = run(program, table, index, torch.randn(3, 7))
    torch.testing.assert_close(got[0], torch.cat([table[index], table]))
    assert any("device_assert" in kernel.source for kernel in gpu.printed)


def test_what_is_known_to_be_in_range_is_not_looked_at():
    _, gpu = run(lambda table, index: table[index.clamp(0, 8)], torch.randn(9, 8), torch.tensor([3, 70]))
    assert not any("device_assert" in kernel.source for kernel in gpu.printed)


def test_plans_are_kept_for_the_lines_that_they_name(monkeypatch, tmp_path):
    monkeypatch.setattr(CudaTarget, "description", lambda self: "an H200")

    def key(line):
        graph = on_gpu(trace(torch.fx.symbolic_trace(lambda x, i: x.cos()[i]), [torch.randn(4, 6), torch.tensor([1])]))
        for node in graph.graph.nodes:
            node.meta["user_frames"] = [UserFrame("model.py", line if "index" in str(node.target) else 1, "f")]
        return plan_cache.plan_key(graph, CudaTarget(GPU))

    with fs.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        assert key(3) is not None and key(3) == key(3) != key(4)
        with fs.config.patch(check_indices=False):
            assert key(3) == key(4)


def test_checks_are_in_the_machine_code():
    _, gpu = run(PROGRAMS["embedding"], torch.randn(9, 8), torch.tensor([3, 7]))
    [kernel] = gpu.printed
    given = {"source": kernel.source, "name": kernel.name, "types": kernel.types, "multiples": [0, 1, 2], "arch": 90}
    options = {"num_warps": 1, "debug": True, "sanitize_overflow": False}
    code = triton_worker.machine_code(**given, options=options).code
    assert re.search(rb"an index is out of range: embedding at index_programs.py:\d+: return F.embedding", code)
