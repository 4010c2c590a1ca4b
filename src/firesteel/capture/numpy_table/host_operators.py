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


def _by_rows(array: Any) -> torch.Tensor:
    return torch.from_numpy(numpy.ascontiguousarray(array))


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


_IMPLEMENTATIONS: dict[str, tuple[Any, Any, Any]] = {
    "numpy_sort": (_sort, _sort_elsewhere, _shape),
    "numpy_argsort": (_argsort, _argsort_elsewhere, _argsort_shape),
    "numpy_partition": (_partition, _partition_elsewhere, _shape),
    "numpy_convolve": (_convolve, _convolve_elsewhere, _convolve_shape),
    "numpy_rfft": (_rfft, _rfft_elsewhere, _rfft_shape),
    "numpy_irfft": (_irfft, _irfft_elsewhere, _irfft_shape),
}
"""What each is on the CPU, on other devices, and for tensors without data."""
