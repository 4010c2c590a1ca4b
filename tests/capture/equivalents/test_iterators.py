"""Iterators of builtins and itertools against their equivalents: elements, errors, laziness, order of calls."""

from __future__ import annotations

import copy
import itertools
import operator
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.capture.equivalents.observing import ReiterableSource, Source, Tracked, assert_equivalent, observe

import firesteel as fs
from firesteel.capture.equivalents import REGISTRY

quick = settings(max_examples=30, deadline=None)
errors = st.sampled_from([ValueError("source failed"), StopIteration("early"), TypeError("source type")])
numbers = st.integers(0, 5)
elements = st.lists(st.one_of(numbers, numbers, numbers, numbers, errors), max_size=7)
failing = st.frozensets(numbers, max_size=2)


def callback(log: list[Any], fails_on: frozenset[int], raises: type[Exception] = ValueError) -> Any:
    def is_odd(*values: Any) -> Any:
        log.append(("called", values))
        if values[-1] in fails_on:
            raise raises("callback failed")
        return Tracked(log, sum(values))

    return is_odd


UNARY = [itertools.chain, itertools.cycle, itertools.pairwise, zip, enumerate, itertools.zip_longest]
UNARY += [itertools.accumulate, itertools.chain.from_iterable, itertools.product]
UNARY += [itertools.permutations]


@pytest.mark.parametrize("original", UNARY, ids=lambda f: f.__qualname__)
@given(items=elements)
@quick
def test_one_source(original: Any, items: list[Any]) -> None:
    assert_equivalent(original, lambda log: (Source(log, "a", items),))


@pytest.mark.parametrize(
    "original",
    [filter, itertools.filterfalse, itertools.takewhile, itertools.dropwhile, map],
    ids=lambda f: f.__qualname__,
)
@pytest.mark.parametrize("raises", [ValueError, StopIteration])
@given(items=elements, fails_on=failing)
@quick
def test_callback_and_source(original: Any, raises: Any, items: list[Any], fails_on: frozenset[int]) -> None:
    assert_equivalent(original, lambda log: (callback(log, fails_on, raises), Source(log, "a", items)))


@pytest.mark.parametrize("original", [filter, itertools.filterfalse], ids=lambda f: f.__qualname__)
@pytest.mark.parametrize("function", [None, bool])
def test_filter_by_truth(original: Any, function: Any) -> None:
    assert_equivalent(original, lambda log: (function, [Tracked(log, n, (3,)) for n in range(6)]))


@pytest.mark.parametrize(
    "original",
    [zip, itertools.zip_longest, itertools.chain, itertools.compress, itertools.product],
    ids=lambda f: f.__qualname__,
)
@given(first=elements, second=elements)
@quick
def test_two_sources(original: Any, first: list[Any], second: list[Any]) -> None:
    assert_equivalent(original, lambda log: (Source(log, "a", first), Source(log, "b", second)))


@given(sources=st.lists(elements, max_size=4))
@quick
def test_zip_strict_and_fill(sources: list[list[Any]]) -> None:
    def build(log: list[Any]) -> tuple[Any, ...]:
        return tuple(Source(log, str(i), items) for i, items in enumerate(sources))

    assert_equivalent(zip, build, strict=True)
    assert_equivalent(itertools.zip_longest, build, fillvalue="fill")
    assert_equivalent(itertools.chain.from_iterable, lambda log: (Source(log, "all", list(build(log))),))
    assert_equivalent(map, lambda log: (callback(log, frozenset({2})), *build(log)))


@given(sources=st.lists(st.one_of(elements, errors, st.just(5)), max_size=4))
@quick
def test_chain_of_broken_sources(sources: list[Any]) -> None:
    assert_equivalent(itertools.chain.from_iterable, lambda log: (Source(log, "all", sources),))
    assert_equivalent(itertools.starmap, lambda log: (callback(log, frozenset({2})), Source(log, "all", sources)))


@given(items=elements, fails_on=failing, initial=st.one_of(st.none(), numbers))
@quick
def test_accumulate(items: list[Any], fails_on: frozenset[int], initial: Any) -> None:
    def build(log: list[Any]) -> tuple[Any, ...]:
        def function(total: Any, element: Any) -> Any:
            log.append((total, element))
            if element in fails_on:
                raise ValueError("callback failed")
            return total * 2 + element

        return Source(log, "a", items), function

    assert_equivalent(itertools.accumulate, build, initial=initial)
    assert_equivalent(itertools.accumulate, lambda log: (Source(log, "a", items),), initial=initial)


bounds = st.one_of(st.none(), st.integers(-2, 9), st.just("x"), st.just(sys.maxsize + 1))


