"""Tensors spread over processes (``torch.distributed.tensor.DTensor``), and tensors in flight that eager code holds.

What torch does with a DTensor is Python around operators on the part that each process has, so that tracing goes
through it. Two things in it are not made for that, and are answered here while a mode that traces is active:

- eager puts what is in flight into an ``AsyncCollectiveTensor``, which waits when it is used; traced, it is waited for
  (``_are_we_tracing()``);
- rows of a table that another process has are remembered in a buffer that eager's and traced calls share: what is
  traced gets a buffer of its own.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from .collectives import group_name
from .dispatch import outside_dispatch_modes

_FUNCTIONAL = "torch.distributed._functional_collectives"
_PLACEMENTS = "torch.distributed.tensor.placement_types"


def tracing_mode() -> Any:
    """The mode that traces what runs here; None in eager code."""
    for position in range(torch._C._len_torch_dispatch_stack()):
        mode: Any = torch._C._get_dispatch_stack_at(position)
        if hasattr(mode, "mask_buffers"):
            return mode
    return None


def in_flight_class() -> type | None:
    """The class of tensors that wait for a collective when they are used."""
    return getattr(sys.modules.get(_FUNCTIONAL), "AsyncCollectiveTensor", None)


def is_in_flight(tensor: Any) -> bool:
    """Whether a tensor waits for a collective when it is used."""
    kind: Any = type(tensor)
    return kind is not torch.Tensor and kind is in_flight_class()


def waited(tensor: Any) -> Any:
    """The plain tensor that something in flight becomes, once it is there; other tensors as they are."""
    if not is_in_flight(tensor):
        return tensor
    if not tensor.requires_grad:
        with outside_dispatch_modes():
            return tensor.trigger_wait()
    with torch.enable_grad():
        return _Waited.apply(tensor)  # type: ignore[no-untyped-call]


class _Waited(torch.autograd.Function):
    """From a tensor in flight that requires grad to the plain one, on the same memory."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        with outside_dispatch_modes():
            return tensor.trigger_wait().detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def tensor_class() -> type | None:
    """The class of tensors that are spread over processes."""
    return getattr(sys.modules.get("torch.distributed.tensor._api"), "DTensor", None)


def is_spread(tensor: Any) -> bool:
    """Whether a tensor is spread over processes."""
    kind = tensor_class()
    return kind is not None and type(tensor) is kind


def placement_class(kind: type) -> bool:
    """Whether objects of a class say how tensors are spread, and are nothing more than what they say."""
    module = sys.modules.get(_PLACEMENTS)
    return module is not None and kind.__module__ == _PLACEMENTS and \
        kind in (module.Shard, module.Replicate, module.Partial, getattr(module, "_StridedShard", None))


def has_mask(tensor: Any) -> bool:
    """Whether a tensor is a table's rows that still have to be masked: what with is not part of the tensor."""
    return is_spread(tensor) and not all(placement_class(type(placement)) for placement in tensor.placements)


def same_mesh(one: Any, other: Any) -> bool:
    """Whether two meshes of devices are the same processes, which talk in the same groups."""
    if one is other:
        return True
    try:
        groups = [[group_name(group) for group in mesh.get_all_groups()] for mesh in (one, other)]
        return bool(one == other) and groups[0] == groups[1] and one.get_coordinate() == other.get_coordinate()
    except Exception:  # groups that are gone
        return False


def is_mesh(value: Any) -> bool:
    """Whether something is a mesh of devices."""
    kind = getattr(sys.modules.get("torch.distributed.device_mesh"), "DeviceMesh", None)
    return kind is not None and isinstance(value, kind)


# ---------------------------------------------------------------------------------------------------------------------
# what is answered while tracing


@functools.cache
def prepare() -> None:
    """Have torch's code for such tensors know when it is traced. Called before the first is."""
    functional: Any = sys.modules.get(_FUNCTIONAL)
    if functional is not None and hasattr(functional, "is_torchdynamo_compiling"):
        functional.is_torchdynamo_compiling = _or_traced(functional.is_torchdynamo_compiling)
    placements = sys.modules.get(_PLACEMENTS)
    buffer: Any = getattr(placements, "MaskBuffer", None)
    if buffer is not None:
        buffer.data = _member("data", None)
        buffer.refcount = _member("refcount", 0)


def _or_traced(asked: Callable[[], bool]) -> Callable[[], bool]:
    def is_compiling() -> bool:
        return tracing_mode() is not None or asked()

    return is_compiling


def _member(name: str, default: Any) -> property:
    """An attribute of buffers of masks that is another one in each trace."""
    def read(self: Any) -> Any:
        return _table(self).get(name, default)

    def write(self: Any, value: Any) -> None:
        _table(self)[name] = value

    return property(read, write)


def _table(buffer: Any) -> dict[str, Any]:
    mode = tracing_mode()
    if mode is None:
        return vars(buffer)
    table: dict[str, Any] = mode.mask_buffers.setdefault(id(buffer), (buffer, {}))[1]
    return table
