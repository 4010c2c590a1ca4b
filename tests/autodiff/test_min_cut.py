"""Minimum cuts: our own search gives what the library's gives."""

from __future__ import annotations

import random

import pytest

from firesteel.autodiff import min_cut
from firesteel.autodiff.min_cut import INFINITE


def random_edges(count):
    capacities: dict[tuple[int, int], int] = {}
    for _ in range(random.randint(count, 4 * count)):
        a, b = random.randrange(count - 1), random.randrange(1, count)
        if a != b:
            # no way of infinite edges alone: those at the ends are finite
            unlimited = [INFINITE] if a != 0 and b != count - 1 else []
            capacities[a, b] = random.choice([1, 2, 3, 5, 8, 100, *unlimited])
    return [(a, b, capacity) for (a, b), capacity in capacities.items()]


@pytest.mark.parametrize("count", [2, 4, 9, 40])
def test_same_as_the_library(count):
    random.seed(count)
    for _ in range(40):
        edges = random_edges(count)
        if {a for a, _, _ in edges} >= {0} and {b for _, b, _ in edges} >= {count - 1}:
            assert min_cut._search(edges, 0, count - 1) == min_cut._search_large(edges, 0, count - 1) - {0}


def test_large_graphs_go_to_the_library(monkeypatch):
    edges = [(0, 1, 5), (1, 2, 3), (1, 3, 1), (2, 3, 3), (2, 4, 2), (3, 4, 3)]
    usual = min_cut.sink_side(5, edges, 0, 4)
    monkeypatch.setattr(min_cut, "LARGE", 1)
    assert min_cut.sink_side(5, edges, 0, 4) == usual
