"""Scans in blocks of lanes: what combines two parts of a row, and how a block goes on from the one before it.

    carry = tl.full([1, 1], 0, tl.float32)
    for i1_start in range(0, 100000, 4096):
        running = combined(carry, tl.associative_scan(value, 1, combined))
        carry = the last lane of it
"""

from __future__ import annotations

import torch

from ...functional.graph import Unsupported
from ...records import dataclass
from ..ir import Scan
from .values import identity

_KINDS = {
    "cumsum": ("sum", "total"), "cumprod": ("prod", "product"), "cummax": ("max", "maximum"),
    "cummin": ("min", "minimum"), "logcumsumexp": ("max", "log_add_exp"),
}  # fmt: skip


@dataclass(frozen=True)
class Scanning:
    """How a row is scanned."""

    function: str
    """The helper that combines two results."""
    helpers: tuple[str, ...]
    """Others that it needs."""
    start: str
    """What changes nothing when it is combined."""
    dtype: torch.dtype
    """What the running result is kept in."""


def scanning(scan: Scan) -> Scanning:
    """How a scan is done."""
    dtype = scan.value.dtype
    if dtype in (torch.float16, torch.bfloat16):
        dtype = torch.float32
    if dtype.itemsize < 4:
        dtype = torch.int32  # Triton scans what threads exchange, which is at least as wide
    if scan.kind not in _KINDS:
        raise Unsupported(f"the scan {scan.kind}")
    neutral, function = _KINDS[scan.kind]
    helpers = ("maximum", "minimum") if function == "log_add_exp" else ()
    return Scanning(function, helpers, identity(neutral, dtype), dtype)


def carried(function: str, lane: str, block: int, kind: str) -> list[str]:
    """The lines after the scan of a block that is not the whole row."""
    last = f"tl.where({lane} % {block} == {block - 1}, running, tl.full([], 0, {kind}))"
    return [f"running = {function}(carry, running)", f"carry = tl.sum({last}, 1)[:, None]"]
