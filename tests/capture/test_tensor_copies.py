"""``copy.copy`` and ``copy.deepcopy`` of tensors and modules in one graph."""

from __future__ import annotations

import collections
import copy

import pytest
import torch
from torch import nn

import firesteel as fs
from capture.differential import check, x
from firesteel.errors import GraphBreakError


def test_tensors():
    def function(x):
        y = x * 2
        first, second = copy.deepcopy([y, y])
        first.add_(1)
        return first, first is second, y, copy.deepcopy(x.t().contiguous()).stride(), copy.deepcopy({"a": (x, 1)})

    check(function)


def test_a_shallow_copy_has_the_same_memory():
    def function(x):
        y = x * 2
        z = copy.copy(y)
        z.mul_(2)
        return y, z is y, copy.copy({"a": y})["a"] is y

    check(function)


def test_leaves_that_require_grad():
    def function(x):
        weight = nn.Parameter(x.clone())
        copied = copy.deepcopy(weight)
        plain = copy.deepcopy(x.clone().requires_grad_())
        return type(copied), copied.requires_grad, copied.is_leaf, plain.requires_grad, copied.detach() + 1

    check(function)


def test_modules():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def function(x):
        copied = copy.deepcopy(model)
        copied[0].weight.data.mul_(2)
        return copied[0](x).detach(), copied

    expected, result = function(x()), fs.compile(function, fullgraph=True)(x())
    torch.testing.assert_close(result[0], expected[0])
    torch.testing.assert_close(result[1].state_dict(), expected[1].state_dict())
    assert vars(result[1]).keys() == vars(expected[1]).keys()
    assert isinstance(result[1][0].weight, nn.Parameter) and result[1][0].weight is not model[0].weight


@pytest.mark.parametrize("kind", ["part of its memory", "shared", "attributes", "computed"])
def test_what_eager_copies_besides_breaks(kind):
    def function(x):
        if kind == "computed":
            return copy.deepcopy((x.clone().requires_grad_() * 2))
        if kind == "attributes":
            x = x + 1
            x.note = "n"
        return copy.deepcopy({"shared": [x, x.view(-1)], "attributes": x}.get(kind, x[1:]))

    with pytest.raises(GraphBreakError):
        fs.compile(function, fullgraph=True)(x())
    check(function, fullgraph=False, entries=None)


def test_a_part_of_a_storage_from_outside_is_told_apart():
    dynamic = fs.compile(lambda x: copy.deepcopy(x), backend="eager", dynamic=True)
    assert dynamic(torch.ones(9)[:3]).untyped_storage().nbytes() == 36
    compiled = fs.compile(lambda x: copy.deepcopy(x), backend="eager")
    assert compiled(torch.ones(3)).untyped_storage().nbytes() == 12
    assert compiled(torch.ones(4)[1:]).untyped_storage().nbytes() == 16
    noted = torch.ones(3)
    noted.note = "n"
    assert compiled(noted).note == "n"


def test_dictionaries_with_attributes():
    def function(table):
        return copy.deepcopy(table)

    compiled = fs.compile(function, backend="eager")
    table = collections.OrderedDict(a=torch.ones(2))
    assert type(compiled(table)) is collections.OrderedDict
    table._metadata = {"version": 1}
    assert compiled(table)._metadata == {"version": 1}
