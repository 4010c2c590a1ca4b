"""States of generators that are copied as they lie in memory are those that the generators tell of themselves."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest

from firesteel.capture import generator_states
from firesteel.capture.generator_states import RawState, restore, states, states_without_normal


def own() -> Any:
    """The generator behind ``np.random.rand``."""
    rand: Any = numpy.random.rand
    return rand.__self__


@pytest.mark.parametrize("before", range(0, 700, 100))
def test_pythons_generator(before: int) -> None:
    generator = random.Random(before)
    for _ in range(before):
        generator.random()
    generator.gauss(0, 1)
    expected = generator.getstate()
    kept = states(generator)
    assert isinstance(kept[0][1], RawState)
    for _ in range(1000):
        generator.getrandbits(32)
    generator.gauss(0, 1)
    assert generator.getstate() != expected
    restore(kept)
    assert generator.getstate() == expected


@pytest.mark.parametrize("before", [0, 1, 623, 624, 625])
@pytest.mark.parametrize("method", sorted(generator_states.WITHOUT_NORMAL))
def test_numpys_generator(before: int, method: str) -> None:
    numpy.random.seed(before)
    numpy.random.randn()  # one of a pair: the other is kept
    numpy.random.rand(before)
    expected = numpy.random.get_state()
    kept = states_without_normal(own())
    assert isinstance(kept[0][1], RawState)
    arguments = {"randint": (5,), "choice": (5,), "permutation": (5,)}.get(method, ())
    drawn = getattr(own(), method)(*arguments)
    restore(kept)
    now = numpy.random.get_state()
    assert all(numpy.array_equal(a, b) for a, b in zip(now, expected, strict=True))
    assert numpy.array_equal(getattr(own(), method)(*arguments), drawn)


def test_what_is_kept_of_normal_numbers_is_part_of_the_state() -> None:
    kept = states(own())
    assert not isinstance(kept[0][1], RawState)
    numpy.random.randn()
    first = numpy.random.randn()
    restore(kept)
    numpy.random.randn()
    assert numpy.random.randn() == first


def test_other_generators_are_asked() -> None:
    class Mine(random.Random):
        """One that may keep its state elsewhere."""

    for generator in (Mine(1), numpy.random.RandomState(1), numpy.random.default_rng(1)):
        kept = states_without_normal(generator)
        assert not isinstance(kept[0][1], RawState)
        first = generator.random()
        restore(kept)
        assert generator.random() == first


def test_another_source_of_numpys_numbers() -> None:
    before = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(3))
    try:
        kept = states_without_normal(own())
        assert not isinstance(kept[0][1], RawState)
    finally:
        numpy.random.set_bit_generator(before)
