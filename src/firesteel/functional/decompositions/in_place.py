"""Operators that write, where their new contents are simpler than the functional operator of the same name says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...fake import FakeTensor
from ...fake.dims import layout_of, shape_of
from ...torch_compat.random_operators import bernoulli_strided
from ..views import same_numbers
from .registry import write

if TYPE_CHECKING:
    from ..recorder import Recorder

_ATEN = torch.ops.aten


@write("aten.copy_.default")
def copy(recorder: Recorder, x: FakeTensor, source: FakeTensor, non_blocking: bool = False) -> Any:
    """The source, converted and expanded."""
    if source.device != x.device:
        return NotImplemented
    if source.dtype is not x.dtype:
        source = recorder.call(_ATEN._to_copy.default, (source,), {"dtype": x.dtype})
    if not same_numbers(shape_of(source), shape_of(x)):
        source = recorder.call(_ATEN.expand.default, (source, list(shape_of(x))), {})
    return source


@write("aten.zero_.default")
def zero(recorder: Recorder, x: FakeTensor) -> Any:
    """Zeros, whatever was there."""
    return fill(recorder, x, 0)


@write("aten.fill_.Scalar")
def fill(recorder: Recorder, x: FakeTensor, value: Any) -> Any:
    """One value, whatever was there."""
    return recorder.call(_ATEN.full.default, (list(shape_of(x)), value), {"dtype": x.dtype, "device": x.device})


@write("aten.bernoulli_.float")
def bernoulli(recorder: Recorder, x: FakeTensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """Zeros and ones, whatever was there, drawn in the order in which eager fills a tensor of these strides."""
    if generator is not None:
        return NotImplemented
    size, stride = layout_of(x)
    return recorder.call(bernoulli_strided(), (list(size), list(stride), p), {"dtype": x.dtype, "device": x.device})
