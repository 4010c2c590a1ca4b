"""The states of generators of random numbers, Python's, NumPy's and torch's, kept in case that a graph raises.

A Mersenne twister has 624 words, and asking for them makes as many objects: 8 µs for `random.getstate`, 17 µs for
`np.random.get_state`, in every call of an entry that draws a number. Where the words lie in memory as expected, which
is tried once, they are copied as they are.
"""

from __future__ import annotations

import ctypes
import functools
import random
import struct
from typing import Any

import numpy
import torch

from ..records import dataclass

WORDS = 624
BYTES = 4 * (WORDS + 1)
"""The words of a Mersenne twister, and the place of the next one: Python has it before them, NumPy behind."""
WITHOUT_NORMAL = frozenset({"rand", "random", "random_sample", "uniform", "randint", "choice", "permutation",
                            "exponential", "tomaxint"})
"""Methods of NumPy's `RandomState` that leave alone what it keeps of a pair of normal numbers."""


@dataclass(frozen=True)
class RawState:
    """The memory of a generator."""

    address: int
    contents: bytes
    next_normal: Any
    """What Python's generator keeps of a pair of normal numbers."""


def states(*generators: Any) -> list[tuple[Any, Any]]:
    """Generators with their states."""
    return [(one, python_state(one) if isinstance(one, random.Random) else
             one.get_state() if isinstance(one, (numpy.random.RandomState, torch.Generator)) else
             one.bit_generator.state) for one in generators]


def states_without_normal(*generators: Any) -> list[tuple[Any, Any]]:
    """The same, for calls of `WITHOUT_NORMAL` alone where they are NumPy's `RandomState`s."""
    return [(one, python_state(one) if isinstance(one, random.Random) else
             numpy_state(one) if isinstance(one, numpy.random.RandomState) else
             one.get_state() if isinstance(one, torch.Generator) else one.bit_generator.state) for one in generators]


def restore(kept: list[tuple[Any, Any]]) -> None:
    """Put generators back."""
    for generator, state in kept:
        if isinstance(state, RawState):
            ctypes.memmove(state.address, state.contents, BYTES)
            if isinstance(generator, random.Random):
                generator.__dict__["gauss_next"] = state.next_normal
        elif isinstance(generator, random.Random):
            generator.setstate(state)
        elif isinstance(generator, (numpy.random.RandomState, torch.Generator)):
            generator.set_state(state)
        else:
            generator.bit_generator.state = state


def python_state(generator: random.Random) -> Any:
    """The state of a generator of Python's."""
    if type(generator) is not random.Random or not _python_as_expected():
        return generator.getstate()
    address = id(generator) + object.__basicsize__
    return RawState(address, ctypes.string_at(address, BYTES), generator.__dict__["gauss_next"])


def numpy_state(generator: numpy.random.RandomState) -> Any:
    """The state of a generator of NumPy's, without what is kept of a pair of normal numbers."""
    source_of = getattr(numpy.random, "get_bit_generator", None)  # since NumPy 1.24
    source = source_of() if source_of is not None and generator is _global() else None
    if type(source) is not numpy.random.MT19937 or not _numpy_as_expected():
        return generator.get_state()
    address = source.ctypes.state_address
    return RawState(address, ctypes.string_at(address, BYTES), None)


@functools.cache
def _global() -> Any:
    """The generator behind ``np.random.rand`` and the others."""
    own: Any = numpy.random.rand
    return own.__self__


@functools.cache
def _python_as_expected() -> bool:
    generator = random.Random(5)
    generator.random()
    state = generator.getstate()[1]
    if random.Random.__basicsize__ < object.__basicsize__ + BYTES:
        return False
    raw = ctypes.string_at(id(generator) + object.__basicsize__, BYTES)
    return struct.unpack(f"={WORDS + 1}I", raw) == (state[WORDS], *state[:WORDS])


@functools.cache
def _numpy_as_expected() -> bool:
    source = numpy.random.MT19937(5)
    numpy.random.Generator(source).random()
    state: Any = source.state["state"]
    raw = ctypes.string_at(source.ctypes.state_address, BYTES)
    return struct.unpack(f"={WORDS + 1}I", raw) == (*state["key"].tolist(), state["pos"])
