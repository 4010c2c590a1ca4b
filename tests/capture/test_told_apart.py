"""Objects and memory that a program tells apart: guards see when two have become one."""

from __future__ import annotations

import copy

import pytest
import torch

import firesteel as fs

X = torch.ones(2)


class Thing:
    pass


A, B = Thing(), Thing()
LIST = [1]
ASKED = {
    "id in a set": lambda x, o, p: x * 2 if id(p) in {id(o)} else x,
    "ids in a set": lambda x, o, p: x * len({id(o), id(p)}),
    "hashes in a set": lambda x, o, p: x * len({hash(o), hash(p)}),
    "id of a dict": lambda x, o, p: x * {id(o): 5}.get(id(p), 1),
    "mapped": lambda x, o, p: x * len(set(map(id, (o, p)))),
}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("asked", ASKED.values(), ids=list(ASKED))
def test_identities_as_keys(asked, first):
    compiled = fs.compile(asked, backend="eager", fullgraph=True)
    calls = [(X, A, B), (X, A, A), (X, B, A)]
    for args in calls[::-1] if first else calls:
        assert torch.equal(compiled(*args), asked(*args))


def appended_to_a_copy(x, o, p):
    copied = copy.deepcopy([o, p])
    copied[0].append(7)
    return x * len(copied[1])


def test_deep_copies_of_what_is_the_same():
    compiled = fs.compile(appended_to_a_copy, backend="eager", fullgraph=True)
    for args in ((X, [1], [1]), (X, LIST, LIST), (X, [1], [1])):
        assert torch.equal(compiled(*args), appended_to_a_copy(*args))


def models():
    for tie in range(3):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        if tie == 1:
            model[1].weight = model[0].weight
        elif tie == 2:
            model[1] = model[0]
        yield model


def test_deep_copies_of_modules_that_share():
    compiled = fs.compile(lambda x, m: len(list(copy.deepcopy(m).parameters())), backend="eager", fullgraph=True)
    assert [compiled(X, model) for model in models()] == [4, 3, 2]


class Tied(torch.nn.Module):
    def __init__(self, tie: bool) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        if tie:
            self.b.weight = self.a.weight

    def forward(self, x):
        return x * len({id(self.a.weight), id(self.b.weight)}), self.a.weight.data_ptr() == self.b.weight.data_ptr()


def test_instances_that_differ_in_what_is_shared():
    for tie in (False, True, False):
        result, shared = fs.compile(Tied(tie))(X)
        assert torch.equal(result, X * (2 - tie)) and shared is tie


def retaining():
    y = torch.ones(2, requires_grad=True) * 2
    y.retain_grad()
    return y


@pytest.mark.parametrize("asked", [lambda a: a._is_view(), lambda a: a.retains_grad, lambda a: a.output_nr],
                         ids=["view", "retains_grad", "output_nr"])
def test_how_a_tensor_came_about(asked):
    compiled = fs.compile(asked, backend="eager", fullgraph=True)
    base = torch.ones(2)
    parts = torch.ones(2, 2, requires_grad=True).unbind()
    for given in (base, base[:], base, retaining(), torch.ones(2, requires_grad=True) * 2, parts[0], parts[1]):
        assert compiled(given) == asked(given)


class Counting:
    def __init__(self, seen):
        self.seen = seen

    @property
    def p(self):
        self.seen.append(1)
        return 3


def matched(x, seen):
    match Counting(seen):
        case Counting(q=3):
            return x
        case Counting(p=3):
            return x * 3


def test_patterns_read_attributes_once():
    seen = []
    assert torch.equal(fs.compile(matched, backend="eager", fullgraph=True)(X, seen), X * 3) and seen == [1]


class Kept:
    """What a program keeps by the `id` of objects, from call to call."""

    def __init__(self, first):
        self.table, self.members, self.number = {id(first): 1}, {id(first)}, id(first)


def _in_a_dictionary(kept, first, second):
    return id(first) in kept.table, kept.table.get(id(second)), id(first) in kept.members, id(second) in kept.members


def _in_a_copy(kept, first, second):
    copy = dict(kept.table)
    copy[id(first)] = 2
    return list(copy.values()), len(copy), len(kept.members | {id(first), id(second)})


def _stored_and_deleted(kept, first, second):
    kept.table[id(first)] = kept.table.get(id(first), 0) + 1
    kept.table[id(second)] = 5
    length = len(kept.table)
    return length, kept.table.pop(id(second)), len(kept.table)


def _found_by_the_number(kept, first, second):
    return kept.number in {id(first): 1}, {(id(first), 1): 2}.get((kept.number, 1)), kept.number in {id(second)}


def _behind_a_break(kept, first, second):
    kept.table[id(second)] = 3
    fs.graph_break()
    return kept.table[id(second)], id(first) in kept.table


@pytest.mark.parametrize("use", [_in_a_dictionary, _in_a_copy, _stored_and_deleted, _found_by_the_number,
                                 _behind_a_break])
def test_ids_that_were_kept_are_those_of_the_objects(use):
    def run(function):
        objects = [Kept(None), Kept(None)]
        kept, results = Kept(objects[0]), []
        for first, second in ((0, 1), (0, 1), (1, 0), (0, 0)):
            results.append(function(kept, objects[first], objects[second]))
        return results

    assert run(fs.compile(use, backend="eager")) == run(use)
