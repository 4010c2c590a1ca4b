"""Minimum cuts: our own search gives what a library's gives."""

from __future__ import annotations

import random

import networkx
import pytest
from networkx.algorithms.flow import boykov_kolmogorov

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


def by_library(edges, source, sink):
    """The vertices on the sink's side of the minimum cut that is nearest to the sink."""
    graph = networkx.DiGraph()
    for a, b, capacity in edges:
        graph.add_edge(a, b, **({} if capacity >= INFINITE else {"capacity": capacity}))
    _, (_, found) = networkx.minimum_cut(graph, source, sink, flow_func=boykov_kolmogorov)
    return set(found) - {source, sink}


@pytest.mark.parametrize("count", [2, 4, 9, 40, 400])
def test_same_as_the_library(count):
    random.seed(count)
    for _ in range(40 if count < 400 else 4):
        edges = random_edges(count)
        if {a for a, _, _ in edges} >= {0} and {b for _, b, _ in edges} >= {count - 1}:
            assert min_cut._search(edges, 0, count - 1) == by_library(edges, 0, count - 1)
