"""`module.state_dict()` and dictionaries with attributes in one graph."""

from __future__ import annotations

import collections
import copy

import torch
from torch import nn

import firesteel as fs
from capture.differential import check

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))


def test_parameters_by_name():
    def function(x):
        state = MODEL.state_dict()
        return nn.functional.linear(x, state["0.weight"], state["0.bias"]), list(state), state["0.weight"].requires_grad

    check(function)


def test_a_returned_dictionary_is_eagers():
    def function(x):
        return MODEL.state_dict(prefix="m."), x + 1

    expected, result = function(torch.ones(2, 3))[0], fs.compile(function, fullgraph=True)(torch.ones(2, 3))[0]
    assert type(result) is collections.OrderedDict and list(result) == list(expected)
    assert result._metadata == expected._metadata and type(result._metadata) is collections.OrderedDict
    assert all(result[name].data_ptr() == expected[name].data_ptr() for name in expected)


def test_a_moving_average_of_weights():
    def update(source, target):
        with torch.no_grad():
            averages = target.state_dict()
            for name, value in source.state_dict().items():
                averages[name].mul_(0.9).add_(value, alpha=0.1)

    source, expected = nn.Linear(3, 3), nn.Linear(3, 3)
    target = copy.deepcopy(expected)
    compiled = fs.compile(update, fullgraph=True)
    for _ in range(3):
        update(source, expected)
        compiled(source, target)
    torch.testing.assert_close(target.state_dict(), expected.state_dict())


def test_loading():
    def function(x):
        layer = nn.Linear(3, 3)
        layer.load_state_dict({name: value * 2 for name, value in MODEL[0].state_dict().items()})
        return layer(x).detach()

    check(function)


def test_attributes_of_dictionaries():
    def function(x):
        table = collections.OrderedDict(a=x)
        table.note = "n"
        table.note = [x]
        copied = collections.OrderedDict(table)
        return table, table.note[0] + 1, hasattr(copied, "note"), getattr(table, "other", 3), table == copied

    compiled = check(function)
    assert compiled(torch.ones(2))[0].note[0].shape == (2,)


def test_attributes_survive_a_break():
    def function(x):
        table = collections.OrderedDict(a=x + 1)
        table.note = x * 2
        fs.graph_break()
        return table, table.note

    check(function, fullgraph=False, entries=None)
    table, note = fs.compile(function)(torch.ones(2))
    assert table.note is note
