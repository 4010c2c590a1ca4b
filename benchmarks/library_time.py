"""How much of a call is spent inside matrix products, convolutions and attention, whoever calls them.

The CPU kernels of these operators are replaced by functions that look at a clock, run the kernel, and look again.
Eager, torch.compile and firesteel all reach them through torch's dispatcher, so that the same clock counts for all.
Firesteel's own matrix product is none of torch's operators and is counted in the same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

import torch

from firesteel.kernels.cpu import product

OPERATORS = (
    "aten::mm", "aten::mm.out", "aten::addmm", "aten::addmm.out", "aten::bmm", "aten::bmm.out", "aten::baddbmm",
    "aten::baddbmm.out", "aten::_addmm_activation", "aten::_addmm_activation.out", "aten::convolution",
    "aten::mkldnn_rnn_layer", "aten::_scaled_dot_product_flash_attention_for_cpu", "mkl::_mkl_linear",
    "mkldnn::_linear_pointwise", "mkldnn::_linear_pointwise.binary", "mkldnn::_convolution_pointwise",
    "mkldnn::_convolution_pointwise.binary", "mkldnn::_convolution_pointwise_.binary",
    "aten::convolution_backward", "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::mkldnn_rnn_layer_backward",
)  # fmt: skip


class LibraryTime:
    """While entered, counts the calls of library operators and the time inside of them.

    >>> import time
    >>> with LibraryTime(time.perf_counter) as spent:
    ...     _ = torch.ones(8, 8) @ torch.ones(8, 8)
    >>> spent.calls
    1
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = 0.0
        self.calls = 0
        self._inside = False
        self._libraries: dict[str, torch.library.Library] = {}
        self._own: Callable[..., Any] = product.compute

    def __enter__(self) -> LibraryTime:
        # Torch warns of kernels that are replaced, which is what this is for.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._replace_kernels()
        self._own = product.compute
        product.compute = self._counted(self._own)
        return self

    def _replace_kernels(self) -> None:
        for name in OPERATORS:
            namespace, _, operator = name.partition("::")
            # Not every build of torch has all of them.
            with suppress(RuntimeError, AttributeError):
                kernel = torch.library.get_kernel(name, "CPU")
                library = self._libraries.get(namespace)
                if library is None:
                    library = self._libraries[namespace] = torch.library.Library(namespace, "IMPL")
                library.impl(operator, self._counted(kernel.call_boxed), "CPU", with_keyset=True, allow_override=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        product.compute = self._own
        for library in self._libraries.values():
            library._destroy()
        self._libraries.clear()

    def reset(self) -> None:
        """Start counting anew."""
        self.seconds, self.calls = 0.0, 0

    def overhead(self) -> float:
        """Seconds that each counted call takes longer than the kernel, outside of what is counted."""
        matrix = torch.ones(2, 2)
        found = []
        for _ in range(7):
            self.reset()
            started = self.clock()
            for _ in range(300):
                torch.mm(matrix, matrix)
            found.append((self.clock() - started - self.seconds) / 300)
        self.reset()
        return min(found)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._inside:  # an operator inside another one counts once
                return function(*args, **kwargs)
            self._inside = True
            started = self.clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += self.clock() - started
                self.calls += 1
                self._inside = False

        return counted


def outside_seconds(
    calls: dict[str, Callable[[], Any]], clock: Callable[[], float], seconds: float, grad: bool = False
) -> dict[str, float]:
    """For each of some functions the time of a call outside library operators, in its best call."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    with LibraryTime(clock) as spent, torch.set_grad_enabled(grad):
        overhead = spent.overhead()
        for call in calls.values():
            call()
        least, started = 5, clock()
        while least > 0 or clock() - started < seconds:
            least -= 1
            for name, call in calls.items():
                spent.reset()
                before = clock()
                call()
                whole = clock() - before
                found[name].append(whole - spent.seconds - spent.calls * overhead)
    return {name: max(min(times), 0.0) for name, times in found.items()}
