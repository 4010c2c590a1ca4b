"""Processes that are late, break, recompile or die, each on its own: what `benchmarks.process_soak` does at length."""

from __future__ import annotations

import pytest
import torch.distributed as dist

import process_group
import process_soak

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)


def test_what_happens_to_one_process_changes_no_result(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_COMPILE_AFTER", "0")
    processes = process_group.Processes(2)
    try:
        for seed in (1, 4):
            assert processes.call("process_soak", "train", seed, None, patience=process_soak.PATIENCE) == ["", ""]
    finally:
        processes.close()


def test_nobody_waits_for_a_process_that_is_gone(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_COMPILE_AFTER", "0")
    assert process_soak.killed(3, 2, 1) == ""
