"""Functions behind functools.cache and lru_cache: compiled calls are seen by the cache, and see what it holds."""

from __future__ import annotations

import functools

import torch

import firesteel as fs

X = torch.arange(3.0)


def test_hits_and_misses_are_counted() -> None:
    @functools.lru_cache(maxsize=4)
    def make_list(n):
        return [n]

    def f(x):
        return x + 1, make_list(3), make_list(3)

    compiled = fs.compile(f, backend="eager")
    results = [compiled(X) for _ in range(3)]
    assert make_list.cache_info()[:2] == (5, 1)
    assert all(item is results[0][1] for result in results for item in result[1:])


def test_body_runs_once() -> None:
    calls = []

    @functools.cache
    def noisy(n):
        calls.append(n)
        return n * 2

    compiled = fs.compile(lambda x: x * noisy(2) + noisy(3), backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(X), X * 4 + 6)
    assert calls == [2, 3]


def test_constant_results_stay_in_one_graph_and_are_counted() -> None:
    @functools.lru_cache
    def factor(n):
        return n + 1

    compiled = fs.compile(lambda x: x * factor(2) * factor(2), backend="eager", fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), X * 9)
    assert factor.cache_info()[:2] == (5, 1)


def test_cached_random_numbers() -> None:
    @functools.cache
    def noise(n):
        return torch.rand(n)

    compiled = fs.compile(lambda x: x + noise(3), backend="eager")
    first = compiled(X)
    assert torch.equal(compiled(X), first) and torch.equal(first, X + noise(3))
    assert noise.cache_info().misses == 1


def test_a_cached_result_is_not_computed_again() -> None:
    settings = {"scale": 2}

    @functools.cache
    def scale():
        return settings["scale"]

    compiled = fs.compile(lambda x: x * scale(), backend="eager")
    assert torch.equal(compiled(X), X * 2)
    settings["scale"] = 5
    assert torch.equal(compiled(X), X * 2)
    scale.cache_clear()
    assert torch.equal(compiled(X), X * 5)


def test_caches_of_einops_are_not_asked() -> None:
    def cooked(recipe, shape):
        return [size * 2 for size in shape], recipe

    cooked.__module__ = "einops.einops"
    cached = functools.lru_cache(1024)(cooked)

    def f(x):
        sizes, _ = cached("a b", x.shape)
        return x.sum() * sizes[0]

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for length in (3, 4, 5, 6):
        x = torch.ones(length)
        assert torch.equal(compiled(x), f(x))
    assert len(compiled._firesteel_unit.entries) == 2
