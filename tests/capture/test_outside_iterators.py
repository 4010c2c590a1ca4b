"""Iterators that were made outside: they are read while capturing, and advanced when the compiled code runs."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.capture.differential import x

import firesteel as fs
from firesteel.errors import GraphBreakError

MAKERS = {
    "list": lambda: iter([1, 2, 3]),
    "tuple": lambda: iter((1, 2, 3)),
    "range": lambda: iter(range(1, 6, 2)),
    "reversed": lambda: reversed([1, 2, 3]),
    "keys": lambda: iter({1: 4, 2: 5, 3: 6}),
    "values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "set": lambda: iter({1}),
    "zip": lambda: map(sum, zip([1, 2, 3], (3, 4, 5), strict=True)),
    "enumerate": lambda: map(sum, enumerate([1, 2, 3], 4)),
    "map": lambda: map(lambda a: a * 2, [1, 2, 3]),
    "filter": lambda: filter(lambda a: a > 1, [1, 2, 3, 4]),
    "count": lambda: itertools.count(3, 2),
    "empty": lambda: iter([]),
}


def takes_one(x, items):
    return x * next(items, 7), next(items, 8)


def takes_all(x, items):
    for step, item in zip(range(4), items):
        x = x + item * step
    return x


def takes_none(x, items):
    return x + 1, items


@pytest.mark.parametrize("function", [takes_one, takes_all, takes_none])
@pytest.mark.parametrize("kind", MAKERS)
def test_iterators_are_where_eager_leaves_them(function, kind):
    compiled = fs.compile(function, fullgraph=True, backend="eager")
    for begun in (0, 0, 1):
        left = []
        for run in (function, compiled):
            items = MAKERS[kind]()
            for _ in range(begun):
                next(items, None)
            result = run(x(), items)
            if function is takes_none:
                assert result[1] is items
                result = result[0]
            left.append((result, list(itertools.islice(items, 5)), [next(items, None) for _ in range(2)]))
        torch.testing.assert_close(left[0], left[1])


def test_one_iterator_over_several_calls():
    def function(x, items):
        return x * next(items)

    compiled = fs.compile(function, fullgraph=True, backend="eager")
    items = iter([2, 3, 4])
    assert [compiled(torch.ones(1), items).item() for _ in range(3)] == [2, 3, 4]
    counter = itertools.count(5)
    assert [compiled(torch.ones(1), counter).item() for _ in range(6)] == [5, 6, 7, 8, 9, 10]
    assert len(compiled._firesteel_unit.entries) <= 5
    with pytest.raises(StopIteration):
        compiled(torch.ones(1), items)


def test_two_iterators_over_one_list_of_tensors():
    def function(items, first, second):
        items.append(items[0] * 2)
        sums = [a + b for a, (_, b) in zip(first, enumerate(second, 3))]
        return sums, next(first, None), next(second, None)

    def arguments():
        items = [torch.ones(2), torch.zeros(2)]
        return items, iter(items), reversed(items)

    plain, given = arguments(), arguments()
    torch.testing.assert_close(function(*plain), fs.compile(function, fullgraph=True)(*given))
    assert [list(left) for left in plain[1:]] == [list(left) for left in given[1:]] and len(given[0]) == 3


CHANGES = {
    "popped": lambda x, items, held: (x + 1, [held.pop(key) for key in items]),
    "added": lambda x, items, held: (x + 1, [held.add(key + 10) for key in items]),
    "in a dictionary": lambda x, items, held: (x + 1, {key: held.setdefault(key + 10) for key in enumerate(items)}),
    "before": lambda x, items, held: (held.pop(1), x + 1, next(items)),
    "behind": lambda x, items, held: (next(items), x + 1, held.pop(1)),
    "a comprehension": lambda x, items, held: (x + 1, [held.pop(key) for key in held]),
    "another one": lambda x, items, held: (x + 1, [held.update({item: item}) for item in [*items]]),
}


@pytest.mark.parametrize("held, make", [
    ({1: 2, 2: 3}, iter), ({1: 2, 2: 3}, lambda held: iter(held.values())), ({1, 2}, iter),
], ids=["keys", "values", "set"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_an_iterator_goes_through_changes(name, held, make):
    """As of a comprehension that is called by itself, because the function around it raises: a call of a function."""
    def outcome(function):
        own = held.copy()
        items = make(own)
        try:
            result = function(x(), items, own)
        except Exception as error:
            result = repr(error)
        try:
            return repr(result), own, list(items)
        except RuntimeError as error:
            return repr(result), own, str(error)

    compiled = fs.compile(CHANGES[name], backend="eager")
    for _ in range(2):
        assert outcome(compiled) == outcome(CHANGES[name])


def test_other_items_are_another_program():
    compiled = fs.compile(takes_all, fullgraph=True)
    for make in (lambda: iter([1, 2]), lambda: iter([1, 5]), lambda: iter((1, 2)), lambda: iter([1, 2, 3])):
        torch.testing.assert_close(compiled(x(), make()), takes_all(x(), make()))


def test_loops_with_breaks_go_on_stepping_in_python():
    def function(x, items):
        for item in items:
            x = x + item
            fs.graph_break()
        return x

    compiled = fs.compile(function)
    torch.testing.assert_close(compiled(x(), iter(range(30))), function(x(), iter(range(30))))
    assert len(compiled._firesteel_unit.continuations) < 4
    assert all(len(unit.entries) < 4 for unit in compiled._firesteel_unit.continuations.values())


def test_generators_break():
    with pytest.raises(GraphBreakError, match="generator"):
        fs.compile(takes_one, fullgraph=True)(x(), (n for n in range(3)))
