"""Ranges of the symbols of an exported program, as they are printed.

>>> ValueRanges(2, None), ValueRanges(0, 10), ValueRanges(None, None)
(VR[2, int_oo], VR[0, 10], VR[-int_oo, int_oo])
"""

from __future__ import annotations

from dataclasses import dataclass

from ..shapes import Interval


@dataclass(frozen=True)
class ValueRanges:
    """All integers from ``lower`` to ``upper``; None where there is no bound.

    >>> sizes = ValueRanges(2, None)
    >>> sizes, 2 in sizes, 1 in sizes
    (VR[2, int_oo], True, False)
    """

    lower: int | None
    upper: int | None

    @staticmethod
    def of(interval: Interval) -> ValueRanges:
        """The range of an interval of shape expressions; the ends of all 64-bit integers are no bounds.

        >>> ValueRanges.of(Interval(-2**63, 2**63 - 1)), ValueRanges.of(Interval(-2**31, 5))
        (VR[-int_oo, int_oo], VR[-2147483648, 5])
        """
        return ValueRanges(None if interval.lower <= -(2**63) else int(interval.lower),
                           None if interval.upper >= 2**63 - 1 else int(interval.upper))

    def __contains__(self, value: int) -> bool:
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)

    def __repr__(self) -> str:
        lower = "-int_oo" if self.lower is None else self.lower
        return f"VR[{lower}, {'int_oo' if self.upper is None else self.upper}]"
