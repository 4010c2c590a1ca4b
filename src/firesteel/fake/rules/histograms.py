"""Histograms: as many counts as there are bins, whatever is counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dims import shape_of
from ..tensor import FakeTensor, new_fake
from .registry import rule


@rule("aten.histogram.bin_ct")
def histogram(x: FakeTensor, bins: Any = 100, **options: Any) -> Any:
    """The counts of so many bins, and their edges."""
    if not x.dtype.is_floating_point:
        return NotImplemented
    return new_fake((bins,), None, x.dtype, x.device), new_fake((bins + 1,), None, x.dtype, x.device)


@rule("aten.histogram.bins_tensor")
def histogram_between(x: FakeTensor, bins: FakeTensor, **options: Any) -> Any:
    """The counts between edges, which are a result too."""
    if not x.dtype.is_floating_point or bins.ndim != 1 or bins.dtype is not x.dtype:
        return NotImplemented
    edges = shape_of(bins)[0]
    return new_fake((edges - 1,), None, x.dtype, x.device), new_fake((edges,), None, x.dtype, x.device)


@rule("aten._histogramdd_bin_edges.default")
def bin_edges(x: FakeTensor, bins: Sequence[Any], **options: Any) -> Any:
    """The edges of the bins along each dimension."""
    if not _is_table(x, bins):
        return NotImplemented
    return [new_fake((count + 1,), None, x.dtype, x.device) for count in bins]


@rule("aten._histogramdd_from_bin_cts.default")
def counts_of_bins(x: FakeTensor, bins: Sequence[Any], **options: Any) -> Any:
    """The counts for numbers of bins along each dimension."""
    return new_fake(tuple(bins), None, x.dtype, x.device) if _is_table(x, bins) else NotImplemented


@rule("aten._histogramdd_from_bin_tensors.default")
def counts_between(x: FakeTensor, bins: Sequence[FakeTensor], **options: Any) -> Any:
    """The counts between edges along each dimension."""
    if not _is_table(x, bins) or any(edges.ndim != 1 for edges in bins):
        return NotImplemented
    return new_fake(tuple(shape_of(edges)[0] - 1 for edges in bins), None, x.dtype, x.device)


def _is_table(x: FakeTensor, bins: Sequence[Any]) -> bool:
    """Whether each row has a number for each dimension."""
    return x.ndim > 1 and x.dtype.is_floating_point and shape_of(x)[-1] == len(bins)
