"""Statistics that count elements by intervals."""

from __future__ import annotations

from typing import Any

import numpy
import torch

from ..values.arrays import ArrayValue
from .context import Context
from .dtypes import FLOAT, result_type, torch_dtype
from .registry import function, refuse


@function(numpy.histogram)
def histogram(ctx: Context, a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    array = ctx.asarray(a)
    refuse("np.histogram", {
        f"bins={bins!r}": isinstance(bins, str), "bins that are edges": isinstance(bins, (ArrayValue, list, tuple)),
        f"an array of {array.dtype}": array.dtype.kind not in "iuf" or array.dtype == numpy.float16,
        "density=True": density, "weights=": weights is not None,
    })
    count = ctx.integer(bins)
    if range is not None:
        low, high = (float(bound) for bound in range)
        refuse("np.histogram", {f"range={range!r}": not -numpy.inf < low <= high < numpy.inf})
    refuse("np.histogram", {f"bins={bins!r}": count < 1})
    kind = result_type(array, FLOAT) if array.dtype.kind != "f" else array.dtype
    values = ctx.cast_to(array, kind).reshape(-1)
    if range is None:
        first, last = torch.amin(values, 0), torch.amax(values, 0)
    else:
        first, last = (ctx.full((), float(bound), kind) for bound in range)
    alone = first == last
    first, last = torch.where(alone, first - 0.5, first), torch.where(alone, last + 0.5, last)
    places = ctx.make(torch.arange, count + 1, dtype=torch_dtype(kind))
    edges = torch.where(places == count, last, places * ((last - first) / count) + first)
    inside = (values >= first) & (values <= last)
    place = torch.clamp(((values - first) / (last - first) * count), 0, count - 1).to(torch.int64)
    place = place - (values < edges[place]).to(torch.int64)
    place = place + ((values >= edges[place + 1]) & (place != count - 1)).to(torch.int64)
    totals = ctx.make(torch.zeros, count, dtype=torch.int64)
    counted = torch.scatter_add(totals, 0, torch.clamp(place, 0, count - 1), inside.to(torch.int64))
    return ctx.array(counted), ctx.array(edges)
