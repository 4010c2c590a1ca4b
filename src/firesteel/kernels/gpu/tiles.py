"""Tiles of matrix products on a GPU, and which products are faster in tiles of our own than in the library.

All of it was measured on an H200.
"""

from __future__ import annotations

import re

from ...records import dataclass

PROCESSORS = 132
"""Multiprocessors of a large GPU."""
ENOUGH = 72
"""Programs from which on a product of a few rows keeps the memory busy."""
ONE_ROW = "one row"
"""In the place of tiles: the product is computed as the sums that it consists of, without matrix units."""
LEAST_PART = 512
"""The shortest part of a sum."""


@dataclass(frozen=True)
class Tiles:
    """Sizes of the tiles that one program multiplies, powers of two."""

    m: int
    n: int
    k: int
    warps: int
    stages: int
    """So many tiles of the operands are on their way at a time."""
    group: int = 8
    """Tiles of so many rows of tiles run together, so that what they read is still in the cache."""
    parts: int = 1
    """Into how many sums each sum is cut, so that there are enough programs. Those who read the result add them up."""

    def __str__(self) -> str:
        text = f"{self.m}x{self.n}x{self.k}, {self.warps} warps, {self.stages} stages, groups of {self.group}"
        return text if self.parts == 1 else f"{text}, {self.parts} parts"


def read_tiles(text: str) -> Tiles:
    """Tiles from their text.

    >>> read_tiles(str(Tiles(128, 256, 64, 8, 3)))
    Tiles(m=128, n=256, k=64, warps=8, stages=3, group=8, parts=1)
    """
    return Tiles(*[int(number) for number in re.findall(r"\d+", text)])


def candidates(m: int, n: int, k: int) -> list[Tiles]:
    """Tiles that are worth measuring."""
    usual = choose_tiles(m, n, k)
    if m <= 16:
        others = [Tiles(16, 16, 256, 1, 4), Tiles(16, 32, 128, 4, 5), Tiles(16, 64, 128, 4, 4)]
    elif m <= 64:
        others = [Tiles(64, 16, 128, 4, 5), Tiles(64, 32, 128, 4, 4), Tiles(64, 64, 128, 4, 4),
                  Tiles(64, 128, 64, 4, 4)]
    else:
        others = [Tiles(128, 256, 64, 8, 4), Tiles(128, 128, 64, 8, 3), Tiles(128, 128, 64, 4, 4),
                  Tiles(64, 128, 64, 4, 4)]
    return list(dict.fromkeys([usual, *others]))


def choose_tiles(m: int, n: int, k: int, batch: int = 1) -> Tiles:
    """The tiles for products of m x k with k x n."""
    deep = min(128, _power(k))
    if m <= 16:
        if n < 4096:
            return Tiles(16, 32, deep, 4, 5, parts=(_parts(n, k) or 1) if batch == 1 else 1)
        return Tiles(16, 64, 256, 8, 3) if k >= 1024 else Tiles(16, 64, deep, 4, 4)
    if m <= 64:
        if n >= 64 * PROCESSORS:
            return Tiles(64, 64, min(64, deep), 4, 4)
        parts = _parts(n, k) if batch == 1 else 1
        return Tiles(64, 32, deep, 4, 4, parts=parts) if parts else Tiles(64, 16, deep, 4, 5)
    if m * n >= 128 * 256 * 8 * PROCESSORS:
        return Tiles(128, 256, min(64, deep), 8, 4)
    return Tiles(128, 128, min(64, deep), 8, 3)


def _parts(n: int, k: int) -> int | None:
    """Into how many parts the sums of a few rows are cut, with tiles that are 32 wide; None if they are too short."""
    for parts in (1, 2, 3, 4, 6, 8):
        even = parts == 1 or (k % (128 * parts) == 0 and k // parts >= LEAST_PART)
        if even and parts * -(-n // 32) >= ENOUGH:
            return parts
    return None


def _power(number: int) -> int:
    return max(16, 1 << (number - 1).bit_length())
