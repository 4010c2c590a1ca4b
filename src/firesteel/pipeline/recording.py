"""One recorded CUDA graph: which inputs it reads where they are, which are copied, and how results are handed out.

A replay writes its results where they were recorded. Who holds one can be told from how many owners its memory has, so
that a recording is replayed only when nobody would see its results change.

The recordings of a function share a pool of memory, and so do those of forward and backward. What one has used in
between may be where a later one has its results. So they are a stack: one is replayed only while nobody holds results
of those that were recorded after it.
"""

from __future__ import annotations

import enum
import operator
import sys
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..functional.graph import ViewLayout
from ..kernels.host.launching import view
from .collecting import collection_paused

SMALL = 1 << 16
"""Bytes up to which a copy of a result costs less than anything else that could be done for it."""

_capturing: dict[torch.device, Any] = {}
"""The stream that recordings of a device are made on."""
_recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
"""All recordings there are."""
_workspaces: dict[torch.device, Any] = {}
"""For each device the pool with the memory that cuBLAS works in during recordings, and replays."""
_streams: dict[torch.device, tuple[int, Any]] = {}
"""The stream that recordings of a device were last replayed on. They share memory, so they must not run at once."""
_memory: weakref.WeakValueDictionary[int, Recording] = weakref.WeakValueDictionary()
"""The recording that memory belongs to, by its address."""


class ResultOwnership(enum.Enum):
    """How a result is given to the caller."""

    OWN = 0
    """The recording's own object: for what forward saves for backward, which nobody else sees."""
    FRESH = 1
    """A new tensor on the recording's memory."""
    COPY = 2
    """A copy with memory of its own."""


class Recording:
    """A recorded graph, its inputs and its results."""

    def __init__(self, graph: Any, device: torch.device, fixed: dict[int, int], copied: dict[int, torch.Tensor],
                 owners: dict[int, Recording], results: list[Any], ownership: list[ResultOwnership],
                 aliases: dict[int, tuple[int, ViewLayout | None]], maker: object = None, parted: bool = False) -> None:
        """``fixed``: the addresses of inputs that are read where they are. ``copied``: where others are copied to.

        ``owners``: for fixed inputs in the memory of another recording, which one. ``aliases``: results that are
        inputs or views of them. ``maker``: the same for all recordings of a function. ``parted``: it is a
        `parted_graph.PartedGraph`, some of whose results are others in every call.
        """
        self.aliases, self.maker, self.parted = aliases, maker, parted
        self.graph, self.device, self.results, self.ownership = graph, device, results, ownership
        self.retired = False
        self.replayed_at = 0
        """When it was last replayed, for those who choose among recordings."""
        self.lent = False
        """Whether results may be held: a replay lends them."""
        _recordings.add(self)
        self.positions, self.addresses = list(fixed), list(fixed.values())
        self.copied = copied
        self.owned = frozenset(owners)
        self.owners = {weakref.ref(owner) for owner in owners.values()}
        self.first = _first_of_each(results)
        storages = {torch_compat.storage_address(result): result.untyped_storage() for result in _tensors(results)}
        self.storages = list(storages.values())
        self.keys = list(storages)
        self.own = [result for result, owns in zip(results, ownership, strict=True)
                    if isinstance(result, torch.Tensor) and owns is ResultOwnership.OWN]
        for storage in self.storages:
            if storage.nbytes():
                _memory[storage.data_ptr()] = self
        del storages
        self.unused = self._users()

    # Inputs

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Whether all inputs that are read in place are there."""
        return (list(map(torch.Tensor.data_ptr, [inputs[at] for at in self.positions])) == self.addresses
                and not self.retired)

    def moved(self, inputs: Sequence[Any]) -> list[int]:
        """The inputs that are elsewhere."""
        return [at for at, address in zip(self.positions, self.addresses, strict=True)
                if inputs[at].data_ptr() != address]

    def is_stale(self) -> bool:
        """Whether it will not fit again: an input was the result of a recording that is gone."""
        return self.retired or any((owner := reference()) is None or owner.retired for reference in self.owners)

    def retire(self) -> None:
        """Never be replayed again."""
        self.retired = True

    def let_go(self) -> None:
        """Keep no memory any more. What others hold stays as it is, and is not counted from now on."""
        self.retired, self.lent, self.graph, self.copied = True, False, None, {}
        self.results, self.storages, self.keys, self.own, self.unused = [], [], [], [], []

    # Results

    def _users(self) -> list[int]:
        """How many hold each memory, and each object that is handed out itself: in C++ and in Python."""
        return [*map(torch_compat.users_of_storage, self.keys), *map(torch_compat.users_of_tensor, self.own),
                *map(sys.getrefcount, self.own)]

    def is_free(self) -> bool:
        """Whether nobody holds a result of the last replay."""
        if self.lent and all(map(operator.le, self._users(), self.unused)):
            self.lent = False
        return not self.lent

    def held(self) -> set[int]:
        """The results that somebody holds."""
        now, count = self._users(), len(self.keys)
        held = {key for key, users, unused in zip(self.keys, now, self.unused, strict=False) if users > unused}
        extra = [max(now[at] - self.unused[at], now[at + len(self.own)] - self.unused[at + len(self.own)])
                 for at in range(count, count + len(self.own))]
        objects = {id(result) for result, more in zip(self.own, extra, strict=True) if more > 0}
        return {at for at, result in enumerate(self.results) if isinstance(result, torch.Tensor)
                and (id(result) in objects or torch_compat.storage_address(result) in held)}

    def can_copy(self, at: int) -> bool:
        """Whether nobody can tell a copy of a result from the result."""
        return has_own_memory(self.results[at], self.results)

    # Running

    def has_run(self) -> bool:
        """Whether it has run for the call that it was recorded in, whose results the next replay gives."""
        return self.parted and self.graph.first is not None

    def replay(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The results for these inputs."""
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self.replay(inputs)
        follow_stream(self.device)
        self.lent = True
        if self.copied:
            copy_in(self.copied, inputs)
        live = self.graph.replay(inputs) if self.parted else self.graph.replay()
        results = list(self.results)
        for at in self.first:
            owns = self.ownership[at]
            if owns is ResultOwnership.FRESH:
                results[at] = results[at].detach()
            elif owns is ResultOwnership.COPY:
                results[at] = results[at].clone()
        if len(self.first) < len(results):
            known = {id(self.results[at]): results[at] for at in self.first}
            results = [known.get(id(result), result) for result in self.results]
        if self.parted:
            for at, result in live.items():
                results[at] = result
        for at, (index, layout) in self.aliases.items():
            results[at] = inputs[index] if layout is None else view(
                inputs[index], layout.shape, layout.stride, layout.offset)
        return tuple(results)


