"""Collectives of ``torch.distributed``: which operators they are, the groups of processes that talk, and their state.

torch has two kinds. Functions such as ``torch.distributed.all_reduce`` write to what they are given. The operators of
``torch.ops._c10d_functional`` give a new tensor that is *in flight*: its contents are there after ``wait_tensor``,
which returns the same tensor. Graphs have operators only.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .dispatch import OpOverload, schema_of, without_modes

OpOverloadPacket = torch._ops.OpOverloadPacket
_SPACES = frozenset({"_c10d_functional", "_c10d_functional_autograd"})
_NO_STARTS = frozenset({"wait_tensor", "_wrap_tensor_autograd"})

REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
"""The reductions that the operators know by name."""


def is_collective_space(space: str) -> bool:
    """Whether operators of a namespace are collectives."""
    return space in _SPACES


def is_collective(target: Any) -> bool:
    """Whether something is an operator that talks to other processes, or that waits for them."""
    return isinstance(target, OpOverload) and schema_of(target).name.partition("::")[0] in _SPACES


def starts_collective(target: Any) -> bool:
    """Whether an operator begins a collective, which all processes of a group have to begin in the same order."""
    return is_collective(target) and schema_of(target).name.partition("::")[2] not in _NO_STARTS


def waits_for_collective(target: Any) -> bool:
    """Whether an operator waits until what is in flight is there."""
    return is_collective(target) and schema_of(target).name.partition("::")[2] == "wait_tensor"


def group_called(target: Any, args: Sequence[Any]) -> str | None:
    """The name of the group that a call talks to, of an operator or of all overloads of one; None for other calls."""
    if not isinstance(target, (OpOverload, OpOverloadPacket)):
        return None
    space, _, name = str(target).partition(".")
    if space not in _SPACES or name.partition(".")[0] in _NO_STARTS or not args:
        return None
    return str(args[-1])


def collective_operator(name: str) -> Any:
    """An operator by its name, such as ``all_reduce`` or ``wait_tensor``; imports what gives it a meta kernel."""
    with without_modes():
        import torch.distributed._functional_collectives  # noqa: F401
    return getattr(torch.ops._c10d_functional, name)


def wait_for(result: torch.Tensor, *read: torch.Tensor) -> torch.Tensor:
    """Wait for a tensor in flight. ``read`` is what the collective reads until then: arguments keep it as it is."""
    waited: torch.Tensor = _wait()(result)
    return waited


@functools.cache
def _wait() -> Any:
    return torch.ops._c10d_functional.wait_tensor.default


# ---------------------------------------------------------------------------------------------------------------------
# groups


def _module() -> Any:
    return sys.modules["torch.distributed.distributed_c10d"]


@functools.cache
def is_available() -> bool:
    """Whether this torch was built with support for several processes."""
    return torch.distributed.is_available()


@functools.cache
def group_classes() -> tuple[type, ...]:
    """The classes of groups of processes: one, where there are such."""
    return (torch.distributed.ProcessGroup,) if is_available() else ()


@functools.cache
def work_class() -> type:
    """The class of handles of collectives in flight."""
    return torch.distributed.Work


@functools.cache
def reduction_classes() -> frozenset[type]:
    """The classes of ``ReduceOp.SUM`` and its like."""
    return frozenset({type(torch.distributed.ReduceOp.SUM)} if is_available() else ())


def reduction_name(reduction: Any) -> str | None:
    """What operators call a reduction; None for one that they do not have."""
    for name in REDUCTIONS:
        if reduction == getattr(torch.distributed.ReduceOp, name):
            return name.lower()
    return None


@functools.cache
def mesh_class() -> type | None:
    """The class of meshes of devices, whose dimensions are groups."""
    module = sys.modules.get("torch.distributed.device_mesh")
    return getattr(module, "DeviceMesh", None)


def default_group() -> Any:
    """The group of all processes; None where there is none."""
    return _module()._world.default_pg


def group_of_all_ranks() -> Any:
    """The group of all processes; None where there is none, also where nothing of torch.distributed is loaded."""
    return default_group() if "torch.distributed.distributed_c10d" in sys.modules and is_available() else None


def store_of_ranks(group: Any) -> tuple[Any, int, int]:
    """The store that the group of all processes was made with, the rank of this one, and how many there are.

    A connection of its own: one that waits for something is not free for others.
    """
    return _module()._get_default_store().clone(), group.rank(), group.size()


def is_coalescing() -> bool:
    """Whether collectives are put off until the end of a block, to be done together."""
    return bool(_module()._world.pg_coalesce_state)


def group_name(group: Any) -> str:
    """The name under which operators know a group."""
    name: str = _module()._get_process_group_name(group)  # groups written in Python do not know theirs
    return name


def group_of_name(name: str) -> Any:
    """The group that operators know under a name; raises an exception where there is none."""
    return _module()._resolve_process_group(name)


def is_default_group(known: weakref.ref[Any]) -> bool:
    """Whether the group of all processes is still this one."""
    return default_group() is known()


def is_named_group(known: weakref.ref[Any], name: str) -> bool:
    """Whether a name still stands for this group."""
    try:
        return group_of_name(name) is known()
    except Exception:
        return False


def rank_in_group(group: Any, rank: int) -> int:
    """What a process is called in a group; raises an exception where it does not belong to it."""
    number: int = torch.distributed.get_group_rank(group, rank)
    return number


def is_gloo(group: Any) -> bool:
    """Whether a group talks over gloo, which refuses averages and results that are stacks."""
    return str(torch.distributed.get_backend(group)) == "gloo"


def started(names: Sequence[str]) -> list[int]:
    """How many collectives the groups of these names have begun so far."""
    try:
        return [int(group_of_name(name)._get_sequence_number_for_group()) for name in names]
    except Exception:
        return []


def has_started(names: Sequence[str], before: list[int]) -> bool:
    """Whether one of the groups has begun a collective since `started` was asked, as far as can be told."""
    now = started(names)
    return not now or not before or now != before


def finished_work(tensors: Any) -> Any:
    """The handle of a collective that has ended."""
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return torch._C._distributed_c10d._create_work_from_future(future)  # type: ignore[attr-defined]


def public_function(name: str) -> Callable[..., Any] | None:
    """A function of ``torch.distributed`` as a program sees it."""
    function = getattr(torch.distributed, name, None)
    return function if isinstance(function, types.FunctionType) else None
