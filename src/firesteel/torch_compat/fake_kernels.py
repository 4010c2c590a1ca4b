"""The fake kernels that users register for their operators, and the context that these ask for sizes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch._library.fake_impl import set_ctx_getter
from torch._library.simple_registry import singleton


def fake_kernel(op: Any) -> Callable[..., Any] | None:
    """What ``torch.library.register_fake`` registered for an operator."""
    entry = singleton.find(op._schema.name)
    kernel: Callable[..., Any] | None = entry.fake_impl.kernel
    return kernel


def answering_get_ctx(context: Any) -> AbstractContextManager[None]:
    """While entered, ``torch.library.get_ctx()`` is `context`."""
    manager: AbstractContextManager[None] = set_ctx_getter(lambda: context)
    return manager
