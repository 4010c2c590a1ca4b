"""CUDA graphs: the launches of a compiled function are recorded once and replayed with one call (reduce-overhead).

A replay reads and writes the memory that was recorded, so for each call there has to be a recording that fits:
- parameters and what another recording made, such as what forward saved for backward, are read where they are; so are
  other inputs as long as they stay there. A call in which such an input lies elsewhere needs another recording, in
  which it is copied first. Inputs that the function changes have to stay where they are.
- results stay in the memory of the recording. While anybody still holds one of the last replay, that recording is not
  replayed: another one is made, up to `RECORDINGS`, or results are copied out from then on where that is cheaper.
Where none fits and none can be made the function runs as it does without CUDA graphs, which is always right. Recordings
of a function share memory, see `recording.Stack`. `FIRESTEEL_CUDAGRAPHS=0` turns recording off.

In training, forward's recording keeps what it saves in its own memory, and backward's recording reads it there. What
is saved is free again when backward has run, or when autograd lets go of it. Gradients are handed out in backward's
memory: when ``.grad`` still holds them in the next backward, another recording is used, whose gradients autograd adds.

Forward and backward share a stack, so that backward works in the memory that forward has worked in. A forward cannot be
replayed then while gradients are held. A program in which that would keep anything from being replayed that could be in
stacks of their own gets those, once and for good: see `GraphedFunction._part`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx

from .. import config, torch_compat
from ..devices import kind_of
from ..functional.graph import FreshTensor, FunctionalGraph, InputAlias, SameAs, ViewLayout
from ..kernels.ir import ExternCall
from ..kernels.plan import KernelPlan
from ..locks import new_rlock
from ..logs import log
from .parted_graph import REPLAY, LeftOutFailed, PartedFunction, Run
from .recordable_parts import launch_cost, waits
from .recording import SMALL, Recording, ResultOwnership, Stack, copy_in, has_own_memory, owner_of, record, room_for
from .trials import Trial

RECORDINGS = 4
"""Recordings of one function for the same sizes, all of which can be in use at once."""
ATTEMPTS = 12
"""How often a function is recorded for the same sizes before it is left alone."""
PAID = 32
"""After so many replays a recording has paid: that it does not fit any more is no reason against the next one."""
MOVES = 3
"""How often a backward is recorded anew above what is held before forward and backward do not share memory any more."""
SIZES = 16
"""Different sizes that a function is recorded for."""
SEEN = 256
"""Different sizes that are remembered: those that come again are recorded, those that grow with every call are not."""
PRODUCTS = {"mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "linear", "matmul",
            "_scaled_mm", "_int_mm"}
"""Operators of ATen that call cuBLAS."""
COPY, BYTES = 4.0, 1.5e6
"""What things cost in microseconds: a copy; bytes copied in one."""

_lock = new_rlock()


def graphed(run: Callable[..., Any], functional: FunctionalGraph, device: torch.device, name: str, takes_list: bool,
            plan: KernelPlan, part_of: Callable[[KernelPlan], Run] | None = None) -> Callable[..., Any]:
    """A compiled function whose launches are recorded; the function itself where that cannot be or does not pay.

    ``part_of`` makes functions of parts of the plan, for functions that can be recorded in parts only. Backward, which
    takes a list, is recorded as a whole or not at all.
    """
    saved = launch_cost(plan.steps)
    reason = _obstacle(functional)
    if reason is None and saved <= REPLAY:
        reason = "it launches so little that a replay would take longer"
    parts = None if part_of is None or takes_list else functools.partial(PartedFunction, plan, device, part_of, name)
    in_parts = None if reason is not None else _obstacle_to_whole(functional, device)
    parted: PartedFunction | None = None
    if in_parts is not None and parts is not None:
        parted = parts()
        saved = parted.saved()
    if in_parts is not None and saved <= 0 or in_parts is not None and parted is None:
        reason = in_parts
    if reason is not None:
        log("fallbacks", "%s is not recorded as a CUDA graph: %s", name, reason)
        return run
    if parted is not None:
        parted.say()
    products = any(isinstance(step, ExternCall) and _is_product(step) for step in plan.steps)
    function = GraphedFunction(run, functional, device, name, takes_list, saved, products)
    function.parted, function.parts = parted, parts
    return function


@dataclass
class _Sizes:
    """What is known about calls with certain sizes."""

    calls: int = 0
    addresses: list[int] = field(default_factory=list)
    """Where the inputs were in the last call."""
    recordings: list[Recording] = field(default_factory=list)
    moving: set[int] = field(default_factory=set)
    """Inputs that are copied because they do not stay in one place."""
    attempts: int = 0
    replays: int = 0
    recorded_at: int = 0
    """How many replays there were when it was last recorded."""
    off: bool = False
    tried: bool = False
    trial: Trial | None = None
    """Whether replays are faster than calls without, while that is being measured."""


class GraphedFunction:
    """A compiled function whose launches are recorded."""

    def __init__(self, run: Callable[..., tuple[Any, ...]], functional: FunctionalGraph, device: torch.device,
                 name: str, takes_list: bool, saved: float, products: bool = False) -> None:
        """``saved``: the microseconds that launching takes without a recording. ``products``: it calls cuBLAS."""
        self.run = run
        self.products = products
        self.name = name
        self.device = device
        self.takes_list = takes_list
        self.saved = saved
        self.changed = frozenset(change.index for change in functional.mutated
                                 if functional.inputs[change.index].example.device == device)
        self.sizes: dict[Any, _Sizes] = {}
        self.static = not any(isinstance(entry.example, torch.SymInt | torch.SymFloat) or _is_symbolic(entry.example)
                              for entry in functional.inputs)
        self.tensors = [at for at, entry in enumerate(functional.inputs)
                        if isinstance(entry.example, torch.Tensor) and entry.example.device == device]
        """Inputs on the device. Others are for parts that are not recorded, which take them as they are."""
        self.parted: PartedFunction | None = None
        self.parts: Callable[[], PartedFunction] | None = None
        """Makes the parts, in case that it cannot be recorded as a whole after all."""
        self.data: frozenset[int] = frozenset()
        self.kept: list[int] = []
        self.visible: int | None = None
        self.aliases = _aliases(functional)
        self.maker = object()
        """Tells its recordings from others of the same stack."""
        self.stacks = [Stack(), Stack()]
        """Two, so that results of the last call can be held while the other one is used."""
        self.copied_out: set[int] = set()
        """Results that are copied because callers hold them."""
        self.trials = 0
        """How many sizes are being measured."""
        self.off: str | None = None
        self.told = False

    def as_forward(self, visible: int, data: Collection[int]) -> Stack:
        """Say that the first ``visible`` results are for the caller, all others are saved for backward.

        ``data`` are inputs that will be elsewhere in every call. Gives the stack for backward to share.
        """
        self.visible, self.data = visible, frozenset(data) - self.changed
        shared = Stack()
        self.stacks = [shared]  # one, because what is saved would take too much memory twice
        return shared

    def as_backward(self, data: Collection[int], kept: Collection[int], shared: Stack | None) -> None:
        """Say which inputs will be elsewhere in every call, and which forward has saved.

        Those are read where a recording of forward puts them. Without one they would have to be copied, all of them.
        """
        self.data, self.kept = frozenset(data) - self.changed, list(kept)
        self.stacks = [shared or Stack()]

    def __call__(self, *given: Any) -> tuple[Any, ...]:
        if self.off is None and config.cudagraphs:
            inputs: Sequence[Any] = given[0] if self.takes_list else given
            with _lock:
                recording = self._recording(inputs)
                if recording is not None:
                    # What has just been recorded has run in that.
                    if self.trials and not recording.has_run() and (trial := self._trial(recording)) is not None:
                        return self._try(trial, recording, given)
                    results = recording.replay(inputs)
                    if self.takes_list:
                        given[0].clear()
                    return results
        return self.run(*given)

    def _trial(self, recording: Recording) -> Trial | None:
        """The measurement that a replay is to be part of, if there is one."""
        for seen in self.sizes.values():
            if recording in seen.recordings:
                return seen.trial
        return None

    def _try(self, trial: Trial, recording: Recording, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """A call that is measured, with or without the recording. At the end the slower way is given up."""
        results = trial.run(recording.replay, self.run, inputs, self._wait)
        if trial.is_over():
            self.trials -= 1
            for seen in self.sizes.values():
                if seen.trial is trial:
                    seen.trial = None
                    if trial.is_slower():
                        seen.off = True
                        self._drop(seen, seen.recordings)
                        self._say("it is", f"replays of its parts are slower: {trial}")
        return results

    def _recording(self, inputs: Sequence[Any]) -> Recording | None:
        """A recording to replay for these inputs; None for a call without."""
        if torch.cuda.is_current_stream_capturing():
            return None
        key = None if self.static else tuple(
            [(part.shape, part.stride()) if isinstance(part, torch.Tensor) else part for part in inputs])
        seen = self.sizes.get(key)
        if seen is None:
            if len(self.sizes) >= SEEN:
                del self.sizes[next(size for size, other in self.sizes.items() if not other.recordings)]
            seen = self.sizes[key] = _Sizes()
        if seen.off:
            return None
        if self.stacks[0].ended:
            self._leave()
        fitting = []
        for recording in seen.recordings:
            if recording.fits(inputs):
                if any(stack.allows(recording) for stack in self.stacks):
                    seen.replays += 1
                    recording.replayed_at = seen.replays
                    return recording
                fitting.append(recording)
        return self._another(seen, inputs, fitting)

    def _another(self, seen: _Sizes, inputs: Sequence[Any], fitting: list[Recording]) -> Recording | None:
        """A new recording, where there is a reason for one. ``fitting``: some would fit, but results are in use."""
        before, seen.addresses = seen.addresses, [inputs[at].data_ptr() for at in self.tensors]
        seen.calls += 1
        for stack in self.stacks:
            stack.forget_retired()
        if seen.calls == 1:
            return None  # the first call may compile, and shows where inputs are
        if not seen.recordings and sum(1 for other in self.sizes.values() if other.recordings) >= SIZES:
            if not self.told:
                self.told = True
                self._say("calls with other sizes are", f"{SIZES} different sizes were recorded")
            return None
        if any(owner_of(inputs[at]) is None and inputs[at].numel() for at in self.kept):
            return None
        below = self._below(fitting)
        if below and self.takes_list and self.stacks[0].moves < MOVES:
            # It may only have been recorded too early, before a second forward was: now it will be above.
            self.stacks[0].moves += 1
            self._drop(seen, below)
        elif below or self._is_below_gradients():
            self._part()
            if self.takes_list:
                return None  # what forward has saved is in the memory that was given up
            below = fitting
        held = len(fitting) - len(below)
        if held:
            if self._copy_out_from_now(held):
                return None
            if held >= RECORDINGS:
                log("fallbacks", "%s runs without a CUDA graph: results of %d are held", self.name, held)
                return None
        elif seen.recordings and not self._can_follow(seen, inputs):
            return None
        fixed: dict[int, int] = {}
        owners: dict[int, Recording] = {}
        for at, address, earlier in zip(self.tensors, seen.addresses, before, strict=True):
            owner = owner_of(inputs[at])
            if at in self.changed:
                if address != earlier:
                    return None
                fixed[at] = address
            elif at not in seen.moving and (owner is not None or (at not in self.data and (
                    address == earlier or isinstance(inputs[at], torch.nn.Parameter)))):
                fixed[at] = address
            if owner is not None and at in fixed:
                owners[at] = owner
        copied = [at for at in self.tensors if at not in fixed]
        reason = self._too_dear(seen, inputs, copied)
        if reason is not None:
            seen.off = True
            self._drop(seen, seen.recordings)
            self._say("it is", reason)
            return None
        seen.moving.update(at for at in copied if at not in self.data)
        stack = next((stack for stack in self.stacks if not stack.held()), self.stacks[0])
        try:
            recording = self._record(inputs, fixed, copied, owners, stack)
        except LeftOutFailed as error:
            assert error.__cause__ is not None
            raise error.__cause__ from None
        except Exception as error:
            if self.parted is None and self.parts is not None:
                self.parted = self.parts()
                log("fallbacks", "%s is recorded in parts: %s: %s", self.name, type(error).__name__, error)
                return None
            self.off = f"{type(error).__name__}: {error}"
            for known in self.sizes.values():
                self._drop(known, known.recordings)
            self._say("it is", self.off)
            return None
        stack.recordings.append(recording)
        if recording.retired:
            return recording  # for this call
        seen.recordings.append(recording)
        if recording.parted and self.visible is None and not seen.tried:
            seen.tried, seen.trial = True, Trial()
            self.trials += 1
        return recording

    def _below(self, fitting: list[Recording]) -> list[Recording]:
        """The recordings that only those of other functions in the same stack keep from being replayed."""
        stack = self.stacks[0]
        if all(recording.maker is self.maker for recording in stack.recordings):
            return []
        return [recording for recording in fitting if stack.allows(recording, self.maker)]

    def _is_below_gradients(self) -> bool:
        """Whether a recording of forward would now be made above gradients that are held.

        In later steps they would be held, too, and it would be replayed instead of the one below them: what is saved
        would take memory twice.
        """
        return self.visible is not None and any(
            recording.maker is not self.maker for stack in self.stacks for recording in stack.held())

    def _part(self) -> None:
        """Let forward and backward have stacks of their own from now on, and be recorded again.

        What is held of the recordings so far stays right, because none of them is replayed any more.
        """
        log("kernels", "%s: CUDA graphs of forward and backward do not share memory from now on, because results of "
            "one are held while the other runs", self.name)
        self._wait()
        self.stacks[0].end()
        self._leave()

    def _leave(self) -> None:
        """Begin anew with a stack of one's own, after the one that was shared has ended."""
        self.stacks = [Stack()]
        for seen in self.sizes.values():
            seen.recordings = [recording for recording in seen.recordings if not recording.retired]

    def _copy_out_from_now(self, count: int) -> bool:
        """Whether results that are held will be copied out, so that the recordings there are will do.

        Small ones are, and large ones when a second recording does not do either. In training all are, because another
        recording would also take the memory of all that is saved.
        """
        if self.takes_list:
            return False
        shared = set()
        for recording in self._own([recording for stack in self.stacks for recording in stack.held()]):
            in_use = recording.held()
            if self.visible is None or all(at < self.visible for at in in_use):
                shared |= {at for at in in_use
                           if recording.ownership[at] is ResultOwnership.FRESH and recording.can_copy(at)
                           and (self.visible is not None or count > 1 or _bytes(recording.results[at]) <= SMALL)}
        if shared:
            log("kernels", "%s: results %s of CUDA graphs are copied from now on, because they are held", self.name,
                sorted(shared))
        self.copied_out |= shared
        for recording in self._own([recording for stack in self.stacks for recording in stack.recordings]):
            for at in shared:
                if recording.can_copy(at):
                    recording.ownership[at] = ResultOwnership.COPY
        return bool(shared)

    def _own(self, recordings: Sequence[Recording]) -> list[Recording]:
        return [recording for recording in recordings if recording.maker is self.maker]

    def _can_follow(self, seen: _Sizes, inputs: Sequence[Any]) -> bool:
        """Inputs are elsewhere than in all recordings: whether there should be another one."""
        self._drop(seen, [recording for recording in seen.recordings if recording.is_stale()])
        if not seen.recordings:
            return True
        nearest = min(seen.recordings, key=lambda recording: len(recording.moved(inputs)))
        moved = nearest.moved(inputs)
        lent = nearest.owned.intersection(moved)
        moving = {at for at in moved if at not in lent and at not in self.changed
                  and not isinstance(inputs[at], torch.nn.Parameter)}
        if moving:
            seen.moving |= moving
            self._drop(seen, [recording for recording in seen.recordings if moving & set(recording.positions)])
            return True
        if any(owner_of(inputs[at]) is None for at in lent):
            return False  # what comes from another function's recording was made without one this time
        # Backward has one for each recording of forward, and others while gradients are held.
        if len(seen.recordings) < (2 * RECORDINGS if self.takes_list else RECORDINGS):
            return True
        oldest = min(seen.recordings, key=lambda recording: recording.replayed_at)
        if self.takes_list or not oldest.is_free() or seen.replays - oldest.replayed_at < PAID:
            return False
        self._drop(seen, [oldest])  # such as that of a cache which a server has done with
        return True

    def _too_dear(self, seen: _Sizes, inputs: Sequence[Any], copied: list[int]) -> str | None:
        """Why another recording would not pay."""
        seen.attempts = 1 if seen.replays - seen.recorded_at >= PAID else seen.attempts + 1
        seen.recorded_at = seen.replays
        if seen.attempts > ATTEMPTS:
            return f"it was recorded {ATTEMPTS} times already, and inputs are elsewhere again"
        size = sum(_bytes(inputs[at]) for at in copied)
        if REPLAY + COPY * len(copied) + size / BYTES > self.saved:
            return f"{len(copied)} inputs with {size} bytes would have to be copied in every call"
        shared = {torch_compat.storage_address(inputs[at]) for at in self.changed}
        if any(torch_compat.storage_address(inputs[at]) in shared for at in copied):
            return "an input shares memory with another one that is changed"
        return None

    def _record(self, inputs: Sequence[Any], fixed: dict[int, int], copied: list[int],
                owners: dict[int, Recording], stack: Stack) -> Recording:
        targets = {at: room_for(inputs[at]) for at in copied}
        given = [targets.get(at, part) for at, part in enumerate(inputs)]
        memory = {torch_compat.storage_address(given[at]) for at in self.tensors}
        graph: Any
        if self.parted is not None:
            if targets:
                copy_in(targets, inputs)
            graph, results = self.parted.record(given, inputs, stack, self.products)
        else:
            graph, results = record(self.run, [given] if self.takes_list else given, self.device, stack, self.products)
        del given
        for at in self.aliases:
            results[at] = None
        shares = any(isinstance(result, torch.Tensor) and torch_compat.storage_address(result) in memory
                     for result in results)
        if shares and self.parted is None:
            raise ValueError("a result shares memory with an input")
        ownership = [self._ownership(at, results) for at in range(len(results))]
        log("kernels", "%s is recorded as a CUDA graph: %d inputs are copied, %d results", self.name, len(copied),
            sum(owns is ResultOwnership.COPY for owns in ownership))
        recording = Recording(graph, self.device, fixed, targets, owners, results, ownership, self.aliases, self.maker,
                              self.parted is not None)
        if shares:  # the call has run: its results are those of the recording
            self.off = "a result shares memory with an input"
            recording.retire()
            self._say("it is", self.off)
        return recording

    def _ownership(self, at: int, results: Sequence[Any]) -> ResultOwnership:
        result = results[at]
        if not isinstance(result, torch.Tensor):
            return ResultOwnership.OWN
        if self.visible is not None and at >= self.visible:
            return ResultOwnership.OWN
        wanted = at in self.copied_out or (self.visible is not None and _bytes(result) <= SMALL)
        return ResultOwnership.COPY if wanted and has_own_memory(result, results) else ResultOwnership.FRESH

    def _drop(self, seen: _Sizes, recordings: Sequence[Recording]) -> None:
        if not recordings:
            return
        self._wait()
        for recording in recordings:
            recording.retire()
        seen.recordings = [recording for recording in seen.recordings if not recording.retired]
        for stack in self.stacks:
            for recording in stack.recordings:
                if recording.is_stale():  # backward's, which read what is gone
                    recording.retire()
            stack.forget_retired()

    def _wait(self) -> None:
        """Let replays end before their graphs are given up."""
        kind_of(self.device).synchronize(self.device)

    def _say(self, what: str, reason: str) -> None:
        log("fallbacks", "%s: %s not recorded as a CUDA graph: %s", self.name, what, reason)


