"""The fake kernels that users register for their operators, and the context that these ask for sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from torch._library.custom_ops import OPDEFS
from torch._library.fake_impl import set_ctx_getter
from torch._library.simple_registry import singleton


def fake_kernel(op: Any) -> Callable[..., Any] | None:
    """What ``torch.library.register_fake`` registered for an operator."""
    entry = singleton.find(op._schema.name)
    kernel: Callable[..., Any] | None = entry.fake_impl.kernel
    return kernel


def fake_function(op: Any) -> Any:
    """The function of the program's that is the fake kernel of an operator, without what torch puts around it."""
    own = getattr(OPDEFS.get(op._schema.name), "_abstract_fn", None)
    if own is not None:
        return own
    kernel: Any = fake_kernel(op)
    function = getattr(kernel, "func", kernel)
    if not inspect.isfunction(function):
        return function
    return inspect.getclosurevars(function).nonlocals.get("func", function)


def answering_get_ctx(context: Any) -> AbstractContextManager[None]:
    """While entered, ``torch.library.get_ctx()`` is `context`."""
    manager: AbstractContextManager[None] = set_ctx_getter(lambda: context)
    return manager
