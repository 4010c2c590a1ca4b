"""Functions that are allowed in graphs, or traced without looking, and are given objects of the program's."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo import nonstrict_trace

import firesteel as fs


class Config:
    def __init__(self, scale):
        self.scale = scale


def scaled(x, config):
    return x * config.scale


@pytest.mark.parametrize("mark", [fs.allow_in_graph, nonstrict_trace])
def test_objects_are_arguments(mark):
    marked = mark(lambda x, config: scaled(x, config))
    compiled = fs.compile(lambda x, config: marked(x, config) + marked(x, Config(3.0)), fullgraph=True)
    for scale in (2.0, 5.0):
        torch.testing.assert_close(compiled(torch.ones(2), Config(scale)), torch.ones(2) * (scale + 3))


def test_objects_are_results_and_tensors_outside_are_read():
    table = torch.arange(2.0)
    marked = nonstrict_trace(lambda x: Config(x * table))
    compiled = fs.compile(lambda x: marked(x).scale + 1, fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(2)), table + 1)


def test_narrow_from_where_a_tensor_says():
    compiled = fs.compile(lambda x, a: (x.narrow(0, a, 2), x[a]), fullgraph=True)
    x = torch.randn(5, 3)
    for a in (0, 3):
        torch.testing.assert_close(compiled(x, torch.tensor(a)), (x[a:a + 2], x[a]))
    for wrong in (torch.tensor([1]), torch.tensor(9)):
        with pytest.raises((RuntimeError, IndexError)):
            fs.compile(lambda x, a: x.narrow(0, a, 2))(x, wrong)
