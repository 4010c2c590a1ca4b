"""Pointwise operators in general: broadcasting, type promotion and eager's rounding around a function of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...shapes import Expr
from .. import ir
from ..ir import Value
from .context import Lowering, Number
from .registry import lowering
from .scalars import cast, compare, op, opmath, where
from .tensors import ONE, Computed, Indices, Spec, Tensor
from .views import expanded

Operand = Tensor | Number
ScalarFunction = Callable[..., Value]
HOST_NUMBERS = "host.numbers"
"""How the names of buffers begin that hold numbers which the host knows; nodes of a graph have no such names."""


def number_dtype(number: Any) -> torch.dtype:
    """The dtype that a number brings into promotion."""
    kind = number.kind if isinstance(number, Expr) else type(number).__name__
    return torch.bool if kind == "bool" else torch.int64 if kind == "int" else torch.get_default_dtype()


def _category(dtype: torch.dtype) -> int:
    return 0 if dtype is torch.bool else 2 if dtype.is_floating_point else 1


def common_dtype(operands: Sequence[Operand]) -> torch.dtype:
    """The dtype in which operands meet: of tensors with dimensions, else of those without, else of numbers.

    A weaker operand changes the kind of the result (bool, integer, float), never its width.
    """
    ranks: list[torch.dtype | None] = [None, None, None]
    for x in operands:
        rank = 2 if not isinstance(x, Tensor) else 0 if x.ndim else 1
        dtype = x.dtype if isinstance(x, Tensor) else number_dtype(x)
        known = ranks[rank]
        ranks[rank] = dtype if known is None else torch.promote_types(known, dtype)
    result: torch.dtype | None = None
    for dtype_ in ranks:
        if dtype_ is not None and (result is None or _category(dtype_) > _category(result)):
            result = dtype_
    assert result is not None
    return result


def element(ctx: Lowering, x: Operand, indices: Indices, dtype: torch.dtype, exact_scalar: bool = False) -> Value:
    """An operand's element at a point of the result, as eager converts it: to ``dtype``, then to what it computes in.

    With ``exact_scalar``, numbers and tensors without dimensions, on a GPU only those that are on the CPU, are not
    rounded to a short float on the way.
    """
    wide = opmath(dtype)
    if not isinstance(x, Tensor):
        return ctx.scalar(x, wide) if exact_scalar else cast(ctx.scalar(x, dtype), wide)
    value = x.at(indices[len(indices) - x.ndim :])
    if exact_scalar and x.ndim == 0 and value.dtype.is_floating_point and (
            ctx.kind.rounds_steps or _is_number(value)):
        return cast(value, wide)
    return cast(cast(value, dtype), wide)


def _is_number(value: Value) -> bool:
    """Whether a value is a number that the host knows."""
    value = _before_casts(value)
    return value.op in ("const", "number", "index") \
        or value.op == "load" and value.data.buffer.startswith(HOST_NUMBERS)


def _before_casts(value: Value) -> Value:
    while value.op == "cast":
        value = value.args[0]
    return value


def limited(name: str, a: Value, limit: Value) -> Value:
    """The ``max`` or ``min`` of an element and a limit. Of two zeros a limit that is a number leaves the first one."""
    if not a.dtype.is_floating_point or not _is_number(limit) or _before_casts(limit).op == "const":
        return op(name, a, limit)
    beyond = where(compare("gt" if name == "max" else "lt", limit, a), limit, a)
    return where(ir.op("isnan", limit), limit, beyond)


def broadcast(ctx: Lowering, x: Operand, shape: Sequence[Expr]) -> Operand:
    """An operand such that it can be asked at indices of ``shape``."""
    if not isinstance(x, Tensor) or x.shape == tuple(shape) or not x.ndim:
        return x
    wanted = tuple(shape[len(shape) - x.ndim :])
    if all(a is b or a is not ONE for a, b in zip(x.shape, wanted, strict=True)):
        return ctx.share(x) if len(wanted) < len(shape) else x
    return expanded(ctx, x, wanted)


def pointwise(
    ctx: Lowering,
    function: ScalarFunction,
    *operands: Operand,
    compute: torch.dtype | None = None,
    exact_scalars: bool = False,
    spec: Spec | None = None,
) -> Computed:
    """The result of a function of scalars at every point.

    ``compute`` is the dtype in which the operands meet, the result's own unless given. The function sees values of the
    dtype that eager computes in, and gives one of that or of the result's dtype. With ``exact_scalars``, numbers and
    tensors without dimensions, on the CPU other than the first operand, are not rounded to a short float.
    """
    spec = spec or ctx.out
    dtype = compute or spec.dtype
    prepared = [broadcast(ctx, x, spec.shape) for x in operands]
    first_too = not ctx.kind.rounds_steps

    def body(indices: Indices) -> Value:
        values = [element(ctx, x, indices, dtype, exact_scalars and (position > 0 or first_too))
                  for position, x in enumerate(prepared)]
        result = function(*values)
        return rounded(result, dtype, spec.dtype)

    return ctx.computed(body, spec)


def rounded(result: Value, compute: torch.dtype, dtype: torch.dtype) -> Value:
    """A result computed in a wider dtype, as eager gives it."""
    if result.dtype is dtype:
        return result
    if result.dtype is opmath(compute) and dtype is not compute and dtype is not torch.bool:
        result = cast(result, compute)
    return cast(result, dtype)


def floating(operands: Sequence[Operand]) -> torch.dtype:
    """The dtype in which operands meet when integers have to become floats."""
    dtype = common_dtype(operands)
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def elementwise(*names: str, exact_scalars: bool = False) -> Callable[[ScalarFunction], ScalarFunction]:
    """A decorator that makes a function of scalars the lowering of operators, whose arguments are its operands.

        elementwise("aten.relu.default")(lambda a: op("max", a, 0))
    """

    def add(function: ScalarFunction) -> ScalarFunction:
        lowering(*names)(lambda ctx, *operands: pointwise(ctx, function, *operands, exact_scalars=exact_scalars))
        return function

    return add


def scalar_op(name: str) -> ScalarFunction:
    """An IR operation as a function of scalars."""

    def apply(*operands: Value) -> Value:
        return op(name, *operands)

    return apply
