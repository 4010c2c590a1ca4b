"""What the program generator knows about values: their types, sizes and the dice that choose between them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

Item = TypeVar("Item")


class Dice:
    """Random choices that depend on `Random.random` alone, the one method whose numbers Python promises to keep."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self._random() < probability

    def below(self, limit: int) -> int:
        return int(self._random() * limit)

    def between(self, low: int, high: int) -> int:
        """An integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[tuple[float, Item]]) -> Item:
        target = self._random() * sum(weight for weight, _ in items)
        for weight, item in items:
            target -= weight
            if target < 0:
                return item
        return items[-1][1]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        pool = list(items)
        return [pool.pop(self.below(len(pool))) for _ in range(min(count, len(pool)))]


@dataclass(frozen=True)
class Dim:
    """The size `batch * B + const`, where B >= 2 is the batch size, which differs between calls."""

    batch: int
    const: int

    def source(self) -> str:
        if not self.batch:
            return str(self.const)
        text = "x.shape[0]" if self.batch == 1 else f"x.shape[0] * {self.batch}"
        return f"{text} + {self.const}" if self.const else text

    @property
    def safe_indices(self) -> list[int]:
        """Indices that are in range whatever the batch size is."""
        low = self.batch * 2 + self.const
        return [*range(low), -1] if low > 0 else []

    def times(self, factor: int) -> Dim:
        return Dim(self.batch * factor, self.const * factor)


BATCH = Dim(1, 0)
ONE, TWO, THREE, FOUR = (Dim(0, size) for size in (1, 2, 3, 4))


@dataclass(frozen=True)
class Type:
    """A type of the generated language.

    `kind` is int, float, bool, str, tensor, list, tuple, deque, set, counter, dict, fn (a function from its item type
    to its item type) or obj. Sequences are never empty; a dict always holds the keys "a" and "b".
    """

    kind: str
    item: Type | None = None
    shape: tuple[Dim, ...] = ()
    dtype: str = ""
    name: str = ""

    @property
    def rank(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: tuple[Dim, ...], dtype: str | None = None) -> Type:
        return tensor(shape, dtype or self.dtype)


INT, FLOAT, BOOL, STR = (Type(kind) for kind in ("int", "float", "bool", "str"))
SCALARS = {scalar.kind: scalar for scalar in (INT, FLOAT, BOOL, STR)}


def tensor(shape: tuple[Dim, ...], dtype: str = "float") -> Type:
    return Type("tensor", shape=shape, dtype=dtype)


MATRIX = tensor((BATCH, FOUR))
# The shapes that new tensors get, with how often.
SHAPES: tuple[tuple[float, tuple[Dim, ...]], ...] = (
    (6, (BATCH, FOUR)),
    (3, (FOUR,)),
    (2, (BATCH,)),
    (2, (FOUR, FOUR)),
    (2, (BATCH, THREE)),
    (1, (THREE, FOUR)),
    (1, (BATCH, THREE, FOUR)),
    (1, ()),
    (1, (Dim(4, 0),)),
    (1, (Dim(1, 1), FOUR)),
    (1, (TWO, FOUR)),
)


def matches(value: Type, pattern: str) -> bool:
    """Whether a type fits a pattern such as `int`, `T` (float tensor), `T2` (of rank 2), `list[T]` or `obj[Box]`."""
    if pattern.endswith("]"):
        kind, _, inner = pattern[:-1].partition("[")
        if kind == "obj":
            return value.kind == "obj" and value.name == inner
        return value.kind == kind and value.item is not None and matches(value.item, inner)
    if pattern == "T":
        return value.kind == "tensor" and value.dtype == "float"
    if pattern[0] == "T" and pattern[1:].isdigit():
        return value.kind == "tensor" and value.dtype == "float" and value.rank == int(pattern[1:])
    if pattern == "Tn":  # any rank above zero
        return value.kind == "tensor" and value.dtype == "float" and value.rank > 0
    return value.kind == pattern and value.kind in SCALARS


def concrete(pattern: str, dice: Dice, known: Sequence[Type] = ()) -> Type:
    """A type that fits the pattern; tensors take the type of a known value half of the time."""
    if pattern in SCALARS:
        return SCALARS[pattern]
    if pattern.endswith("]"):
        kind, _, inner = pattern[:-1].partition("[")
        if kind == "obj":
            return Type("obj", name=inner)
        return Type(kind, concrete(inner, dice, known))
    fitting = [value for value in known if matches(value, pattern)]
    if fitting and dice.chance(0.5):
        return dice.choice(fitting)
    return tensor(dice.weighted([pair for pair in SHAPES if matches(tensor(pair[1]), pattern)]))


@dataclass(frozen=True)
class Variable:
    """A name in scope. `assignable`: plain assignment in the current function rebinds it."""

    name: str
    type: Type
    assignable: bool = True
    # A tensor that may be written in place: not a leaf that requires grad, not expanded memory.
    writable: bool = False
    # Outlives the call: reading it tests guards, writing it tests side effects.
    external: bool = False


class Unavailable(Exception):
    """A template needs a variable that is not in scope."""
