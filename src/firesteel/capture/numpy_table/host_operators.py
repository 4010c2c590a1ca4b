"""Operators of the graph that NumPy itself computes, on the memory of tensors.

NumPy sorts and convolves several times as fast as torch on the CPU, and transforms real numbers twice as fast. In which
order it leaves equal elements when it need not keep theirs, only NumPy knows. On other devices, where results were
never NumPy's own, torch computes. Exported programs run where there may be no Python: they have torch's operators.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy
import torch

_SCHEMAS = {
    "numpy_sort": "(Tensor x, int dim, str kind) -> Tensor",
    "numpy_argsort": "(Tensor x, int dim, str kind) -> Tensor",
    "numpy_partition": "(Tensor x, int[] places, int dim) -> Tensor",
    "numpy_convolve": "(Tensor x, Tensor y, str mode) -> Tensor",
    "numpy_rfft": "(Tensor x, int n, int dim, str norm) -> Tensor",
    "numpy_irfft": "(Tensor x, int n, int dim, str norm) -> Tensor",
    "numpy_svd": "(Tensor x, bool full) -> (Tensor, Tensor, Tensor)",
    "numpy_svdvals": "(Tensor x) -> Tensor",
    "numpy_qr": "(Tensor x, str mode) -> (Tensor, Tensor)",
    "numpy_eigh": "(Tensor x, str uplo) -> (Tensor, Tensor)",
    "numpy_pinv": "(Tensor x, float rcond) -> Tensor",
    "numpy_polyfit": "(Tensor x, Tensor y, int degree) -> Tensor",
    "numpy_digitize": "(Tensor x, Tensor edges, bool right) -> Tensor",
}


@functools.cache
def operator(name: str) -> Any:
    """The operator of a name in `_SCHEMAS`; its results lie in memory by rows."""
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(name + _SCHEMAS[name])
    computed, elsewhere, shape = _IMPLEMENTATIONS[name]
    library.impl(name, computed, "CPU")
    library.impl(name, elsewhere, "CUDA")
    library.impl(name, shape, "Meta")
    _libraries.append(library)
    return getattr(torch.ops.firesteel, name).default


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""


def _sort(x: torch.Tensor, dim: int, kind: str) -> torch.Tensor:
    return _by_rows(numpy.sort(x.numpy(), axis=dim, kind=kind or None))  # type: ignore[arg-type]


def _argsort(x: torch.Tensor, dim: int, kind: str) -> torch.Tensor:
    return _by_rows(numpy.argsort(x.numpy(), axis=dim, kind=kind or None))  # type: ignore[arg-type]


def _partition(x: torch.Tensor, places: Sequence[int], dim: int) -> torch.Tensor:
    return _by_rows(numpy.partition(x.numpy(), list(places), axis=dim))


def _convolve(x: torch.Tensor, y: torch.Tensor, mode: str) -> torch.Tensor:
    return _by_rows(numpy.convolve(x.numpy(), y.numpy(), mode))  # type: ignore[call-overload]


def _rfft(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    return _by_rows(numpy.fft.rfft(x.numpy(), n, dim, norm))  # type: ignore[arg-type]


def _irfft(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    return _by_rows(numpy.fft.irfft(x.numpy(), n, dim, norm))  # type: ignore[arg-type]


def _svd(x: torch.Tensor, full: bool) -> tuple[torch.Tensor, ...]:
    return tuple([_by_rows(part) for part in numpy.linalg.svd(x.numpy(), full)])


def _svdvals(x: torch.Tensor) -> torch.Tensor:
    return _by_rows(numpy.linalg.svd(x.numpy(), compute_uv=False))


def _qr(x: torch.Tensor, mode: str) -> tuple[torch.Tensor, ...]:
    if mode == "r":
        return x.new_empty((0,)), _by_rows(numpy.linalg.qr(x.numpy(), "r"))
    return tuple([_by_rows(part) for part in numpy.linalg.qr(x.numpy(), mode)])  # type: ignore[call-overload]


def _eigh(x: torch.Tensor, uplo: str) -> tuple[torch.Tensor, ...]:
    return tuple([_by_rows(part) for part in numpy.linalg.eigh(x.numpy(), uplo)])  # type: ignore[call-overload]


def _pinv(x: torch.Tensor, rcond: float) -> torch.Tensor:
    return _by_rows(numpy.linalg.pinv(x.numpy(), rcond))


def _polyfit(x: torch.Tensor, y: torch.Tensor, degree: int) -> torch.Tensor:
    return _by_rows(numpy.polyfit(x.numpy(), y.numpy(), degree))


def _digitize(x: torch.Tensor, edges: torch.Tensor, right: bool) -> torch.Tensor:
    return _by_rows(numpy.digitize(x.numpy(), edges.numpy(), right))


def _by_rows(array: Any) -> torch.Tensor:
    return torch.from_numpy(numpy.ascontiguousarray(array).reshape(numpy.shape(array)))  # also without dimensions


def _sort_elsewhere(x: torch.Tensor, dim: int, kind: str) -> torch.Tensor:
    return torch.sort(x, dim=dim)[0].contiguous()


def _argsort_elsewhere(x: torch.Tensor, dim: int, kind: str) -> torch.Tensor:
    return torch.argsort(x, dim=dim, stable=True).contiguous()


def _partition_elsewhere(x: torch.Tensor, places: Sequence[int], dim: int) -> torch.Tensor:
    return _sort_elsewhere(x, dim, "")


def _convolve_elsewhere(x: torch.Tensor, y: torch.Tensor, mode: str) -> torch.Tensor:
    length, short = len(x), len(y)
    full = torch.nn.functional.conv1d(x.reshape(1, 1, -1), y.flip(0).reshape(1, 1, -1), padding=short - 1).reshape(-1)
    begin = {"full": 0, "valid": short - 1, "same": (short - 1) // 2}[mode]
    return full[begin:begin + _convolved_length(length, short, mode)].contiguous()


def _rfft_elsewhere(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    return torch.fft.rfft(x, n, dim, norm).contiguous()


def _irfft_elsewhere(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    return torch.fft.irfft(x, n, dim, norm).contiguous()


def _svd_elsewhere(x: torch.Tensor, full: bool) -> tuple[torch.Tensor, ...]:
    return tuple([part.contiguous() for part in torch.linalg.svd(x, full)])


def _qr_elsewhere(x: torch.Tensor, mode: str) -> tuple[torch.Tensor, ...]:
    return tuple([part.contiguous() for part in torch.linalg.qr(x, mode)])


def _eigh_elsewhere(x: torch.Tensor, uplo: str) -> tuple[torch.Tensor, ...]:
    return tuple([part.contiguous() for part in torch.linalg.eigh(x, uplo)])


def _pinv_elsewhere(x: torch.Tensor, rcond: float) -> torch.Tensor:
    return torch.linalg.pinv(x, rtol=rcond).contiguous()


def _polyfit_elsewhere(x: torch.Tensor, y: torch.Tensor, degree: int) -> torch.Tensor:
    powers = torch.linalg.vander(x, N=degree + 1).flip(1)
    scale = powers.square().sum(0).sqrt()
    columns = y if y.dim() == 2 else y.unsqueeze(1)
    fitted = torch.linalg.lstsq(powers / scale, columns).solution / scale.unsqueeze(1)
    return (fitted if y.dim() == 2 else fitted.squeeze(1)).contiguous()


def _digitize_elsewhere(x: torch.Tensor, edges: torch.Tensor, right: bool) -> torch.Tensor:
    rises = edges[0] <= edges[-1]
    places = torch.bucketize(x, torch.where(rises, edges, edges.flip(0)), right=not right)
    return torch.where(rises, places, len(edges) - places)


def _convolved_length(length: int, short: int, mode: str) -> int:
    return {"full": length + short - 1, "valid": length - short + 1, "same": length}[mode]


def _shape(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _argsort_shape(x: torch.Tensor, *settings: Any) -> torch.Tensor:
    return torch.empty(x.shape, dtype=torch.int64, device=x.device)


def _convolve_shape(x: torch.Tensor, y: torch.Tensor, mode: str) -> torch.Tensor:
    return torch.empty((_convolved_length(x.shape[0], y.shape[0], mode),), dtype=x.dtype, device=x.device)


def _rfft_shape(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    shape = (*x.shape[:dim], n // 2 + 1, *x.shape[dim + 1:])
    return torch.empty(shape, dtype=x.dtype.to_complex(), device=x.device)


def _irfft_shape(x: torch.Tensor, n: int, dim: int, norm: str) -> torch.Tensor:
    return torch.empty((*x.shape[:dim], n, *x.shape[dim + 1:]), dtype=x.dtype.to_real(), device=x.device)


def _svd_shape(x: torch.Tensor, full: bool) -> tuple[torch.Tensor, ...]:
    *batch, rows, columns = x.shape
    least = min(rows, columns)
    return (x.new_empty((*batch, rows, rows if full else least)), _svdvals_shape(x),
            x.new_empty((*batch, columns if full else least, columns)))


def _svdvals_shape(x: torch.Tensor) -> torch.Tensor:
    return torch.empty((*x.shape[:-2], min(x.shape[-2:])), dtype=x.dtype.to_real(), device=x.device)


def _qr_shape(x: torch.Tensor, mode: str) -> tuple[torch.Tensor, ...]:
    *batch, rows, columns = x.shape
    inner = rows if mode == "complete" else min(rows, columns)
    return x.new_empty((0,) if mode == "r" else (*batch, rows, inner)), x.new_empty((*batch, inner, columns))


def _eigh_shape(x: torch.Tensor, uplo: str) -> tuple[torch.Tensor, ...]:
    return torch.empty(x.shape[:-1], dtype=x.dtype.to_real(), device=x.device), x.new_empty(x.shape)


def _pinv_shape(x: torch.Tensor, rcond: float) -> torch.Tensor:
    return x.new_empty((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _polyfit_shape(x: torch.Tensor, y: torch.Tensor, degree: int) -> torch.Tensor:
    return y.new_empty((degree + 1, *y.shape[1:]))


_IMPLEMENTATIONS: dict[str, tuple[Any, Any, Any]] = {
    "numpy_sort": (_sort, _sort_elsewhere, _shape),
    "numpy_argsort": (_argsort, _argsort_elsewhere, _argsort_shape),
    "numpy_partition": (_partition, _partition_elsewhere, _shape),
    "numpy_convolve": (_convolve, _convolve_elsewhere, _convolve_shape),
    "numpy_rfft": (_rfft, _rfft_elsewhere, _rfft_shape),
    "numpy_irfft": (_irfft, _irfft_elsewhere, _irfft_shape),
    "numpy_svd": (_svd, _svd_elsewhere, _svd_shape),
    "numpy_svdvals": (_svdvals, torch.linalg.svdvals, _svdvals_shape),
    "numpy_qr": (_qr, _qr_elsewhere, _qr_shape),
    "numpy_eigh": (_eigh, _eigh_elsewhere, _eigh_shape),
    "numpy_pinv": (_pinv, _pinv_elsewhere, _pinv_shape),
    "numpy_polyfit": (_polyfit, _polyfit_elsewhere, _polyfit_shape),
    "numpy_digitize": (_digitize, _digitize_elsewhere, _argsort_shape),
}
"""What each is on the CPU, on other devices, and for tensors without data."""
