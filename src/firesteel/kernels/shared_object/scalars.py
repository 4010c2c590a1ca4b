"""Calls without `Scalar` arguments, which the dispatcher's words cannot hold, in the place of calls with them.

    sub(x, y, alpha=2)        ->  add(x, y, alpha=-2)         it has a C function
    remainder(x, 3)           ->  remainder(x, tensor of 3)
    var(x, [0], correction=0) ->  var(x, [0], unbiased=False)
    full([2, 3], 0)           ->  zeros([2, 3])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ... import torch_compat
from ..ir import ExternCall

_ATEN = torch.ops.aten


def _negated(step: ExternCall) -> ExternCall:
    """x - alpha * y"""
    return replace(step, target=_ATEN.add.Tensor, kwargs={"alpha": -step.kwargs.get("alpha", 1)})


def _reversed(step: ExternCall) -> ExternCall:
    """y - alpha * x"""
    return _negated(replace(step, args=(step.args[1], step.args[0])))


def _padded(step: ExternCall) -> ExternCall:
    value = step.args[2] if len(step.args) > 2 else step.kwargs.get("value", 0)
    if isinstance(value, complex):
        return step
    return replace(step, target=_ATEN.pad.default, args=(*step.args[:2], "constant", value), kwargs={})


def _filled(step: ExternCall) -> ExternCall:
    twins: dict[Any, Any] = {0: _ATEN.zeros.default, 1: _ATEN.ones.default}
    size, value = step.args[:2]
    if not isinstance(value, (bool, int, float, complex)) or value not in twins:
        return step
    dtype = step.kwargs.get("dtype") or torch.full((), value).dtype
    return replace(step, target=twins[value], args=(size,), kwargs={**step.kwargs, "dtype": dtype})


def _corrected(step: ExternCall) -> ExternCall:
    """Variances and deviations whose divisor is n or n - 1."""
    correction = step.kwargs.get("correction")
    if correction not in (None, 0, 1):
        return step
    packet = getattr(_ATEN, torch_compat.operator_name(step.target).split(".")[1])
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
    given = (step.args[0], dim, correction != 0, step.kwargs.get("keepdim", False))
    return replace(step, target=packet.dim, args=given, kwargs={})


def _added_at(step: ExternCall) -> ExternCall:
    """index_add(x, 1, i, source) -> index_put(x, [None, i], source, accumulate)"""
    if step.kwargs.get("alpha", 1) != 1 or len(step.args) != 4:
        return step
    x, dim, index, source = step.args
    if not isinstance(dim, int) or dim < 0:
        return step
    return replace(step, target=_ATEN.index_put.default, args=(x, [None] * dim + [index], source, True), kwargs={})


_REWRITES: dict[str, Callable[[ExternCall], ExternCall]] = {
    "aten.sub.Tensor": _negated,
    "aten.rsub.Tensor": _reversed,
    "aten.constant_pad_nd.default": _padded,
    "aten.full.default": _filled,
    "aten.index_add.default": _added_at,
    **{f"aten.{name}.correction": _corrected for name in ("var", "std", "var_mean", "std_mean")},
}


def without_scalars(step: ExternCall, has_function: bool) -> ExternCall:
    """The same call with fewer `Scalar` arguments, where there is one; ``has_function``: there is a C function for it,
    which takes real ones."""
    name = torch_compat.operator_name(step.target)
    rewrite = _REWRITES.get(name)
    if rewrite is not None:
        return rewrite(step)
    imaginary = any(isinstance(value, complex) for value in (*step.args, *step.kwargs.values()))
    if (has_function and not imaginary) or not name.endswith(".Scalar"):
        return step
    space, short, _ = name.split(".")
    twin: Any = getattr(getattr(getattr(torch.ops, space), short), "Tensor", None)
    if twin is None:
        return step
    ours, theirs = (torch_compat.schema_of(target).arguments for target in (step.target, twin))
    same = [argument.name for argument in ours] == [argument.name for argument in theirs]
    if not same and not (imaginary and len(step.args) == 2 and not step.kwargs):
        return step
    step = replace(step, target=twin)
    rewrite = _REWRITES.get(torch_compat.operator_name(twin))
    return step if rewrite is None else rewrite(step)