@given(items=elements, arguments=st.lists(bounds, min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_islice(items: list[Any], arguments: list[Any]) -> None:
    assert_equivalent(itertools.islice, lambda log: (Source(log, "a", items), *arguments))


@given(items=elements, length=st.one_of(st.integers(-1, 4), st.just(1.5), st.booleans()))
@quick
def test_combinatorics(items: list[Any], length: Any) -> None:
    def build(log: list[Any]) -> tuple[Any, ...]:
        return Source(log, "a", items), length

    assert_equivalent(itertools.combinations, build, steps=200)
    assert_equivalent(itertools.combinations_with_replacement, build, steps=200)
    assert_equivalent(itertools.permutations, build, steps=200)
    assert_equivalent(itertools.product, lambda log: (Source(log, "a", items),), repeat=length, steps=200)


def test_product_without_repetition_ignores_the_iterables() -> None:
    assert_equivalent(itertools.product, lambda log: (Source(log, "a", [1]), 5), repeat=0)


@given(items=elements, size=st.integers(-1, 4))
@quick
@pytest.mark.skipif(sys.version_info < (3, 12), reason="itertools.batched is new in Python 3.12")
def test_batched(items: list[Any], size: int) -> None:
    if sys.version_info >= (3, 12):
        assert_equivalent(itertools.batched, lambda log: (Source(log, "a", items), size))


@pytest.mark.parametrize(
    "arguments", [(), (5,), (1, 2), (0.5, 0.25), (True,), (True, 2), (1, 1.0), ("a",), (1, "a"), (1, True), (2**63,)]
)
def test_count(arguments: tuple[Any, ...]) -> None:
    assert_equivalent(itertools.count, lambda log: arguments)
    if "a" not in arguments:
        compiled = fs.compile(lambda *given: itertools.count(*given), backend="eager")
        assert repr(compiled(*arguments)) == repr(itertools.count(*arguments))


def test_count_adds_when_asked() -> None:
    class Number(Tracked):
        __int__ = Tracked.__index__

    assert_equivalent(itertools.count, lambda log: (Number(log, 1), 2))


@pytest.mark.parametrize("arguments", [("a",), ("a", 3), ("a", -2), ("a", 0), ("a", "b"), ("a", True)])
def test_repeat(arguments: tuple[Any, ...]) -> None:
    assert_equivalent(itertools.repeat, lambda log: arguments)
    assert_equivalent(itertools.repeat, lambda log: (), **dict(zip(["object", "times"], arguments)))
    if arguments != ("a", "b"):
        ours, original = REGISTRY[itertools.repeat](*arguments), itertools.repeat(*arguments)
        assert repr(ours) == repr(original)
        assert operator.length_hint(ours, 7) == operator.length_hint(original, 7)


def group_log(function: Any, items: list[Any], key_fails: frozenset[int], script: list[int]) -> list[Any]:
    """Step the outer iterator (0) or one of the groups seen so far (1 is the newest) as `script` says."""
    log: list[Any] = []

    def key(value: Any) -> Any:
        log.append(("key", value))
        if value in key_fails:
            raise ValueError("key failed")
        return Tracked(log, value // 2)

    grouped = function(Source(log, "a", items), key)
    groups: list[Any] = []
    for step in script:
        try:
            if step == 0:
                group_key, group = next(grouped)
                groups.append(group)
                log.append(("group", group_key.number))
            elif step <= len(groups):
                log.append(("element", next(groups[-step])))
        except Exception as error:
            log.append(("raised", type(error), str(error)))
    return log


@given(items=elements, fails=failing, script=st.lists(st.integers(0, 2), max_size=16))
@settings(max_examples=300, deadline=None)
def test_groupby(items: list[Any], fails: frozenset[int], script: list[int]) -> None:
    expected = group_log(itertools.groupby, items, fails, script)
    assert group_log(REGISTRY[itertools.groupby], items, fails, script) == expected
    assert [(k, list(g)) for k, g in REGISTRY[itertools.groupby]([1, 1, 2])] == [(1, [1, 1]), (2, [2])]


def tee_log(function: Any, items: list[Any], branches: int, script: list[int]) -> list[Any]:
    log: list[Any] = []
    iterators = list(function(ReiterableSource(log, "a", items), branches))
    for step in script:
        if step >= len(iterators):
            iterators.append(copy.copy(iterators[0]))
            continue
        try:
            log.append((step, next(iterators[step])))
        except Exception as error:
            log.append((step, type(error), str(error)))
    return log


@given(items=elements, branches=st.integers(1, 3), script=st.lists(st.integers(0, 3), max_size=16))
@settings(max_examples=200, deadline=None)
def test_tee(items: list[Any], branches: int, script: list[int]) -> None:
    assert tee_log(REGISTRY[itertools.tee], items, branches, script) == tee_log(itertools.tee, items, branches, script)


@pytest.mark.parametrize("arguments", [(5,), (5, 0), ([1], -1), ([1], "a")])
def test_tee_arguments(arguments: tuple[Any, ...]) -> None:
    assert_equivalent(itertools.tee, lambda log: arguments)


def test_tee_reentered() -> None:
    def run(function: Any) -> list[Any]:
        seen: list[Any] = []

        class Reentering:
            def __iter__(self) -> Any:
                return self

            def __next__(self) -> Any:
                return next(branches[1])

        branches = function(Reentering())
        for _ in range(2):
            try:
                seen.append(next(branches[0]))
            except RuntimeError as error:
                seen.append(str(error))
        return seen

    assert run(REGISTRY[itertools.tee]) == run(itertools.tee)


def test_tee_of_a_copyable_iterator_uses_its_copy() -> None:
    class Copyable:
        copies = 0

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            return 1

        def __copy__(self) -> Any:
            type(self).copies += 1
            return self

    source = Copyable()
    assert REGISTRY[itertools.tee](source, 3) == (source, source, source)
    assert Copyable.copies == 2


@pytest.mark.parametrize("start", [0, 3, -2, True, 2**70, "a", 1.5])
@given(items=elements)
@quick
def test_enumerate_start(start: Any, items: list[Any]) -> None:
    assert_equivalent(enumerate, lambda log: (Source(log, "a", items), start))
    assert_equivalent(enumerate, lambda log: (), iterable=items, start=start)


class Sequence:
    """A sequence by `__len__` and `__getitem__` that logs and, at one index, raises."""

    def __init__(self, log: list[Any], length: int, error: Exception | None = None) -> None:
        self.log, self.length, self.error = log, length, error

    def __len__(self) -> int:
        self.log.append("len")
        return self.length

    def __getitem__(self, index: int) -> int:
        self.log.append(index)
        if self.error is not None and index == 1:
            raise self.error
        return index * 10


@pytest.mark.parametrize("error", [None, IndexError("end"), StopIteration(), ValueError("bad"), KeyError("key")])
@pytest.mark.parametrize("length", [0, 1, 4])
def test_reversed_sequence(error: Exception | None, length: int) -> None:
    assert_equivalent(reversed, lambda log: (Sequence(log, length, error),))


def test_reversed_by_method() -> None:
    class Own(Sequence):
        def __reversed__(self) -> Any:
            return iter(["own"])

    class Refusing(Sequence):
        __reversed__ = None

    assert_equivalent(reversed, lambda log: (Own(log, 3),))
    assert_equivalent(reversed, lambda log: (Refusing(log, 3),))
    for value in ([1, 2], (1, 2), "ab", range(3), {1: 2, 3: 4}, {1: 2}.items(), 5, {1}, object(), iter([1])):
        assert_equivalent(reversed, lambda log, value=value: (value,))


@given(items=elements, sentinel=numbers)
@quick
def test_iter_with_sentinel(items: list[Any], sentinel: int) -> None:
    def build(log: list[Any]) -> tuple[Any, ...]:
        iterator = iter(Source(log, "a", [Tracked(log, n) if isinstance(n, int) else n for n in items]))
        return lambda: next(iterator), Tracked(log, sentinel, (5,))

    assert_equivalent(iter, build)


def test_iter_and_next_arguments() -> None:
    assert_equivalent(iter, lambda log: (5, 6))
    assert_equivalent(iter, lambda log: ([1, 2],))
    assert_equivalent(iter, lambda log: (5,))
    assert_equivalent(next, lambda log: (iter([]), "default"))
    assert_equivalent(next, lambda log: (iter([1]), "default"))
    assert_equivalent(next, lambda log: (iter([]), None))
    assert_equivalent(next, lambda log: (iter([]),))
    assert_equivalent(next, lambda log: ([], 1))


@pytest.mark.parametrize(
    "original",
    [f for f in REGISTRY if getattr(f, "__module__", None) == "itertools" and isinstance(f, type)],
    ids=lambda f: f.__qualname__,
)
@pytest.mark.parametrize("arguments", [(5,), (None, 5), ([1], 5), (5, [1])])
def test_arguments_that_are_not_iterable(original: Any, arguments: tuple[Any, ...]) -> None:
    expected = observe(original, lambda log: arguments)
    actual = observe(REGISTRY[original], lambda log: arguments)
    if "argument" in str(expected[-1]) and expected[-1][1] is TypeError:
        assert actual[-1][1] is TypeError  # the wording of errors about the number of arguments is not reproduced
    else:
        assert actual == expected


def test_iterators_are_not_generators() -> None:
    for original in (itertools.chain, itertools.groupby, itertools.product):
        result = REGISTRY[original]([], []) if original is not itertools.groupby else REGISTRY[original]([])
        assert iter(result) is result
        assert not hasattr(result, "send")


def test_next_of_ended_iterators_inside_map() -> None:
    """The idiom that generator-based versions turn into RuntimeError."""
    def firsts() -> list[int]:
        return list(map(next, [iter([1]), iter([])]))

    assert fs.compile(firsts, backend="eager")() == firsts() == [1]
