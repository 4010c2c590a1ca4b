"""Ranges of the symbols of an exported program, as they are printed.

>>> ValueRanges(2, None), ValueRanges(0, 10), ValueRanges(None, None)
(VR[2, int_oo], VR[0, 10], VR[-int_oo, int_oo])
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..shapes import Interval


@dataclass(frozen=True)
class ValueRanges:
    """All integers from ``lower`` to ``upper``; None where there is no bound."""

    lower: int | None
    upper: int | None

    @staticmethod
    def of(interval: Interval) -> ValueRanges:
        """The range of an interval of shape expressions."""
        return ValueRanges(*[None if abs(end) == math.inf else int(end) for end in (interval.lower, interval.upper)])

    def __contains__(self, value: int) -> bool:
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)

    def __repr__(self) -> str:
        lower = "-int_oo" if self.lower is None else self.lower
        return f"VR[{lower}, {'int_oo' if self.upper is None else self.upper}]"
