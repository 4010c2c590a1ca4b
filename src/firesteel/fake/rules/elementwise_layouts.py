"""Strides of elementwise results as eager lays them out, for operators that have no rule of their own.

Many of torch's meta kernels for these are written in Python and keep the strides of the argument, where the iterator of
eager gives a contiguous argument a contiguous result and takes a number for an operand of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ... import torch_compat
from ..dims import contiguous_strides, layout_of, shape_of
from ..tensor import FakeTensor, new_fake
from .operands import is_number
from .strides import cast_layout, elementwise_layout, has_no_elements, preserved_strides

Restride = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]
"""From a result, the arguments and the keywords of a call to the result as eager lays it out."""

# What eager makes with ``empty_like``.
_LIKE_ARGUMENT = frozenset({
    "aten.deg2rad.default", "aten.rad2deg.default", "aten.nan_to_num.default", "aten.fill.Scalar", "aten.fill.Tensor",
    "aten.hardtanh.default", "aten._prelu_kernel.default", "aten.randint_like.default", "aten.randint_like.low_dtype",
    "aten.frexp.Tensor",
})  # fmt: skip
# What eager lays out by rows whatever the argument is.
_BY_ROWS = frozenset({
    "aten.pow.Scalar", "aten.rrelu_with_noise.default", "aten.rrelu_with_noise_functional.default",
    "aten.normal.Tensor_Tensor",
})  # fmt: skip
# Elementwise, though torch does not say so.
_UNTAGGED = frozenset({"aten.complex.default", "aten.polar.default"})
# Compositions, with a layout of their own.
_OTHERS = ("aten.mvlgamma", "aten.masked_fill", "aten.clone", "aten.copy.", "aten._to_copy")
# Arguments that are operands when they are numbers. Others are parameters, which do not take part in the layout.
_OPERANDS = ("self", "other", "x", "n")
_NUMBER_LAYOUT: Any = ((), ())


def find_layout(func: Any) -> Restride | None:
    """How to lay out what torch's meta kernel of an operator gives; None when that is right."""
    name = torch_compat.operator_name(func)
    if name in _LIKE_ARGUMENT:
        return _like_argument
    if name in _BY_ROWS:
        return _by_rows
    if name == "aten.ldexp.Tensor":
        return _scaled
    if name == "aten.convolution.default":
        return _of_no_images
    if name == "aten.convolution_backward.default":
        return _back_to_no_images
    elementwise = torch.Tag.pointwise in func.tags or name in _UNTAGGED
    if not elementwise or name.startswith(_OTHERS) or torch_compat.mutates_arguments(func):
        return None
    arguments = torch_compat.schema_of(func).arguments
    parameters = {at for at, argument in enumerate(arguments)
                  if argument.name not in _OPERANDS or str(argument.type) == "int"}

    def restride(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        values = [(value, at in parameters) for at, value in enumerate(args)]
        values += [(value, True) for value in kwargs.values()]
        computed = result.dtype if isinstance(result, FakeTensor) and result.dtype is not torch.bool else None
        operands = [cast_layout(value, computed) if isinstance(value, FakeTensor) else _NUMBER_LAYOUT
                    for value, parameter in values
                    if isinstance(value, FakeTensor) or (is_number(value) and not parameter)]
        layout = elementwise_layout(tuple(operands))
        return result if layout is None else _with_strides(result, layout[1])

    return restride


def _like_argument(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    stride = preserved_strides(*layout_of(args[0]))
    if isinstance(result, (tuple, list)):
        return type(result)([_with_strides(item, stride) for item in result])
    return _with_strides(result, stride)


def _by_rows(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if isinstance(result, (tuple, list)):
        return type(result)([_with_strides(item, contiguous_strides(shape_of(item))) for item in result])
    return _with_strides(result, contiguous_strides(shape_of(result)))


def _scaled(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """x * 2**y, where the power lies by rows."""
    shape = shape_of(args[1])
    layout = elementwise_layout((cast_layout(args[0], result.dtype), (shape, contiguous_strides(shape))))
    return result if layout is None else _with_strides(result, layout[1])


def _of_no_images(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Where a convolution has no images, eager multiplies them with one weight and views that in the result's shape,
    which keeps strides where the shape is the same. Signals are images of one row."""
    shape, stride = layout_of(args[0])
    if shape[:1] != (0,) or shape != shape_of(result) or has_no_elements(shape[1:]):
        return result
    if len(shape) != 3:
        layout = elementwise_layout(((shape, stride), _NUMBER_LAYOUT))
        return result if layout is None else _with_strides(result, layout[1])
    image = (*shape[:2], 1, shape[2]), (*stride[:2], shape[2] * stride[2], stride[2])
    layout = elementwise_layout((image, _NUMBER_LAYOUT))
    return result if layout is None else _with_strides(result, (*layout[1][:2], layout[1][3]))


def _back_to_no_images(result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Gradients where a convolution has no images or no channels are zeros, made with ``zeros_like``."""
    if not has_no_elements(shape_of(args[1])):
        return result
    like = [None if gradient is None else _with_strides(gradient, preserved_strides(*layout_of(argument)))
            for gradient, argument in zip(result, args[1:3], strict=False)]
    return type(result)((*like, *result[2:]))


def _with_strides(result: Any, stride: Sequence[Any]) -> Any:
    if not isinstance(result, FakeTensor) or len(stride) != result.ndim:
        return result
    return new_fake(shape_of(result), stride, result.dtype, result.device)
