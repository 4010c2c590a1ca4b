"""Parts of matrices: ``np.linalg.svd``, ``qr``, ``eigh`` and ``pinv``, and fits of polynomials.

Signs of such parts are the library's choice, so NumPy itself computes them on the CPU (`host_operators`).
"""

from __future__ import annotations

from typing import Any

import numpy
import torch

from ..signals import GraphBreak
from .context import Context
from .dtypes import FLOAT, result_type
from .host_operators import operator
from .registry import function, refuse
from .traced import Tensor, record


def _matrix(ctx: Context, name: str, a: Any) -> Tensor:
    """The tensor of matrices of floats that have elements."""
    array = ctx.asarray(a)
    if array.dtype == numpy.float16 or array.ndim < 2:
        raise GraphBreak(f"np.linalg.{name} of {array.dtype} with {array.ndim} dimensions, which NumPy refuses")
    if 0 in array.shape:
        raise GraphBreak(f"np.linalg.{name} of nothing")
    return ctx.cast_to(array, FLOAT if array.dtype.kind in "biu" else array.dtype)


def _named(name: str) -> Any:
    """The class of a result that has several parts."""
    return type(getattr(numpy.linalg, name)(numpy.eye(1)))


@function(numpy.linalg.svd)
def svd(ctx: Context, a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = _matrix(ctx, "svd", a)
    refuse("np.linalg.svd", {"hermitian=True": hermitian, f"full_matrices={full_matrices!r}":
                             not isinstance(full_matrices, bool), f"compute_uv={compute_uv!r}":
                             not isinstance(compute_uv, bool)})
    if not compute_uv:
        values = torch.linalg.svdvals(x) if ctx.tx.compiler.exports else \
            record(ctx.tx, operator("numpy_svdvals"), (x,), {})
        return ctx.rows(values)
    parts = torch.linalg.svd(x, full_matrices) if ctx.tx.compiler.exports else \
        record(ctx.tx, operator("numpy_svd"), (x, full_matrices), {})
    return _named("svd")(*[ctx.rows(part) for part in parts])


@function(numpy.linalg.qr)
def qr(ctx: Context, a: Any, mode: str = "reduced") -> Any:
    x = _matrix(ctx, "qr", a)
    if mode not in ("reduced", "complete", "r"):
        raise GraphBreak(f"np.linalg.qr with mode={mode!r}")
    parts = torch.linalg.qr(x, mode) if ctx.tx.compiler.exports else record(ctx.tx, operator("numpy_qr"), (x, mode), {})
    return ctx.rows(parts[1]) if mode == "r" else _named("qr")(*[ctx.rows(part) for part in parts])


@function(numpy.linalg.eigh)
def eigh(ctx: Context, a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    x = _matrix(ctx, "eigh", a)
    if UPLO not in ("L", "U"):
        raise GraphBreak(f"np.linalg.eigh with UPLO={UPLO!r}")
    parts = torch.linalg.eigh(x, UPLO) if ctx.tx.compiler.exports else \
        record(ctx.tx, operator("numpy_eigh"), (x, UPLO), {})
    return _named("eigh")(*[ctx.rows(part) for part in parts])


@function(numpy.linalg.pinv)
def pinv(ctx: Context, a: Any, rcond: Any = None, hermitian: bool = False, **named: Any) -> Any:
    x = _matrix(ctx, "pinv", a)
    refuse("np.linalg.pinv", {"hermitian=True": hermitian, f"{', '.join(named)}=": named,
                              "an rcond that is no float": not (rcond is None or isinstance(rcond, float))})
    # what NumPy takes without one: as many units in the last place as the matrix has rows or columns
    least = max(x.shape[-2:]) * float(torch.finfo(x.dtype).eps) if rcond is None else rcond
    return ctx.rows(torch.linalg.pinv(x, rtol=least) if ctx.tx.compiler.exports
                    else record(ctx.tx, operator("numpy_pinv"), (x, least), {}))


@function(numpy.polyfit)
def polyfit(ctx: Context, x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None,
            cov: Any = False) -> Any:
    one, two = ctx.asarray(x), ctx.asarray(y)
    refuse("np.polyfit", {
        "rcond=": rcond is not None, "full=True": full, "w=": w is not None, "cov=": cov,
        f"deg={deg!r}": type(deg) is not int or deg < 0, "a graph that is exported": ctx.tx.compiler.exports,
    })
    if one.ndim != 1 or two.ndim not in (1, 2) or 0 in (*one.shape, *two.shape):
        raise GraphBreak("np.polyfit of arrays that NumPy refuses")
    kind = result_type(one, two, numpy.dtype(numpy.float64))
    if kind != numpy.float64:
        raise GraphBreak(f"np.polyfit of {kind}")
    operands = (ctx.cast_to(one, kind), ctx.cast_to(two, kind), deg)
    return ctx.rows(record(ctx.tx, operator("numpy_polyfit"), operands, {}))
