"""What an entry does around its graph so that the graph may raise: an index out of range, a singular matrix.

The unit then runs again from its start as plain Python, which gives the effects that come before the failing operation,
the handlers around it and the user's own traceback. All the graph itself may have changed until then are tensors and
random generators; those are put back first. Tensors that are too large to be kept, or whose autograd history has
changed, are not: then the exception goes to the caller as it is. So it does where an operation that raises half-way
changes a large tensor; that operation is no part of the graph if something is to be done before it or in a handler.
What only an assertion of ours raises is nothing for the caller, and neither is what the program may handle. Compiled
graphs write when nothing can raise any more; what runs as captured keeps tensors of any size then (`keep_large`). A
program whose graph has begun a collective does not run again: other processes have begun the same ones, and no more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..devices import KINDS, DeviceKind
from ..fake.tensor import FakeTensor
from ..shapes.symnode import hint_of
from .waiting_errors import name_function

if TYPE_CHECKING:
    from ..capture.entry_code import EntryCode
    from ..capture.graph import GraphInput

MAX_KEPT_BYTES = 1 << 20
PUT_BACK_ALWAYS = "put_back_always"
"""In ``meta`` of inputs: what runs the graph as captured puts them back, however large they are."""
RandomState = list[tuple[DeviceKind, torch.Tensor]]


class FailingGraph:
    """Generates the lines before the graph and those that undo its work."""

    def __init__(self, inputs: list[GraphInput], draws_random: bool, code: EntryCode, backend_is_own: bool,
                 groups: tuple[str, ...] = (), name: str = "") -> None:
        """``groups``: the names of the groups of processes that the graph talks to; ``name`` is the function's."""
        self.code = code
        self.groups = groups
        self.name = name
        self.draws_random = draws_random
        self.uncounted = any(entry.uncounted for entry in inputs)
        kept = _to_keep(inputs, backend_is_own)
        # ``t_``, ``unsqueeze_``
        changes_layouts = any(entry.changes_layout or not entry.has_its_layout() for entry in kept)
        self.keep: Callable[..., Any] = keep_with_layouts if changes_layouts else keep
        self.put_back: Callable[..., None] = put_back_with_layouts if changes_layouts else put_back
        nodes = {entry.node for entry in kept}
        memories = {_memory(entry) for entry in kept}
        lost = [entry for entry in inputs if entry.mutated and entry.node not in nodes
                and (entry.at_risk or _memory(entry) not in memories)]
        self.may_be_unrepeatable = self.uncounted or any(entry.half_done_for_good for entry in inputs)
        self.cannot_tell = not backend_is_own and any(
            entry.uncounted and entry.node not in nodes or entry.half_done_for_good for entry in inputs)
        self.kept = "".join(f"{code.source(entry.source)}, " for entry in kept)
        self.histories = "".join(f"{code.source(entry.source)}.grad_fn, " for entry in kept if not restorable(entry))
        version = code.constant(torch_compat.version_of) if lost else ""
        self.versions = "".join(f"{version}({code.source(entry.source)}), " for entry in lost)

    def preparation(self) -> list[str]:
        lines = []
        if self.groups:
            lines.append(f"_fs_started = {self.code.constant(torch_compat.started)}({self.groups!r})")
        if self.kept:
            lines.append(f"_fs_kept = {self.code.constant(self.keep)}({self.kept})")
        if self.histories:
            lines.append(f"_fs_histories = ({self.histories})")
        if self.versions:
            lines.append(f"_fs_versions = ({self.versions})")
        if self.draws_random:
            lines.append(f"_fs_random = {self.code.constant(random_state)}()")
        return lines

    def undoing(self) -> list[str]:
        lines = []
        if self.cannot_tell:
            return ["raise"]
        if self.groups:
            has_started = self.code.constant(torch_compat.has_started)
            named = f"{self.code.constant(name_function)}(_fs_error, {self.name!r}, {self.groups!r})"
            lines += [f"if {has_started}({self.groups!r}, _fs_started):", f"    {named}", "    raise"]
        if self.may_be_unrepeatable:
            lines.append(f"if {self.code.constant(is_unrepeatable)}(_fs_error): raise")
        if self.versions:
            lines.append(f"if ({self.versions}) != _fs_versions: raise")
        if self.histories:
            lines.append(f"if ({self.histories}) != _fs_histories: raise")
        if self.kept:
            lines.append(f"{self.code.constant(self.put_back)}(_fs_kept, {self.kept})")
        if self.draws_random:
            lines.append(f"{self.code.constant(restore_random_state)}(_fs_random)")
        return lines


def keep_large(inputs: list[GraphInput], backend_is_own: bool) -> None:
    """Have tensors put back whatever their size, because the program must go on when the graph raises."""
    changed = [entry for entry in inputs if (entry.at_risk or entry.silently_at_risk or entry.half_done)
               and restorable_at_risk(entry) and not entry.changes_layout and entry.has_its_layout()]
    if sum(bytes_of(entry) for entry in changed) > MAX_KEPT_BYTES:
        for entry in changed:
            entry.node.meta[PUT_BACK_ALWAYS] = True
            entry.must_restore = entry.must_restore or not backend_is_own


