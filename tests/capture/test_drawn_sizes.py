"""Draws from NumPy's generators whose size is another one from call to call: one graph, and the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import firesteel as fs

SIZES = [*range(3, 15), 4, 9, 2, 1, 0]
ONE_GRAPH = {
    "size": (lambda n: np.random.uniform(size=n) * 2, lambda n: n),
    "shape": (lambda x: x + np.random.normal(size=x.shape), np.zeros),
    "rand": (lambda n: np.random.rand(n, n + 1) * 2, lambda n: n),
    "rand of a shape": (lambda x: np.random.rand(*x.shape) * x, lambda n: np.ones((n, 2))),
    "one dimension of two": (lambda x: (np.random.uniform(size=(2, len(x))) * x).sum(1), np.arange),
    "permutation": (lambda x: np.random.permutation(len(x)) * x, np.ones),
    "a difference": (lambda n: np.random.randn(n - 2).sum(), lambda n: n),
    "no graph": (lambda n: [np.random.uniform(size=n)], lambda n: n),
}
BROKEN = {
    "bound": (lambda x: x[np.random.randint(0, len(x), size=3)] * 2, np.arange),
    "scale": (lambda s: np.random.normal(0.0, s, 3) * 2, lambda n: n / 2 + 0.25),
    "chosen": (lambda x: np.random.choice(len(x), 2) + x[:2], np.ones),
}


def outcome(function, given, seed):
    np.random.seed(seed)
    try:
        result = function(given)
    except ValueError as error:
        result = str(error)
    return result, np.random.rand()


def check(function, given_of, backend):
    compiled = fs.compile(function, backend=backend)
    for size in SIZES * 2:
        (plain, state), (ours, own_state) = (outcome(one, given_of(size), size) for one in (function, compiled))
        assert state == own_state and type(plain) is type(ours)
        assert plain == ours if isinstance(plain, str) else np.allclose(plain, ours)
    return compiled


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("name", [*ONE_GRAPH, *BROKEN])
@pytest.mark.filterwarnings("error")
def test_draws_of_many_sizes(name, backend):
    check(*(ONE_GRAPH | BROKEN)[name], backend)


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_the_size_is_a_symbol_in_one_graph(name):
    function, given_of = ONE_GRAPH[name]
    compiled = fs.compile(function, backend="eager", fullgraph=True)
    for size in SIZES[:-3]:
        compiled(given_of(size))


def test_the_reason_names_the_draw():
    explained = fs.explain(lambda x: np.random.normal(x, 0.1) * 2)(np.zeros(3))
    assert "RandomState.normal with a NumPy array as an argument" in explained.break_reasons[0].reason
