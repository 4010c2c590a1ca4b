"""Elementwise operators: unary, binary and ternary arithmetic, comparisons, and their in-place forms."""

from __future__ import annotations

from typing import Any

import torch

from ...devices import kind_of
from ..dims import known_equal, layout_of, shape_of, stride_of
from ..tensor import FakeTensor, FakeUnsupported, new_fake
from .operands import is_number, result_device, result_dtype, scalar_dtype, wrap_dim
from .registry import Rule, rule
from .strides import broadcast_shapes, cast_layout, check_broadcast, elementwise_layout, preserved_strides

_BOOL = torch.bool

# How the dtype of the result comes from the promoted dtype of the operands.
SAME = "same"  # as promoted, every dtype
REAL = "real"  # as promoted, complex left to torch
NUMERIC = "numeric"  # as promoted, bool left to torch
FLOAT = "float"  # as promoted, only floating point
TO_FLOAT = "to_float"  # integers become the default dtype
TO_BOOL = "to_bool"  # always bool
INTEGRAL = "integral"  # as promoted, only integers and bool


def _finish(kind: str, promoted: torch.dtype | None) -> torch.dtype | None:
    if promoted is None:
        return None
    if kind == SAME:
        return promoted
    if kind == TO_FLOAT:
        if promoted.is_floating_point or promoted.is_complex:
            return promoted
        return torch.get_default_dtype()
    if kind == TO_BOOL:
        return _BOOL
    if kind == REAL:
        return None if promoted.is_complex else promoted
    if kind == NUMERIC:
        return None if promoted is _BOOL or promoted.is_complex else promoted
    if kind == FLOAT:
        return promoted if promoted.is_floating_point else None
    return None if promoted.is_floating_point or promoted.is_complex else promoted


_NUMBER_LAYOUT: Any = ((), ())


# dtypes that eager rejects and meta kernels accept, by operator. Saying so leaves the error to eager.
_REJECTS_BOOL = frozenset({"sub", "rsub", "relu", "neg"})
_REJECTS_COMPLEX = frozenset({"maximum", "minimum", "fmax", "fmin", "isposinf", "isneginf", "floor", "ceil", "trunc"})


def _check_dtypes(name: str, *operands: Any) -> None:
    for x in operands:
        dtype = x.dtype if isinstance(x, FakeTensor) else scalar_dtype(x) if is_number(x) else None
        if dtype is _BOOL and name in _REJECTS_BOOL:
            raise FakeUnsupported(f"aten.{name}", "eager does not take bool")
        if dtype is not None and dtype.is_complex and name in _REJECTS_COMPLEX:
            raise FakeUnsupported(f"aten.{name}", "eager does not take complex numbers")


def _unary(kind: str, name: str) -> Rule:
    checks = name in _REJECTS_BOOL or name in _REJECTS_COMPLEX

    def unary(x: Any, *params: Any, **more: Any) -> Any:
        # The parameters of leaky_relu, clamp, pow and their like are numbers and do not take part in the layout.
        if not isinstance(x, FakeTensor):
            return NotImplemented
        dtype = _finish(kind, x.dtype)
        layout = elementwise_layout((cast_layout(x, dtype) if kind is TO_FLOAT else layout_of(x),))
        if checks:
            _check_dtypes(name, x)
        if dtype is None or layout is None:
            return NotImplemented
        return new_fake(layout[0], layout[1], dtype, x.device)

    return unary


def _elementwise(kind: str, operands: tuple[Any, ...]) -> Any:
    layouts = []
    tensors = []
    dtype: torch.dtype | None = None
    uniform = True
    for x in operands:
        if isinstance(x, FakeTensor):
            shape = shape_of(x)
            layouts.append((shape, stride_of(x)))
            tensors.append(x)
            if dtype is None:
                dtype = x.dtype
            if dtype is not x.dtype:
                uniform = False
        elif is_number(x):
            layouts.append(_NUMBER_LAYOUT)
            uniform = False
        else:
            return NotImplemented
    if not uniform:
        dtype = result_dtype(operands)
    if not uniform or kind is TO_FLOAT:
        common = dtype if kind is TO_BOOL else _finish(kind, dtype)
        for at, x in enumerate(operands):
            if isinstance(x, FakeTensor):
                layouts[at] = cast_layout(x, common)
    layout = elementwise_layout(tuple(layouts))
    if layout is None:
        check_broadcast([own[0] for own in layouts])
    device = result_device(tensors)
    dtype = _finish(kind, dtype)
    if layout is None or device is None or dtype is None:
        return NotImplemented
    return new_fake(layout[0], layout[1], dtype, device)


def _fitting_alpha(alpha: Any, dtype: torch.dtype) -> bool:
    """Whether ``alpha=`` is one that eager accepts for this result dtype."""
    if isinstance(alpha, bool):
        return dtype is _BOOL
    if isinstance(alpha, (int, torch.SymInt)):
        return True
    return dtype.is_floating_point and not isinstance(alpha, complex)


