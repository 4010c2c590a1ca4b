"""What scheduling asks of the machine that kernels run on: what keeps it busy, and what may share a kernel."""

from __future__ import annotations

from ...records import dataclass
from . import costs


@dataclass(frozen=True)
class Machine:
    """A kind of machine."""

    rows: int | None = None
    points: int | None = None
    in_blocks: bool = False
    """Whether all rows of a kernel run at once, in blocks of lanes, rather than by a few threads one after the other.
    Then a row is no place for reductions of their own, columns need no cutting, and nothing is laid out for caches."""
    short_row: int = 0
    """Rows of so many points take no longer than the launch of another kernel would, however few they are."""

    @property
    def enough_rows(self) -> int:
        """With fewer independent iterations than this a large kernel does not keep the machine busy."""
        return costs.ENOUGH_ROWS if self.rows is None else self.rows

    @property
    def small_kernel(self) -> int:
        """Kernels of fewer points than this need not keep the machine busy."""
        return costs.SMALL if self.points is None else self.points


CPU = Machine()
GPU = Machine(512, 1 << 14, in_blocks=True, short_row=1 << 14)
