"""Options of the native backend: what `compile(options={...})` takes, and the sets of them that modes stand for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from ..errors import UserCodeError
from ..records import dataclass


@dataclass(frozen=True)
class Options:
    """What can be chosen for one compilation."""

    max_autotune: bool = False
    """Measure alternatives (tilings, thread counts, a fused kernel or a library call) and take the fastest."""
    native_host: bool = True
    """Run allocations and launches as native code. Without it the host program is plain Python, for debugging."""
    freeze: bool = False
    """Without gradients, keep what is computed from parameters and buffers alone, such as packed and cast weights, from
    call to call, and compute it again when they have changed. It takes memory beside the parameters. Changes that
    torch does not count are missed: in-place operations on ``parameter.data``, optimizers with ``fused=True``, writes
    through NumPy arrays or by other processes."""
    relaxed_libraries: bool = False
    """Use faster calls of libraries that round more than eager's do (still within the tolerance of the dtype) and may
    turn NaN into 0 in activations."""
    cuda_graphs: bool = False
    """On GPUs, record the launches of a compiled function as a CUDA graph and replay that: less work for the host, more
    memory."""
    memory_budget: float = 1.0
    """How much of what could be kept between forward and backward is kept: with less than 1 more is computed again, and
    below 0.5 reductions and normalisations too. Matrix products, convolutions and random numbers never are."""

    background: bool = False
    """Compile in another thread. Until that is done, calls run the captured graph operator by operator."""


MODES: dict[str | None, dict[str, Any]] = {
    None: {},
    "default": {},
    "lite": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"max_autotune": True, "cuda_graphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}
"""On the CPU every mode has little overhead, so "reduce-overhead" changes nothing there."""


def make_options(given: Mapping[str, Any] | None = None, mode: str | None = None,
                 others: Sequence[str] = ()) -> Options:
    """Checked options. `others` are options that are not for kernels, and may be what a wrong one means.

    >>> make_options({"max_autotune": True}).max_autotune
    True
    >>> make_options({"max_autotun": True})
    Traceback (most recent call last):
        ...
    firesteel.errors.UserCodeError: One of firesteel's functions is used in a way that it does not allow.
      Why: the native backend has no option 'max_autotun'
      What to do: did you mean 'max_autotune'?
    """
    values = {**MODES[mode], **(given or {})}
    known = {field.name: type(field.default) for field in fields(Options)}
    for name, value in values.items():
        if name not in known:
            close = difflib.get_close_matches(str(name), (*known, *others), n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the options are {', '.join((*known, *others))}"
            raise UserCodeError(f"the native backend has no option {name!r}", hint)
        if known[name] is float and type(value) is int:
            values[name] = value = float(value)
        if type(value) is not known[name]:
            raise UserCodeError(f"option {name!r} is {value!r}", f"it takes a value of type {known[name].__name__}")
    options = Options(**values)
    if not 0.0 <= options.memory_budget <= 1.0:
        raise UserCodeError(f"option 'memory_budget' is {options.memory_budget!r}", "it takes a number from 0 to 1")
    return options
