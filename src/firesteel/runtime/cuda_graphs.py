"""CUDA graphs: the launches of a compiled function are recorded once and replayed with one call (reduce-overhead).

A replay reads and writes the memory that was recorded, so for each call there has to be a recording that fits:
- an input whose address was the same in earlier calls (parameters, what forward saved for backward) is read where it
  is, and a call in which it lies elsewhere needs another recording; all other inputs are copied to memory of the
  recording first. Inputs that the function changes have to stay where they are.
- results stay in the memory of the recording. While anybody still holds one of the last replay, that recording is not
  replayed: another one is made, up to `RECORDINGS`. Small results are copied out instead.
Where none fits and none can be made the function runs as it does without CUDA graphs, which is always right. All
recordings of a device share one pool of memory. `FIRESTEEL_CUDAGRAPHS=0` turns recording off.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import config, torch_compat
from ..autodiff.graph import Constant, FreshTensor, FunctionalGraph, Number, SameAs
from ..debug import log

RECORDINGS = 4
"""Recordings of one function for the same sizes."""
SIZES = 16
"""Different sizes that a function is recorded for."""
SMALL = 1 << 16
"""Bytes up to which a result is copied out of the recording's memory."""

_lock = threading.RLock()
_pools: dict[torch.device, Any] = {}


@dataclass
class Recording:
    """One recorded graph."""

    graph: Any
    fixed: list[tuple[int, int]]
    """Inputs that are read where they are: position and address."""
    copied: list[tuple[int, torch.Tensor]]
    """Inputs that are copied: position and where to."""
    results: list[Any]
    small: list[bool]
    counts: list[int]
    """How many own the memory of each result while nobody else does."""

    def fits(self, inputs: Sequence[Any]) -> bool:
        return all(inputs[at].data_ptr() == address for at, address in self.fixed)

    def is_free(self) -> bool:
        """Whether nobody holds a result of the last replay."""
        return all(torch_compat.storage_users(result) <= count
                   for result, count, small in zip(self.results, self.counts, self.small, strict=True)
                   if isinstance(result, torch.Tensor) and not small)

    def replay(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        for at, target in self.copied:
            target.copy_(inputs[at])
        self.graph.replay()
        made: dict[int, Any] = {}  # one object may be several results
        for result, small in zip(self.results, self.small, strict=True):
            if isinstance(result, torch.Tensor) and id(result) not in made:
                made[id(result)] = result.clone() if small else result.detach()
        return tuple([made.get(id(result), result) for result in self.results])


@dataclass
class _Sizes:
    """What is known about calls with certain sizes."""

    calls: int = 0
    addresses: list[int] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)


class GraphedFunction:
    """A compiled function whose launches are recorded."""

    def __init__(self, run: Callable[..., tuple[Any, ...]], functional: FunctionalGraph, device: torch.device,
                 name: str, takes_list: bool) -> None:
        self.run = run
        self.name = name
        self.device = device
        self.takes_list = takes_list
        self.changed = frozenset(change.index for change in functional.mutated)
        self.sizes: dict[Any, _Sizes] = {}
        self.static = not any(isinstance(entry.example, torch.SymInt | torch.SymFloat) or _is_symbolic(entry.example)
                              for entry in functional.inputs)
        self.tensors = [at for at, entry in enumerate(functional.inputs) if isinstance(entry.example, torch.Tensor)]
        self.off: str | None = _obstacle(functional, device)
        if self.off is not None:
            log("fallbacks", "%s is not recorded as a CUDA graph: %s", name, self.off)

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        if self.off is not None or not config.cudagraphs:
            return self.run(*given)
        inputs: Sequence[Any] = given
        if self.takes_list:
            inputs = list(given[0])
            given[0].clear()
        with _lock:
            return self._call(inputs)

    def _plainly(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        return self.run(list(inputs)) if self.takes_list else self.run(*inputs)

    def _call(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        if torch.cuda.is_current_stream_capturing():
            return self._plainly(inputs)
        key = None if self.static else tuple(
            [(part.shape, part.stride()) if isinstance(part, torch.Tensor) else part for part in inputs])
        seen = self.sizes.get(key)
        if seen is None:
            if len(self.sizes) >= SIZES:
                return self._plainly(inputs)
            seen = self.sizes[key] = _Sizes()
        for recording in seen.recordings:
            if recording.fits(inputs) and recording.is_free():
                return recording.replay(inputs)
        addresses = [inputs[at].data_ptr() for at in self.tensors]
        seen.calls += 1
        if seen.calls == 1 or len(seen.recordings) >= RECORDINGS:
            seen.addresses = addresses
            return self._plainly(inputs)  # the first call may compile, and shows where inputs are
        fixed = [(at, address) for at, address, before in zip(self.tensors, addresses, seen.addresses, strict=True)
                 if address == before]
        seen.addresses = addresses
        if not self.changed <= {at for at, _ in fixed}:
            return self._plainly(inputs)
        try:
            recording = self._record(inputs, fixed)
        except Exception as error:
            self.off = f"{type(error).__name__}: {error}"
            log("fallbacks", "%s is not recorded as a CUDA graph: %s", self.name, self.off)
            return self._plainly(inputs)
        seen.recordings.append(recording)
        return recording.replay(inputs)

    def _record(self, inputs: Sequence[Any], fixed: list[tuple[int, int]]) -> Recording:
        known = {at for at, _ in fixed}
        given = list(inputs)
        copied = []
        for at in self.tensors:
            if at not in known:
                own = torch.empty_strided(given[at].shape, given[at].stride(), dtype=given[at].dtype,
                                          device=given[at].device)
                copied.append((at, own))
                given[at] = own
        pool = _pools.get(self.device)
        if pool is None:
            pool = _pools[self.device] = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.device), torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            results = list(self._plainly(given))
        del given
        small = [isinstance(result, torch.Tensor) and _is_small(result, results) for result in results]
        counts = [torch_compat.storage_users(result) if isinstance(result, torch.Tensor) else 0 for result in results]
        log("kernels", "%s is recorded as a CUDA graph: %d inputs are copied", self.name, len(copied))
        return Recording(graph, fixed, copied, results, small, counts)


def _is_small(result: torch.Tensor, results: Sequence[Any]) -> bool:
    """Whether a copy of a result is cheap and nobody can tell it from the result: it shares memory with no other."""
    storage = result.untyped_storage()
    if storage.nbytes() > SMALL or storage.nbytes() != result.numel() * result.element_size():
        return False
    return not any(isinstance(other, torch.Tensor) and other is not result
                   and other.untyped_storage().data_ptr() == storage.data_ptr() for other in results)


def _is_symbolic(example: Any) -> bool:
    return isinstance(example, torch.Tensor) and torch_compat.has_symbolic_layout(example)


def _obstacle(functional: FunctionalGraph, device: torch.device) -> str | None:
    """Why a function cannot be recorded."""
    for entry in functional.inputs:
        if isinstance(entry.example, torch.Tensor) and entry.example.device != device:
            return f"input {entry.name} is on the device {entry.example.device}"
    for output in functional.outputs:
        if not isinstance(output, FreshTensor | Constant | Number | SameAs):
            return "a result is an input or a view of one"
        if isinstance(output, FreshTensor) and output.node.meta["val"].device != device:
            return "a result is on another device"
    if functional.state_changes:
        return "it changes global state"
    return None
