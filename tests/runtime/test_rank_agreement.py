"""Ranks that decide together what varies, when to give up, and which way is fastest: `config.agree_across_ranks`."""

from __future__ import annotations

import pytest
import torch.distributed as dist

import process_group

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)

PROGRAMS = "rank_agreement_programs"


@pytest.fixture(scope="module")
def ranks():
    processes = process_group.Processes(2)
    yield processes
    processes.close()


def test_sizes_and_numbers_that_differ_between_ranks_vary_for_all_from_the_first_call(ranks):
    for seen in ranks.call(PROGRAMS, "sizes"):
        assert seen == [("compiled", "x.size(1), x.stride(0), batch['factor']")]


def test_a_rank_that_compiles_alone_goes_on_alone(ranks):
    for seen, seconds in ranks.call(PROGRAMS, "alone"):
        assert [what for kind, what in seen if kind == "compiled"][-1] == "x.size(0)"
        assert seconds < 30


def test_what_a_rank_learns_others_know_when_they_compile_again(ranks):
    first, *others = ranks.call(PROGRAMS, "late")
    assert [what for kind, what in first if kind == "compiled"] == ["", "x.size(0)"]
    for seen in others:
        assert [what for kind, what in seen if kind == "compiled"] == ["", "x.size(0), y.size(0)"]


def test_a_function_that_one_rank_compiles_no_more_is_compiled_no_more(ranks):
    first, *others = ranks.call(PROGRAMS, "limit")
    assert first.count("compiled") == 3
    for seen in others:
        assert seen.count("compiled") == 1


def test_what_one_rank_measures_counts_for_all(ranks):
    assert len(set(ranks.call(PROGRAMS, "measured"))) == 1


def test_where_the_store_fails_each_rank_decides_for_itself(ranks):
    for seen in ranks.call(PROGRAMS, "broken"):
        assert seen == [("compiled", "")]
