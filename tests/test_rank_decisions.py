"""Decisions of ranks, which are threads here, each with its own board on one store."""

from __future__ import annotations

import threading
import time

import pytest
import torch.distributed as dist

from firesteel import config, rank_decisions, torch_compat
from firesteel.rank_decisions import Board

if not dist.is_available():
    pytest.skip("this torch is built without torch.distributed", allow_module_level=True)


class Group:
    """In the place of a group of processes."""

    def __init__(self, rank):
        self.rank = rank


@pytest.fixture
def boards(monkeypatch):
    store = dist.HashStore()
    monkeypatch.setattr(torch_compat, "store_of_ranks", lambda group: (store, group.rank, 4))
    groups = [Group(rank) for rank in range(4)]
    yield [Board(group, 1) for group in groups]
    del groups


def decide(boards, subject, says=lambda rank: str(rank)):
    """What each of some ranks goes by, asked at once."""
    answers = {}

    def ask(board):
        answers[board.rank] = board.gathered(subject, says(board.rank), "+".join)

    threads = [threading.Thread(target=ask, args=(board,)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return [answers[board.rank] for board in boards]


def test_all_go_by_what_all_have_said(boards):
    for subject in ("one", "two", "three"):
        assert decide(boards, subject) == ["0+1+2+3"] * 4


def test_who_comes_late_goes_by_what_was_decided(boards):
    with config.patch(agree_wait=0.2):
        assert set(decide(boards[:3], "one")) == {"0+1+2"}
    began = time.monotonic()
    assert decide(boards[3:], "one") == ["0+1+2"]
    assert time.monotonic() - began < 5


def test_those_who_never_come_are_waited_for_less_and_less(boards):
    with config.patch(agree_wait=0.4):
        began = time.monotonic()
        for number in range(20):
            assert decide(boards[:1], f"subject {number}") == ["0"]
    assert boards[0].patience * 0.4 == pytest.approx(rank_decisions.LEAST_PATIENCE)
    assert time.monotonic() - began < 20 * 0.4
    assert len(set(decide(boards, "all come"))) == 1
    assert sum(board.patience for board in boards) > boards[0].patience + 2.9


def test_the_first_word_counts(boards):
    assert [board.first("winner", str(board.rank)) for board in reversed(boards)] == ["3"] * 4


def test_lists_are_read_once(boards):
    one, other = boards[:2]
    assert one.added("list") == []
    one.add("list", "a")
    other.add("list", "b")
    assert other.added("list") == one.added("list") == ["a", "b"]
    one.add("list", "c")
    assert other.added("list") == ["c"]


def test_nothing_is_decided_together_without_a_group_or_where_nobody_asks():
    assert not rank_decisions.are_made()
    with config.patch(agree_across_ranks=True):
        assert dist.is_initialized() or not rank_decisions.are_made()
        assert rank_decisions.said("anything") is None and rank_decisions.added("anything") == []
