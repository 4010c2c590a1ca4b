"""Operators that write to their first argument: arithmetic in place, fills, copies, random fills.

Their result is the argument itself. Metadata changes only in the operators of :mod:`.views` that end in ``_``.
"""

from __future__ import annotations

from typing import Any

import torch

from ..dims import layout_of, numel_of, shape_of
from ..tensor import FakeTensor, FakeUnsupported
from .operands import is_number, result_device, result_dtype
from .registry import Rule, rule
from .strides import broadcast_shapes


def _writable(x: FakeTensor) -> bool:
    """True, or the error is left to eager, which refuses to write to expanded tensors; meta kernels do not."""
    shape, stride = layout_of(x)
    # A stride that is a symbol is a product of sizes. None is 0 where it matters.
    if all(type(step) is not int or step != 0 or size <= 1 for size, step in zip(shape, stride, strict=True)):
        return True
    raise FakeUnsupported("in-place operator", "several elements share memory")


def _arithmetic(to_float: bool) -> Rule:
    def in_place(x: FakeTensor, *operands: Any, **kwargs: Any) -> Any:
        tensors = [x]
        for operand in operands:
            if isinstance(operand, FakeTensor):
                tensors.append(operand)
            elif not is_number(operand):
                return NotImplemented
        if not _writable(x) or x.dtype.is_complex or (kwargs and not x.dtype.is_floating_point):
            return NotImplemented
        if len(tensors) > 1:
            shape = broadcast_shapes([shape_of(t) for t in tensors])
            if shape is None or shape != tuple(shape_of(x)) or result_device(tensors) != x.device:
                return NotImplemented
        if not x.dtype.is_floating_point:
            dtype = result_dtype((x, *operands))
            grows = x.dtype is torch.bool and dtype is not torch.bool
            if dtype is None or dtype.is_floating_point or to_float or grows:
                raise FakeUnsupported("in-place operator", f"the result may not fit {x.dtype}")
            if dtype is not x.dtype or dtype is torch.bool:
                return NotImplemented
        elif any(isinstance(o, complex) or (isinstance(o, FakeTensor) and o.dtype.is_complex) for o in operands):
            return NotImplemented
        return x

    return in_place


_KEEPS = "add_.Tensor add_.Scalar sub_.Tensor sub_.Scalar mul_.Tensor mul_.Scalar"
_FLOATS = (
    "div_.Tensor div_.Scalar addcmul_.default addcdiv_.default exp_.default sqrt_.default rsqrt_.default tanh_.default "
    "sigmoid_.default sin_.default cos_.default log_.default reciprocal_.default gelu_.default silu_.default "
    "leaky_relu_.default elu_.default hardswish_.default hardsigmoid_.default"
)
for _name in _KEEPS.split():
    rule(f"aten.{_name}")(_arithmetic(False))
for _name in _FLOATS.split():
    rule(f"aten.{_name}")(_arithmetic(True))


@rule(
    "aten.relu_.default",
    "aten.neg_.default",
    "aten.abs_.default",
    "aten.floor_.default",
    "aten.ceil_.default",
    "aten.round_.default",
    "aten.hardtanh_.default",
)
def unary(x: FakeTensor, *params: Any, **kwargs: Any) -> Any:
    """Keeps its dtype."""
    if x.dtype is torch.bool:
        raise FakeUnsupported("in-place operator", "eager may not take bool")
    return x if _writable(x) and x.dtype.is_floating_point else NotImplemented


@rule("aten.zero_.default", "aten.fill_.Scalar", "aten.fill_.Tensor")
def fill(x: FakeTensor, value: Any = 0) -> Any:
    """Also tensors whose elements share memory can be filled."""
    if isinstance(value, FakeTensor):
        if value.ndim:
            raise FakeUnsupported("aten.fill_.Tensor", "the value has dimensions")  # an error in eager
        return NotImplemented if value.dtype.is_complex else x
    return NotImplemented if isinstance(value, complex) else x


@rule("aten.uniform_.default", "aten.normal_.default", "aten.exponential_.default")
def randomise(x: FakeTensor, *params: Any, generator: Any = None) -> Any:
    """No random number is drawn here."""
    if not x.dtype.is_floating_point and numel_of(x) != 0:
        raise FakeUnsupported("random in-place operator", f"{x.dtype} is not floating point")
    return x if _writable(x) else NotImplemented


@rule("aten.bernoulli_.float")
def bernoulli(x: FakeTensor, p: float = 0.5, *, generator: Any = None) -> Any:
    """Zeros and ones in any dtype."""
    return x if 0 <= p <= 1 and _writable(x) else NotImplemented


@rule("aten.copy_.default")
def copy(x: FakeTensor, source: FakeTensor, non_blocking: bool = False) -> Any:
    """Any dtype and device into any other; the source is broadcast."""
    if source.dtype.is_complex and not x.dtype.is_complex:
        return NotImplemented
    if not _writable(x) or broadcast_shapes([shape_of(x), shape_of(source)]) != tuple(shape_of(x)):
        return NotImplemented
    return x


@rule("aten.masked_fill_.Scalar")
def masked_fill(x: FakeTensor, mask: FakeTensor, value: Any) -> Any:
    """The mask is broadcast to the tensor, whose elements may share memory."""
    if mask.dtype is not torch.bool or mask.device != x.device or isinstance(value, complex):
        return NotImplemented
    return x if broadcast_shapes([shape_of(x), shape_of(mask)]) == tuple(shape_of(x)) else NotImplemented
