"""Tensors as functions of their indices: every function that is found gives the elements that eager computes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import firesteel as fs
from firesteel.functional import trace
from firesteel.functional.index_functions import FALSE, LAST, TRUE, IndexFunctions


def positions(n: int, m: int) -> Any:
    return torch.arange(n)[:, None], torch.arange(2, 2 + m)


def chain(n: int, m: int) -> Any:
    a, b = positions(n, m)
    return (b - a * 3 + 1).t(), (b <= a) & (b - 1 >= a - 3), (a > b) & (a + b < 7)


def pieces(n: int, m: int) -> Any:
    a = torch.arange(n).expand(m, n)
    before = torch.cat([a[:, :1] - 1, a], -1)
    step = before[:, 1:] - before[:, :-1]
    packed = (step != 1).cumsum(-1)
    rows = torch.arange(m)[:, None, None]
    return before, step, packed, packed[rows, torch.arange(n)[None, :, None]], before[rows, torch.arange(n)[:, None]]


def cuts(n: int, m: int) -> Any:
    a = torch.arange(3 * n, dtype=torch.int32).to(torch.int64)[None].expand(m, 2, -1)
    return (a[:, 1, 1::2], a.permute(2, 0, 1), a.transpose(0, 1)[:, 0], torch.cat([a, a + 3 * n], -1),
            a.select(2, n) == n)


def triangles(n: int, m: int) -> Any:
    ones, a = torch.ones(2, n, m, dtype=torch.bool), torch.arange(m)
    return ones.tril(), ones.triu(1), ~ones.triu(1), ~ones, (a < torch.arange(n)[:, None]).logical_not().triu(-1)


def constants(n: int, m: int) -> Any:
    a = torch.arange(n)
    return (torch.ones(n, m, dtype=torch.bool) & (a[:, None] >= 0), a.new_ones(m) * 2 - 1, torch.full((m, n), 3) + a,
            torch.zeros(n, dtype=torch.bool) & (a * a < 5), a == a + 1, a != n)


def not_understood(n: int, m: int) -> Any:
    a = torch.arange(n)
    return a * a, a % 2, a.flip(0), torch.arange(0.0, n), a.view(1, n), (a[None] == a[:, None]), a[a.clamp(max=1)]


def evaluated(function: Any, shape: torch.Size) -> torch.Tensor:
    def at(indices: tuple[int, ...]) -> Any:
        numbers = {LAST[place]: index for place, index in enumerate(reversed(indices))}
        if isinstance(function, frozenset):
            return all(int(each.evaluate(numbers)) <= 0 for each in function)
        return int(function.evaluate(numbers))

    dtype = torch.bool if isinstance(function, frozenset) else torch.int64
    return torch.tensor([at(indices) for indices in itertools.product(*map(range, shape))], dtype=dtype).view(shape)


@pytest.mark.parametrize("program", [chain, pieces, cuts, triangles, constants], ids=lambda f: f.__name__)
def test_functions_give_the_elements(program: Any) -> None:
    for n, m in ((4, 5), (3, 1), (1, 4)):
        found = functions_of(program, n, m)
        for function, expected in zip(found, program(n, m), strict=True):
            if n == 1 and function is None:
                continue  # two single elements could be one function in many ways
            assert function is not None, (n, m, found)
            assert torch.equal(evaluated(function, expected.shape), expected)


def functions_of(program: Any, n: int, m: int) -> list[Any]:
    def run(x: torch.Tensor) -> Any:
        return x + 1, *[each.clone() for each in program(x.size(0), x.size(1))]

    x = torch.zeros(n, m)
    graph = trace(fs.capture_graph(run)(x).graph_module, [x])
    functions = IndexFunctions(None)
    results: Any = graph.graph.output_node().args[0]
    return [functions.of(node) for node in results[1:]]


def test_what_always_holds_is_known() -> None:
    found = functions_of(constants, 4, 5)
    assert [found[at] for at in (0, 3, 4, 5)] == [TRUE, FALSE, FALSE, TRUE]


def test_what_is_not_understood_is_unknown() -> None:
    found = functions_of(not_understood, 4, 5)
    assert [at for at, function in enumerate(found) if function is not None] == [0]  # a product of indices is one
    assert torch.equal(evaluated(found[0], torch.Size([4])), torch.arange(4) ** 2)
