"""Collectives of two processes in compiled programs: eager's results, in one graph, and no process waits for ever."""

from __future__ import annotations

import pytest
import torch.distributed as dist

import collective_programs as programs
import process_group


@pytest.fixture(scope="module")
def processes():
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch is built without gloo")
    processes = process_group.Processes(2)
    yield processes
    processes.close()


CASES = [(name, gradients) for name in programs.PROGRAMS
         for gradients in ((False,) if name in programs.WITHOUT_GRADIENTS else (False, True))]


@pytest.mark.parametrize("name, gradients", CASES)
def test_programs(processes, name, gradients):
    for graphs, breaks, reasons in processes.call("collective_programs", "compare", name, gradients, {"tier": "wait"}):
        assert (graphs, breaks) == (1, 0), reasons


@pytest.mark.parametrize("options", [{}, {"backend": "eager"}, {"backend": "aot_eager"}, {"dynamic": True}])
@pytest.mark.parametrize("name, gradients", [
    ("all_reduce_argument", False), ("several_in_flight", False), ("column_and_row_parallel", True)])
def test_ways_to_run_graphs(processes, name, gradients, options):
    for graphs, breaks, reasons in processes.call("collective_programs", "compare", name, gradients, options):
        assert (graphs, breaks) == (1, 0), reasons


@pytest.mark.parametrize("name", sorted(programs.PROGRAMS))
def test_one_process_is_compiled_and_the_other_is_not(processes, name):
    gradients = name not in programs.WITHOUT_GRADIENTS
    processes.call("collective_programs", "compare_mixed", name, gradients)


@pytest.mark.parametrize("name", sorted(programs.SPECIAL))
def test_special_programs(processes, name):
    for expected, found in processes.call("collective_programs", "run_special", name):
        assert found == expected


def test_nothing_that_firesteel_replaces_is_imported(processes):
    assert processes.call("collective_programs", "replaced_modules") == [[], []]