def _binary(kind: str, name: str) -> Rule:
    checks = name in _REJECTS_BOOL

    def binary(x: Any, y: Any, *more: Any, **kwargs: Any) -> Any:
        result = _elementwise(kind, (x, y))
        if result is NotImplemented:
            _check_dtypes(name, x, y)
            return result
        if checks:
            _check_dtypes(name, x, y)
        if more or kwargs:
            if not _fitting_alpha(more[0] if more else kwargs.get("alpha", 1), result.dtype):
                raise FakeUnsupported(f"aten.{name}", "alpha does not fit the dtype of the result")
        return result

    return binary


_UNARY = {
    REAL: "abs sgn sign floor ceil round trunc relu",
    NUMERIC: "neg",
    TO_FLOAT: (
        "sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh exp exp2 expm1 log log2 log10 log1p sqrt rsqrt "
        "reciprocal sigmoid erf erfc erfinv lgamma digamma"
    ),
    FLOAT: "gelu silu mish hardswish hardsigmoid leaky_relu elu softplus",
    INTEGRAL: "bitwise_not",
    TO_BOOL: "logical_not isnan isposinf isneginf signbit",
}
for _kind, _names in _UNARY.items():
    for _name in _names.split():
        rule(f"aten.{_name}.default")(_unary(_kind, _name))

_BINARY = {
    SAME: "add.Tensor mul.Tensor add.Scalar mul.Scalar",
    NUMERIC: (
        "sub.Tensor sub.Scalar rsub.Scalar remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar "
        "floor_divide.default floor_divide.Scalar"
    ),
    TO_FLOAT: "div.Tensor div.Scalar atan2.default xlogy.Tensor copysign.Tensor special_xlog1py.default",
    FLOAT: "logaddexp.default logaddexp2.default hypot.default",
    REAL: "maximum.default minimum.default fmax.default fmin.default",
    INTEGRAL: "bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor",
    TO_BOOL: (
        "eq.Tensor eq.Scalar ne.Tensor ne.Scalar lt.Tensor lt.Scalar le.Tensor le.Scalar gt.Tensor gt.Scalar ge.Tensor "
        "ge.Scalar logical_and.default logical_or.default logical_xor.default"
    ),
}
for _kind, _names in _BINARY.items():
    for _name in _names.split():
        rule(f"aten.{_name}")(_binary(_kind, _name.partition(".")[0]))


@rule("aten.isinf.default")
def isinf(x: FakeTensor) -> Any:
    """Integers never are: eager fills a tensor like the argument. Of complex numbers it looks at each part, every other
    number in memory."""
    if x.dtype.is_floating_point:
        return _unary(TO_BOOL, "isinf")(x)
    if x.dtype.is_complex:
        layout = elementwise_layout(((shape_of(x), tuple([step * 2 for step in stride_of(x)])),))
        return NotImplemented if layout is None else new_fake(layout[0], layout[1], _BOOL, x.device)
    return new_fake(shape_of(x), preserved_strides(*layout_of(x)), _BOOL, x.device)


@rule("aten.rsub.Tensor")
def rsub(x: FakeTensor, y: FakeTensor, *more: Any, **kwargs: Any) -> Any:
    """A difference the other way round: what is subtracted from comes first in the layout, too."""
    return _binary(NUMERIC, "rsub")(y, x, *more, **kwargs)


@rule("aten.heaviside.default")
def heaviside(x: FakeTensor, y: FakeTensor) -> Any:
    """Operands of one dtype."""
    if x.dtype is not y.dtype or x.dtype.is_complex:
        raise FakeUnsupported("aten.heaviside", "eager takes operands of one dtype, and no complex numbers")
    return _elementwise(REAL, (x, y))


@rule("aten.smooth_l1_loss.default")
def smooth_l1_loss(x: FakeTensor, y: FakeTensor, reduction: int = 1, *params: Any) -> Any:
    """Element by element; sums and means are left to torch."""
    return NotImplemented if reduction or x.dtype is not y.dtype else _elementwise(FLOAT, (x, y))


@rule("aten.huber_loss.default")
def huber_loss(x: FakeTensor, y: FakeTensor, reduction: int = 1, *params: Any) -> Any:
    """Element by element, laid out like the first argument; sums and means are left to torch."""
    if x.dtype is not y.dtype:
        raise FakeUnsupported("aten.huber_loss", "operands of two dtypes, which meta kernels promote")
    same = x.dtype.is_floating_point and x.device == y.device \
        and x.ndim == y.ndim and all(map(known_equal, shape_of(x), shape_of(y)))
    if reduction or not same:
        return NotImplemented
    return new_fake(shape_of(x), preserved_strides(shape_of(x), stride_of(x)), x.dtype, x.device)