class Stack:
    """Recordings in the order in which they were made, and the pool of memory that they share.

    They are those of a function, or of forward and backward.
    """

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self.pool: Any = None
        self.moves = 0
        """How often a recording was made anew above those that kept it from being replayed."""
        self.ended = False
        """Whether those who share it have gone apart."""
        self.open = False
        """Whether parts of a function have been recorded that is not recorded as a whole yet."""

    def allows(self, recording: Recording, maker: object = None) -> bool:
        """Whether a recording can be replayed: nobody holds results of it or of those above it.

        With ``maker``, only recordings of this function are looked at.
        """
        for other in reversed(self.recordings):
            if (maker is None or other.maker is maker) and not other.is_free():
                return False
            if other is recording:
                return True
        return False

    def held(self) -> list[Recording]:
        """The recordings whose results are held."""
        return [recording for recording in self.recordings if not recording.is_free()]

    def forget_retired(self) -> None:
        """Let go of recordings that will not be replayed. What is held still has to be kept from being overwritten."""
        self.recordings = [recording for recording in self.recordings
                           if not recording.retired or not recording.is_free()]

    def end(self) -> None:
        """Replay none of its recordings any more. Nothing overwrites what is held of them, and its memory goes back."""
        for recording in self.recordings:
            recording.let_go()
        self.recordings = []
        self.ended = True


