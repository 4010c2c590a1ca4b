"""Functions on a GPU that is not the current one, with a stand-in for CUDA's notion of it."""

from __future__ import annotations

import contextlib

import torch

from firesteel.kernels.gpu.devices import on_device


def test_functions_run_on_their_device(monkeypatch):
    current = [0]

    @contextlib.contextmanager
    def device(index):
        before, current[0] = current[0], index
        yield
        current[0] = before

    def run(x):
        return x, current[0]

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert on_device(run, torch.device("cuda", 0)) is run
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    second = on_device(run, torch.device("cuda", 1))
    assert second(5) == (5, 1) and current == [0]
    current[0] = 1
    assert second(6) == (6, 1) and current == [1]
    assert on_device(run, torch.device("cuda", 0))(7) == (7, 0) and current == [1]
