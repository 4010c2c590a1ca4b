"""Lazy modules: the call that makes their parameters runs as plain Python, and the next is one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs


def network():
    return nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(2))


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_parameters_are_made_as_in_eager(fullgraph, whole):
    outcomes = []
    for compiles in (False, True):
        torch.manual_seed(0)
        module = network()
        function = module if whole else (lambda x: module(x * 2) + torch.rand(1))
        if compiles:
            function = fs.compile(function, fullgraph=fullgraph, backend="eager")
        outcomes.append([function(torch.ones(3, rows)) for rows in (5, 5)])
        outcomes[-1].append({name: value.clone() for name, value in module.state_dict().items()})
        assert type(module[0]) is nn.Linear
    torch.testing.assert_close(*outcomes)


def test_the_second_call_is_one_graph():
    graphs = []

    def count(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(network(), fullgraph=True, backend=count)
    compiled(torch.ones(3, 5))
    assert not graphs
    compiled(torch.ones(3, 5))
    assert len(graphs) == 1
