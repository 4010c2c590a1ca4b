"""Python branches on the values of tensors, captured as cond (option ``capture_branches``), against eager."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.utils import _pytree as pytree

import firesteel as fs
from firesteel import config
from firesteel.errors import GraphBreakError, UserCodeError

OPTIONS = {"capture_branches": True}


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True):
        yield


def calls(*more):
    return [(torch.full((3,), value), *copy.deepcopy(more)) for value in (1.0, -1.0, 6.0)]


def compare(f, *inputs, backend="eager", fullgraph=False):
    compiled = fs.compile(f, backend=backend, fullgraph=fullgraph, options=OPTIONS)
    for args in inputs:
        theirs = copy.deepcopy(args)
        expected, found = f(*theirs), compiled(*args)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(args, theirs)
        for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
            assert [one is arg for arg in args] == [other is arg for arg in theirs]


def early_return(x):
    if x.sum() > 0:
        return torch.sin(x)
    return torch.cos(x)


def join(x):
    if x.sum() > 0:
        y, k = x.sin(), 2
    else:
        y, k = x.cos(), 2
    return y * k


def passed_through(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1


def nested(x):
    if x.sum() > 0:
        if x.max() > 5:
            r = x * 2, x + 1
        else:
            r = x * 3, x - 1
    else:
        r = x / 2, x
    return r[0] + r[1]


def ternary(x):
    return (x.sin() if x.sum() > 0 else x.cos()) + 1


def both_conditions(x):
    if x.sum() > 0 and not x.max() > 5:
        return x * 2
    return x - 1


def either_condition(x):
    if x.sum() < 0 or x.max() > 5:
        return x * 2
    return x - 1


def inlined(x):
    return early_return(x) * early_return(-x)


def in_a_loop(x):
    for i in range(3):
        if x.sum() > 0:
            x = x - i
        else:
            x = x * i + 1
    return x * 1


def continued(x):
    total = x * 0
    for i in range(3):
        if x.sum() > i:
            continue
        total = total + x
    return total


def containers(x):
    if x.sum() > 0:
        made = [x + 1, {"a": x * 2, "b": (None, 3)}]
    else:
        made = [x - 1, {"a": x * 3, "b": (None, 3)}]
    return made


def number(x):
    if x.sum().item() > 0:
        return x * 2
    return x - 1


def not_a_bool(x):
    if (x > 5).sum():
        return x * 2
    return x - 1


def under_no_grad(x):
    with torch.no_grad():
        if x.sum() > 0:
            y = x * 2
        else:
            y = x * 3
    return y + 1


def nothing_changes(x):
    if x.sum() > 0:
        pass
    return x + 1


def after_a_check(x):
    if x.sum() > 100:
        raise ValueError("too large")
    if x.sum() > 0:
        return x * 2
    return x * 3


def inner_list(x):
    if x.sum() > 0:
        parts = []
        for i in range(2):
            parts.append(x * i)
        y = torch.stack(parts)
    else:
        y = torch.zeros(2, 3)
    return y + 1


def caught(x):
    if x.sum() > 0:
        try:
            y = x * {}["no"]
        except KeyError:
            y = x * 5
    else:
        y = x.clone()
    return y


CAPTURED = [early_return, join, passed_through, nested, ternary, both_conditions, either_condition, inlined, in_a_loop,
            continued, containers, number, not_a_bool, under_no_grad, nothing_changes, after_a_check, inner_list,
            caught]


@pytest.mark.parametrize("f", CAPTURED, ids=lambda f: f.__name__)
def test_captured(f):
    compare(f, *calls(), fullgraph=True)


@pytest.mark.parametrize("f", [early_return, passed_through, nested, in_a_loop, number], ids=lambda f: f.__name__)
def test_captured_natively(f):
    compare(f, *calls(), backend="native", fullgraph=True)


def returns_its_input(x):
    if x.sum() > 0:
        x = x * 2
    return x


def returns_a_view(x):
    y = x
    if x.sum() > 0:
        y = x + 1
    return y.view(1, 3)


def written_later(x):
    y = x + 1
    z = y
    if x.sum() > 0:
        z = y * 2
    y.add_(1)
    return z + y


def result_written(x):
    y = x + 1
    z = y
    if x.sum() > 0:
        z = y * 2
    z.add_(1)
    return z + y


def waits(x):
    while x.sum() < 10:
        x = x + 4
    return x


def appends(x, seen):
    if x.sum() > 0:
        seen.append(1)
    return x + 1


def appends_to_its_own(x):
    seen = []
    if x.sum() > 0:
        seen.append(1)
    else:
        seen.append(2)
    return x + seen[0]


def constants(x):
    if x.sum() > 0:
        k = 1
    else:
        k = 2
    y = x * k  # longer than what Python 3.12 copies to the end of both ways
    return y.sin() + k


def signed_zeros(x):
    if x.sum() > 0:
        k = 0.0
    else:
        k = -0.0
    y = x * k
    return y.sin() + k


def in_place(x):
    y = x * 1
    if x.sum() > 0:
        y.add_(1)
    return y * 2


def prints(x):
    if x.sum() > 0:
        print("positive")
    return x + 1


def dtypes(x):
    if x.sum() > 0:
        y = x.double()
    else:
        y = x * 2
    return y + 1


def shapes(x):
    if x.sum() > 0:
        return x[:2] * 1
    return x * 1


def raises(x):
    if x.sum() > 0:
        if len(x) == 3:
            y = x * {"a": 1}.get("a", 2)
        else:
            y = x
    else:
        return None
    return y


def closure(x):
    k = x * 1

    def add():
        nonlocal k
        k = k + 1

    if x.sum() > 0:
        add()
    return k * 2


def one_object_or_two(x):
    if x.sum() > 0:
        a = b = x * 2
    else:
        a, b = x * 2, x * 2
    a.add_(1)
    return a + b


def iterator(x):
    items = iter([1, 2, 3])
    if x.sum() > 0:
        x = x * next(items)
    return x * next(items)


BROKEN = [returns_its_input, returns_a_view, written_later, result_written, waits, appends_to_its_own, constants,
          signed_zeros, in_place, prints, dtypes, shapes, raises, closure, one_object_or_two, iterator]


@pytest.mark.parametrize("f", BROKEN, ids=lambda f: f.__name__)
def test_not_captured_and_right(f, capsys):
    compare(f, *calls())
    with pytest.raises(GraphBreakError, match="(branch|loop) depends on the value of a tensor") as caught:
        fs.compile(f, backend="eager", fullgraph=True, options=OPTIONS)(torch.ones(3))
    assert __file__ in str(caught.value)


def test_effects_happen_once():
    compare(appends, *calls([]))


def test_gradients():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.a(x) if x.sum() > 0 else self.b(x)

    model = Model()
    compiled = fs.compile(model, fullgraph=True, options=OPTIONS)
    for sign in (1, -1):
        x = torch.rand(2, 3) * sign
        found = []
        for run in (model, compiled):
            model.zero_grad()
            run(x).sum().backward()
            found.append([torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()])
        torch.testing.assert_close(*found)


def test_off_unless_asked_for():
    with pytest.raises(GraphBreakError, match="a branch depends on the value of a tensor"):
        fs.compile(early_return, backend="eager", fullgraph=True)(torch.ones(3))
    with config.patch(capture_branches=True):
        fs.compile(early_return, backend="eager", fullgraph=True)(torch.ones(3))
        without = fs.compile(early_return, backend="eager", fullgraph=True, options={"capture_branches": False})
        with pytest.raises(GraphBreakError):
            without(torch.ones(3))
    with pytest.raises(UserCodeError, match="capture_branches"):
        fs.compile(early_return, options={"capture_branches": 1})


def two_that_may_be_one(x):
    h = x + 1
    y = z = h
    if x.sum() > 0:
        y = h * 2
    if x.max() > 5:
        z = h * 3
    return y, z


def one_by_way_of_another(x):
    h = x + 1
    y = h
    if x.sum() > 0:
        y = h * 2
    z = y
    if x.max() > 5:
        z = y * 3
    return h, z


@pytest.mark.parametrize("f", [two_that_may_be_one, one_by_way_of_another], ids=lambda f: f.__name__)
def test_results_that_may_be_one_object(f):
    compiled = fs.compile(f, backend="eager", options=OPTIONS)
    for args in calls():
        first, second = f(*args)
        one, other = compiled(*args)
        torch.testing.assert_close((one, other), (first, second))
        assert (one is other) == (first is second)