def record(run: Callable[..., Sequence[Any]], given: list[Any], device: torch.device,
           stack: Stack, products: bool = False) -> tuple[Any, list[Any]]:
    """What a function launches, as a graph, and its results. Nothing runs on the device.

    ``products``: whether cuBLAS will be called.
    """
    if not stack.recordings and not stack.open:
        stack.pool = torch.cuda.graph_pool_handle()  # a pool ends with its last graph
    if device not in _capturing:
        _capturing[device] = torch.cuda.Stream(device)
    generator = torch.cuda.default_generators[device.index or 0]
    numbers = generator.get_state()
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()  # what calls without a recording have used
    graph = torch.cuda.CUDAGraph()
    torch_compat.clear_cublas_workspaces()  # those of calls without a recording
    try:
        with torch.cuda.device(device), collection_paused(), torch.cuda.stream(_capturing[device]):
            if products:
                _use_common_workspace(device)
            graph.capture_begin(stack.pool, capture_error_mode="thread_local")
            try:
                results = list(run(*given))
            finally:
                graph.capture_end()
    except BaseException:
        torch_compat.stop_allocating_from(stack.pool, device)
        _restore_generator(generator, numbers, device)
        raise
    finally:
        torch_compat.clear_cublas_workspaces()
    return graph, results


def _use_common_workspace(device: torch.device) -> None:
    """Let cuBLAS work in memory that all recordings of a device share, as replays of them never run at once.

    Nothing else is ever allocated from its pool, which is never freed: whoever clears workspaces later only makes it
    unused until the next recording. Without this each pool of recordings would have such memory, 32 MiB on large GPUs.
    """
    if device not in _workspaces:
        _workspaces[device] = torch.cuda.graph_pool_handle()
    torch_compat.allocate_cublas_workspace(_workspaces[device], device)


def _restore_generator(generator: torch.Generator, numbers: torch.Tensor, device: torch.device) -> None:
    """After a failure: torch's generator may still count draws for the graph, and refuse all others."""
    try:
        torch.empty(1, device=device).uniform_()
        generator.set_state(numbers)
    except RuntimeError:
        fresh = torch.Generator(device)
        fresh.set_state(numbers)
        generator.graphsafe_set_state(fresh)
        for recording in list(_recordings):  # they advance the generator as it was
            recording.retire()


def owner_of(tensor: torch.Tensor) -> Recording | None:
    """The recording whose memory a tensor is in: it will be there in later calls, too."""
    owner = _memory.get(tensor.untyped_storage().data_ptr())
    return owner if owner is not None and not owner.retired else None


def has_own_memory(result: torch.Tensor, results: Sequence[Any]) -> bool:
    """Whether a result fills its memory and shares it with no other."""
    storage = result.untyped_storage()
    if storage.nbytes() != result.numel() * result.element_size():
        return False
    return not any(other is not result and other.untyped_storage().data_ptr() == storage.data_ptr()
                   for other in _tensors(results))


def follow_stream(device: torch.device) -> None:
    """Let the current stream wait for the one that recordings were last replayed on, where that is another."""
    now = torch_compat.current_stream_number(device)
    before = _streams.get(device)
    if before is None or before[0] != now:
        stream = torch.cuda.current_stream(device)
        if before is not None:
            stream.wait_stream(before[1])
        _streams[device] = now, stream


# Copies


def room_for(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a copy of an input, laid out like it."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def copy_in(copied: dict[int, torch.Tensor], inputs: Sequence[Any]) -> None:
    """Copy inputs to where a recording reads them."""
    targets, sources = [], []
    for at, target in copied.items():
        source = inputs[at]
        if any(step == 0 and size > 1 for size, step in zip(target.shape, target.stride(), strict=True)):
            # Elements that share memory cannot be written one by one.
            target, source = _memory_of(target), _memory_of(source)
        targets.append(target)
        sources.append(source)
    if len(targets) == 1:
        targets[0].copy_(sources[0])
    else:
        torch_compat.copy_all(targets, sources)


def _memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """All memory from a tensor's first element to its last."""
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.as_strided((extent if tensor.numel() else 0,), (1,))


def _tensors(results: Sequence[Any]) -> list[torch.Tensor]:
    return [result for result in results if isinstance(result, torch.Tensor)]


def _first_of_each(results: Sequence[Any]) -> list[int]:
    """Where each object is for the first time: one may be several results."""
    places: dict[int, int] = {}
    for at, result in enumerate(results):
        places.setdefault(id(result) if isinstance(result, torch.Tensor) else -1 - at, at)
    return [at for at in places.values()]
