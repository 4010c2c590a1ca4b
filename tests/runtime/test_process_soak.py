"""Processes that are late, break, recompile or die, each on its own: what `benchmarks.process_soak` does at length."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch.distributed as dist

import process_group

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.process_soak import killed  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)


def test_what_happens_to_one_process_changes_no_result():
    processes = process_group.Processes(2)
    try:
        for seed in (1, 4):
            assert processes.call("process_soak", "train", seed, None, patience=120) == ["", ""]
    finally:
        processes.close()


def test_nobody_waits_for_a_process_that_is_gone():
    assert killed(3, 2, 1) == ""
