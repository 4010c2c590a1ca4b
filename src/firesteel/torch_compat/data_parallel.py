"""What DistributedDataParallel is about to do with the gradients of the module that is being called."""

from __future__ import annotations

from typing import Any

_Parallel: Any = None


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