@rule("aten.glu.default")
def glu(x: FakeTensor, dim: int = -1) -> Any:
    """Of the two halves of the argument."""
    at = wrap_dim(dim, x.ndim)
    if at is None or not x.dtype.is_floating_point or shape_of(x)[at] % 2 != 0:
        return NotImplemented
    shape = tuple([size // 2 if position == at else size for position, size in enumerate(shape_of(x))])
    layout = elementwise_layout(((shape, stride_of(x)), (shape, stride_of(x))))
    return NotImplemented if layout is None else new_fake(layout[0], layout[1], x.dtype, x.device)


@rule("aten.log_sigmoid_forward.default")
def log_sigmoid(x: FakeTensor) -> Any:
    """On the CPU by rows whatever the argument is, with what backward needs."""
    if not kind_of(x).is_host or not x.dtype.is_floating_point:
        return NotImplemented
    return tuple([new_fake(shape_of(x), None, x.dtype, x.device) for _ in range(2)])


@rule("aten.pow.Tensor_Scalar")
def pow_scalar(x: FakeTensor, exponent: Any) -> Any:
    """The exponent takes part in the dtype and not in the layout."""
    dtype = result_dtype((x, exponent))
    if dtype is None or dtype.is_complex:
        return NotImplemented
    if not dtype.is_floating_point and exponent < 0:
        raise FakeUnsupported("aten.pow", "eager does not raise integers to negative powers")
    layout = elementwise_layout((cast_layout(x, dtype),))
    return NotImplemented if layout is None else new_fake(layout[0], layout[1], dtype, x.device)


@rule("aten.pow.Tensor_Tensor")
def pow_tensor(x: FakeTensor, exponent: FakeTensor) -> Any:
    """Of bools it is left to torch."""
    return NotImplemented if x.dtype is exponent.dtype is _BOOL else _elementwise(SAME, (x, exponent))


@rule("aten.clamp.default", "aten.clamp_min.default", "aten.clamp_max.default")
def clamp(x: FakeTensor, low: Any = None, high: Any = None) -> Any:
    """Only bounds that leave the dtype alone."""
    bounds = [bound for bound in (low, high) if bound is not None]
    if not bounds or x.dtype.is_complex or x.dtype is _BOOL or result_dtype([x, *bounds]) is not x.dtype:
        return NotImplemented
    layout = elementwise_layout((layout_of(x),))
    return NotImplemented if layout is None else new_fake(layout[0], layout[1], x.dtype, x.device)


@rule("aten.where.self")
def where(condition: FakeTensor, x: Any, y: Any) -> Any:
    """The condition takes part in the layout and not in the dtype."""
    if condition.dtype is not _BOOL or not isinstance(x, FakeTensor) or not isinstance(y, FakeTensor):
        return NotImplemented
    device, dtype = result_device((condition, x, y)), result_dtype((x, y))
    layout = elementwise_layout((layout_of(condition), cast_layout(x, dtype), cast_layout(y, dtype)))
    if layout is None or device is None or dtype is None:
        return NotImplemented
    return new_fake(layout[0], layout[1], dtype, device)


@rule("aten.addcmul.default", "aten.addcdiv.default")
def addc(x: FakeTensor, y: FakeTensor, z: FakeTensor, *, value: Any = 1) -> Any:
    """Floats of one dtype."""
    if not (x.dtype is y.dtype is z.dtype) or isinstance(value, complex):
        return NotImplemented
    return _elementwise(FLOAT, (x, y, z))


@rule("aten.lerp.Tensor")
def lerp(x: FakeTensor, end: FakeTensor, weight: FakeTensor) -> Any:
    """Floats of one dtype."""
    if not (x.dtype is end.dtype is weight.dtype):
        return NotImplemented
    return _elementwise(FLOAT, (x, end, weight))


@rule("aten.lerp.Scalar")
def lerp_scalar(x: FakeTensor, end: FakeTensor, weight: Any) -> Any:
    """Floats of one dtype; the weight is a parameter."""
    if x.dtype is not end.dtype or isinstance(weight, complex):
        return NotImplemented
    return _elementwise(FLOAT, (x, end))


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(x: FakeTensor, mask: FakeTensor, value: Any) -> Any:
    """A filled contiguous copy of the broadcast operand."""
    if mask.dtype is not _BOOL or result_device((x, mask)) is None:
        return NotImplemented
    if isinstance(value, FakeTensor) and value.ndim:
        return NotImplemented
    if result_dtype([x, value]) is not x.dtype:
        return NotImplemented
    shape = broadcast_shapes([shape_of(x), shape_of(mask)])
    return NotImplemented if shape is None else new_fake(shape, None, x.dtype, x.device)
