"""Calls that must run as plain Python, and those after them that need not."""

from __future__ import annotations

import numpy as np
import torch

import firesteel as fs


def add_in_place(x, y):
    x.add_(y)
    return x * 2 + y


def in_one_memory():
    memory = np.arange(6, dtype=np.float32)
    return torch.from_numpy(memory[:4]), torch.from_numpy(memory[2:])


def apart():
    return torch.arange(4.0), torch.ones(4)


def compiled_with_count(function):
    """The function compiled, and a list that grows by one with each graph."""
    graphs = []

    def count(graph, examples):
        graphs.append(graph)
        return graph.forward

    return fs.compile(function, backend=count), graphs


def test_ordinary_calls_compile_after_one_whose_arguments_lie_in_one_memory():
    compiled, graphs = compiled_with_count(add_in_place)
    for make, expected in ((in_one_memory, 0), (apart, 1), (in_one_memory, 1), (apart, 1)):
        assert torch.equal(compiled(*make()), add_in_place(*make()))
        assert len(graphs) == expected


def test_a_function_that_is_always_called_so_is_not_captured_for_ever():
    compiled, graphs = compiled_with_count(add_in_place)
    with fs.config.patch(recompile_limit=2):
        for _ in range(4):
            compiled(*in_one_memory())
        compiled(*apart())
    assert not graphs
