"""What things cost, in units of about one vector load from cache: the numbers behind decisions."""

from __future__ import annotations

from collections.abc import Iterable

from ...shapes import Symbol
from ..ir import Value
from ..operations import OPERATIONS

ENOUGH_ROWS = 32
"""With fewer independent iterations than this a large kernel cannot keep a machine's threads busy."""
SMALL = 32768
"""Points below which a kernel runs on one thread anyway."""
TINY = 2048
"""Points below which it pays to run everything in one kernel on one thread."""
ROW_BYTES = 1 << 18
"""How much scratch memory a row may take: it should stay in the second-level cache."""
COLUMN_BLOCK = 1024
"""Columns that are reduced together: their accumulators stay in the first-level cache."""
WIDE_COLUMN_BLOCK = 4096
"""The same where there are enough other iterations for the threads: memory is read in longer stretches."""
LEAST_BLOCK = 64
"""The same, where more than the accumulators has to stay in the cache."""
PARALLEL_BLOCK = 8192
"""The least number of elements of one long row that is worth a thread."""
CHUNKS = 64
"""Parts of a long reduction. A fixed number, so that results do not depend on the number of threads."""
COLUMN_CHUNKS = 32
"""The same for reductions of columns."""
COLUMNS_AT_ONCE = 16
"""Columns that a block of a GPU takes together at least: what lies side by side is read in one piece."""
LONG_ROW = 1 << 14
"""Rows longer than this are run block by block on a GPU: if there are many, one after the other in each block's place,
so that what the points of a row have in common is had once."""
LONG_REDUCTION = 1 << 16
"""Elements from which a reduction is worth splitting."""
ACCUMULATE = 32
"""So many numbers are summed before the sum is added to the next level, as pairwise summation does."""
READ_OFTEN = 16
"""A pointwise result that is read so often, such as one number for each channel, is computed ahead of its readers: to
share their loops would save no memory traffic, and the loops would be in the order of the small one."""
MAX_OPERATIONS = 600
MAX_BUFFERS = 24
"""A kernel with more operations or parameters than this runs out of registers."""

NODE_COSTS = {
    **{name: operation.cost.scheduled for name, operation in OPERATIONS.items()},
    **dict.fromkeys(("const", "index", "local", "number"), 0.0), "cast": 0.25, "bitcast": 0.25, "load": 1.0,
    "checked": 0.25,
}
"""The cost of one node of a value."""


def value_cost(value: Value, axes: frozenset[Symbol] | None = None) -> float:
    """The cost of a value at one point; with ``axes``, only of what changes along them."""
    if axes is None:
        return sum([NODE_COSTS[node.op] for node in value.walk()])
    total = 0.0
    varying: set[int] = set()
    for node in value.walk():
        if (
            (node.op == "load" and node.data.index.free_symbols & axes)
            or (node.op == "index" and node.data.free_symbols & axes)
            or any(id(arg) in varying for arg in node.args)
        ):
            varying.add(id(node))
            total += NODE_COSTS[node.op]
    return total


def operation_count(values: Iterable[Value]) -> int:
    """How many different nodes there are in values."""
    return len(set().union(*[value.walk() for value in values]))