def _is_product(step: ExternCall) -> bool:
    namespace, _, name = torch_compat.operator_name(step.target).partition(".")
    return namespace == "aten" and name.split(".")[0] in PRODUCTS


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_symbolic(example: Any) -> bool:
    return isinstance(example, torch.Tensor) and torch_compat.has_symbolic_layout(example)


def _aliases(functional: FunctionalGraph) -> dict[int, tuple[int, ViewLayout | None]]:
    """The results that are inputs or views of inputs: which input, and the view."""
    aliases: dict[int, tuple[int, ViewLayout | None]] = {}
    for at, output in enumerate(functional.outputs):
        if isinstance(output, InputAlias):
            aliases[at] = output.index, output.view
    return aliases


def _can_view(output: InputAlias, functional: FunctionalGraph) -> bool:
    """Whether a view of an input can be made without knowing sizes."""
    view = output.view
    if view is None:
        return True
    numbers = [*view.shape, *view.stride, view.offset]
    return (all(type(number) is int for number in numbers)
            and view.dtype is functional.inputs[output.index].example.dtype)


def _obstacle(functional: FunctionalGraph) -> str | None:
    """Why nothing of a function can be recorded."""
    for output in functional.outputs:
        if isinstance(output, InputAlias) and not _can_view(output, functional):
            return "a result is a view of an input that has to be made anew in every call"
        if isinstance(output, SameAs) and isinstance(functional.outputs[output.index], InputAlias):
            return "a result is an input, twice"
    if functional.state_changes:
        return "it changes global state"
    for node in functional.graph.nodes:
        if node.op == "call_function" and torch_compat.is_collective(node.target):
            return f"{node.target} waits for other processes, which recording would call again"
    return None


def _obstacle_to_whole(functional: FunctionalGraph, device: torch.device) -> str | None:
    """Why a function can be recorded in parts only, if at all."""
    for entry in functional.inputs:
        if isinstance(entry.example, torch.Tensor) and entry.example.device != device:
            return f"input {entry.name} is on the device {entry.example.device}"
    for output in functional.outputs:
        if isinstance(output, FreshTensor) and output.node.meta["val"].device != device:
            return "a result is on another device"
    for node in functional.graph.nodes:
        if node.op != "call_function":
            continue
        if waits(node.target, _index_dtypes(node)):
            return f"{node.target} waits for the GPU"
        if hasattr(node.target, "with_bodies"):
            return f"{node.name} is control flow, which may wait for the GPU"
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.device != device:
            return f"{node.name} is on the device {value.device}"
    return None


def _index_dtypes(node: torch.fx.Node) -> list[torch.dtype]:
    """The dtypes of the indices that are an operator's second argument, if it has some."""
    indices = node.args[1] if len(node.args) > 1 else ()
    return [index.meta["val"].dtype for index in (indices if isinstance(indices, (tuple, list)) else ())
            if isinstance(index, torch.fx.Node) and isinstance(index.meta.get("val"), torch.Tensor)]