def _to_keep(inputs: list[GraphInput], backend_is_own: bool) -> list[GraphInput]:
    """The inputs that are copied before the graph runs."""
    # our own backends write uncounted ones when nothing can raise any more, or put them back (`backends.as_captured`)
    kept = [entry for entry in inputs if (entry.at_risk or entry.uncounted and not backend_is_own)
            and restorable_at_risk(entry)]
    if sum(bytes_of(entry) for entry in kept) > MAX_KEPT_BYTES:
        kept = [entry for entry in kept if entry.must_restore]
    room = MAX_KEPT_BYTES - sum(bytes_of(entry) for entry in kept)
    memories = {_memory(entry) for entry in kept}
    for entry in inputs:
        half_done = entry.half_done and not entry.at_risk and 0 not in entry.example.stride()
        # Views of one memory have one count of changes, which does not say which of them has changed.
        has_kept_alias = memories and entry.mutated and not entry.at_risk and _memory(entry) in memories
        if (half_done or has_kept_alias) and restorable(entry):
            room -= bytes_of(entry)
            if room >= 0:
                kept.append(entry)
    return kept


def _memory(entry: GraphInput) -> int:
    return entry.example.storage_key if type(entry.example) is FakeTensor else id(entry.example)


def restorable(entry: GraphInput) -> bool:
    """Whether a change in place can be undone, that is whether no autograd history changed with it."""
    return entry.is_restorable()


def restorable_at_risk(entry: GraphInput) -> bool:
    """Whether a change in place can be undone after an error, also where its history changes behind what may raise."""
    return entry.is_restorable() or entry.at_risk and not entry.lost_history


def can_keep(entry: GraphInput) -> bool:
    """Whether a copy of an input can be made before the graph and written back."""
    return restorable(entry) and bytes_of(entry) <= MAX_KEPT_BYTES


def bytes_of(entry: GraphInput) -> int:
    """The size of an input tensor as it is now."""
    return int(hint_of(entry.example.numel())) * entry.example.element_size()


Kept = tuple[list[int | None], torch.Tensor | list[torch.Tensor]]
"""The versions of tensors, where they have one, and their contents: one by one, or all in the rows of one tensor."""


def keep(*tensors: torch.Tensor) -> Kept:
    """Copies of tensors that the graph is going to change."""
    versions = [None if tensor.is_inference() else torch_compat.version_of(tensor) for tensor in tensors]
    first = tensors[0]
    if len(tensors) > 2 and all(
            tensor.dtype is first.dtype and tensor.shape == first.shape and tensor.device == first.device
            for tensor in tensors):
        # Such as the counters of a network's layers: one operator for all.
        with torch.no_grad():
            return versions, torch.stack(tensors)
    return versions, [tensor.detach().clone() for tensor in tensors]


def put_back(kept: Kept, *tensors: torch.Tensor) -> None:
    """Undo the changes."""
    with torch.no_grad():
        for copy, tensor in zip(kept[1], tensors, strict=True):
            # An operation that raises half-way is not counted, so the version says nothing.
            tensor.copy_(copy)
    for version, tensor in zip(kept[0], tensors, strict=True):
        if version is not None:
            torch_compat.set_versions((tensor,), (version,))


Layouts = list[tuple[torch.Size, tuple[int, ...], int | torch.SymInt]]


def keep_with_layouts(*tensors: torch.Tensor) -> tuple[Layouts, Kept]:
    """The same where the graph changes sizes and strides too."""
    return [(tensor.shape, tensor.stride(), tensor.storage_offset()) for tensor in tensors], keep(*tensors)


def put_back_with_layouts(kept: tuple[Layouts, Kept], *tensors: torch.Tensor) -> None:
    """Undo the changes."""
    with torch.no_grad():
        for layout, tensor in zip(kept[0], tensors, strict=True):
            tensor.as_strided_(*layout)
    put_back(kept[1], *tensors)


_UNREPEATABLE = "_firesteel_unrepeatable"


def mark_unrepeatable(error: BaseException) -> None:
    """Say that what raised an error has changed tensors that could not be put back."""
    setattr(error, _UNREPEATABLE, True)


def is_unrepeatable(error: BaseException) -> bool:
    """Whether the program must not run again after an error. It is the user's from here on, so the mark goes."""
    return vars(error).pop(_UNREPEATABLE, False) is True


def random_state() -> RandomState:
    """The state of the generator of each kind of device that is in use."""
    return [(kind, state) for kind in KINDS.values() if (state := kind.random_state()) is not None]


def restore_random_state(state: RandomState) -> None:
    """Let all generators go on from where they were."""
    for kind, numbers in state:
        kind.set_random_state(numbers)
