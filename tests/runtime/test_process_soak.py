"""Processes that are late, break, recompile or die, each on its own, and random programs that train in several.

What `benchmarks.process_soak` and `benchmarks.process_programs` do at length.
"""

from __future__ import annotations

import pytest
import torch.distributed as dist

import process_group
import process_soak

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)


@pytest.fixture(scope="module")
def processes():
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FIRESTEEL_COMPILE_AFTER", "0")
        started = process_group.Processes(2)
    yield started
    started.close()


@pytest.mark.parametrize("seed", [1, 4])
def test_what_happens_to_one_process_changes_no_result(processes, seed):
    assert processes.call("process_soak", "train", seed, None, patience=process_soak.PATIENCE) == ["", ""]


@pytest.mark.parametrize("seed", [3, 8, 9])
def test_random_programs_train_as_without_firesteel(processes, seed):
    assert processes.call("random_training", "compare", seed, patience=process_soak.PATIENCE) == ["", ""]


def test_nobody_waits_for_a_process_that_is_gone(monkeypatch):
    monkeypatch.setenv("FIRESTEEL_COMPILE_AFTER", "0")
    assert process_soak.killed(3, 2, 1) == ""
