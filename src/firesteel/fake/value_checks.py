"""Functions of torch that C++ takes apart while it looks at values, to raise or warn: the same, without looking.

    torch.istft(spectrum, 400)        looks whether the windows cover every sample
    torch.cov(x)                      looks whether there are degrees of freedom, which sizes say

What is raised for values is an operator of the graph (`torch_compat.check_when_run`). Arguments that eager refuses
whatever the values are go to torch's own function, which says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torch_compat import own_functions
from ..torch_compat.tracing import check_when_run

_LEAST = 1e-11
"""Samples that windows add up to less for cannot be told."""
_KINDS = {torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble", torch.complex32: "ComplexHalf"}


def istft(
    x: torch.Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: torch.Tensor | None = None, center: bool = True, normalized: bool = False, onesided: bool | None = None,
    length: Any = None, return_complex: bool = False,
) -> torch.Tensor:
    """The signal that a short-time Fourier transform is of: transforms of all frames, added where they overlap."""
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    half = x.dim() in (2, 3) and (x.size(-2) != n_fft if onesided is None else onesided)
    if not _is_sound(x, n_fft, hop, width, window, half) or return_complex and half or \
            not return_complex and window is not None and window.is_complex():
        return own_functions.istft(x, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
                                   return_complex)
    count = x.size(-1)
    whole = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    if length is not None and end > whole:  # torch warns
        return own_functions.istft(x, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
                                   return_complex)
    frames = (x if x.dim() == 3 else x.unsqueeze(0)).transpose(1, 2)
    weights = _centred(window, n_fft, width, x)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        parts = torch.fft.ifft(frames, dim=-1, norm=norm)
    else:
        parts = torch.fft.irfft(frames if half else frames[..., :n_fft // 2 + 1], n_fft, dim=-1, norm=norm)
    parts = parts * weights.view(1, 1, n_fft)
    signal = own_functions.unfold_backward(parts, [parts.size(0), whole], 1, n_fft, hop)
    covered = own_functions.unfold_backward(weights.pow(2).expand(1, count, n_fft), [1, whole], 1, n_fft, hop)
    signal, covered = signal[:, start:end], covered[:, start:end]
    check_when_run(covered.abs().min() >= _LEAST,
                   _described(x, n_fft, hop, width, window, center, normalized, onesided, length, return_complex))
    signal = signal / covered
    return signal if x.dim() == 3 else signal.squeeze(0)


def _is_sound(x: torch.Tensor, n_fft: int, hop: int, width: int, window: torch.Tensor | None, half: bool) -> bool:
    """Whether eager takes these arguments."""
    return x.is_complex() and x.dim() in (2, 3) and x.numel() > 0 and \
        bool(x.size(-2) == (n_fft // 2 + 1 if half else n_fft)) and 0 < hop <= width <= n_fft and \
        (window is None or window.dim() == 1 and bool(window.size(0) == width))


def _centred(window: torch.Tensor | None, n_fft: int, width: int, x: torch.Tensor) -> torch.Tensor:
    """The window with zeros on both sides, as wide as a frame."""
    weights = torch.ones(width, dtype=x.dtype.to_real(), device=x.device) if window is None else window
    if width == n_fft:
        return weights
    left = (n_fft - width) // 2
    return torch.nn.functional.pad(weights, (left, n_fft - width - left))


def _described(x: torch.Tensor, n_fft: int, hop: int, width: int, window: torch.Tensor | None, center: bool,
               normalized: bool, onesided: bool | None, length: Any, return_complex: bool) -> str:
    """What eager says of windows that leave samples out; sizes that are symbols are left out."""
    sizes = list(x.shape) if all(isinstance(size, int) for size in x.shape) else "[...]"
    given = "None" if window is None else f"{window.type()}{{[{width}]}}"
    one = "None" if onesided is None else int(onesided)
    kind = str(x.device.type).upper() + _KINDS.get(x.dtype, "Complex")
    return f"istft({kind}Type{sizes}, n_fft={n_fft}, hop_length={hop}, win_length={width}, window={given}, " \
           f"center={int(center)}, normalized={int(normalized)}, onesided={one}, " \
           f"length={length if isinstance(length, int) else None}, return_complex={int(return_complex)}) " \
           "window overlap add min: 1\n[ CPUBoolType{} ]"


def cov(x: torch.Tensor, *, correction: int = 1, fweights: torch.Tensor | None = None,
        aweights: torch.Tensor | None = None) -> torch.Tensor:
    """How the rows of a matrix vary with each other; weights are left to torch, which looks at each."""
    rows = x.view(1, -1) if x.dim() < 2 else x
    if fweights is not None or aweights is not None or x.dim() > 2 or x.dtype is torch.bool or \
            not rows.size(1) > correction:
        return own_functions.cov(x, correction=correction, fweights=fweights, aweights=aweights)
    count = rows.size(1)
    rows = rows - (rows.sum(1) / count).unsqueeze(1)
    return (torch.mm(rows, rows.t().conj()) / (count - correction)).squeeze()


def corrcoef(x: torch.Tensor) -> torch.Tensor:
    """How the rows of a matrix vary with each other, in units of how much each varies."""
    if not 0 < x.dim() < 3:
        return own_functions.corrcoef(x)
    products = cov(x)
    if products.dim() == 0:
        return products / products
    deviations = products.diagonal()
    deviations = (torch.real(deviations) if deviations.is_complex() else deviations).sqrt()
    scaled = products / deviations.view(-1, 1) / deviations.view(1, -1)
    return torch.complex(torch.real(scaled).clip(-1, 1), torch.imag(scaled).clip(-1, 1)) if scaled.is_complex() \
        else scaled.clip(-1, 1)


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def ctc_loss(log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0,
             reduction: Any = "mean", zero_infinity: bool = False) -> torch.Tensor:
    """The loss over sequences; lengths that are lists become tensors here, where C++ would fill memory with them."""
    inputs, wanted = (given if isinstance(given, torch.Tensor) else torch.tensor(list(given), dtype=torch.int64)
                      for given in (input_lengths, target_lengths))
    return own_functions.ctc_loss(log_probs, targets, inputs, wanted, blank, _REDUCTIONS.get(reduction, reduction),
                                  zero_infinity)


VALUE_CHECKS: dict[str, Callable[..., Any]] = {"istft": istft, "cov": cov, "corrcoef": corrcoef, "ctc_loss": ctc_loss}
