"""Which device a graph is compiled for, and what is lowered for it."""

from __future__ import annotations

import importlib.metadata

import pytest
import torch
import torch.fx

from firesteel.backends.native import unsupported_reason
from firesteel.functional import Unsupported
from firesteel.kernels.gpu.engine import check_available
from firesteel.kernels.gpu.triton_compiler import triton_version
from firesteel.kernels.scheduling.machines import CPU, GPU
from firesteel.kernels.targets import target_of


class OnDevice:
    """A stand-in for a fake tensor's device."""

    def __init__(self, device):
        self.device = torch.device(device)


def graph_of(*devices, monkeypatch):
    monkeypatch.setattr("firesteel.kernels.targets._values", lambda value: [value])
    graph = torch.fx.Graph()
    for number, device in enumerate(devices):
        graph.placeholder(f"x{number}").meta["val"] = OnDevice(device)
    return graph


@pytest.mark.parametrize("devices, expected, machine", [
    (("cpu", "cpu"), "cpu", CPU), (("cpu", "cuda:1"), "cuda:1", GPU), (("cuda",), "cuda:0", GPU), ((), "cpu", CPU),
])  # fmt: skip
def test_the_gpu_that_has_tensors(devices, expected, machine, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    found = target_of(graph_of(*devices, monkeypatch=monkeypatch))
    assert (found.device, found.machine) == (torch.device(expected), machine)


def test_a_torch_without_cuda_has_no_gpu(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    assert target_of(graph_of("cuda", monkeypatch=monkeypatch)).kind.is_host


def test_other_devices_stay_with_eager():
    assert "meta" in unsupported_reason([torch.ones(2, device="meta")])
    assert unsupported_reason([torch.ones(2)]) is None


def test_a_missing_triton_leaves_the_graph_to_eager(monkeypatch):
    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    triton_version.cache_clear()
    with pytest.raises(Unsupported, match="Triton is not installed"):  # for the backend: run it as it was captured
        check_available()
