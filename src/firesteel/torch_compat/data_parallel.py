"""What DistributedDataParallel and `fully_shard` have to do with the module that is being called."""

from __future__ import annotations

import sys
from typing import Any

import torch

_Parallel: Any = None
MODULE_CALL: Any = torch.nn.Module._call_impl
"""What calls hooks of a module and its forward."""


def is_sharded(module: torch.nn.Module) -> bool:
    """Whether `fully_shard` was applied to a module itself: hooks gather its parameters around each call. Not where its
    class calls hooks in a way of its own."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")
    return fsdp is not None and isinstance(module, getattr(fsdp, "FSDPModule", ())) and \
        type(module)._call_impl is MODULE_CALL


def bucket_limits() -> tuple[int, ...] | None:
    """Up to how many bytes of gradients are reduced together: the first ones, and then the following ones.

    None where no module inside of a `DistributedDataParallel` is being called, or its backward reduces nothing.
    """
    global _Parallel
    if _Parallel is None:
        from torch.nn.parallel import DistributedDataParallel

        _Parallel = DistributedDataParallel
    wrapper = _Parallel._active_ddp_module
    if wrapper is None or not wrapper.require_backward_grad_sync:
        return None
    every = getattr(wrapper, "bucket_bytes_cap_list", None)  # since torch 2.13
    if every:
        return tuple(every)
    rest: int = wrapper.bucket_bytes_cap
    if not wrapper.bucket_bytes_cap_default:
        return (rest,)
    import torch.distributed as distributed

    first: int = distributed._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]
    return first, rest


def share_state(module: torch.nn.Module, twin: torch.nn.Module) -> None:
    """Have `fully_shard` and its like know a twin of a module for that module."""
    composable: Any = sys.modules.get("torch.distributed._composable_state")
    if composable is not None and module in (states := composable._module_state_mapping):
        states[twin] = states[module]
