"""``torch.autograd.Function.apply``: a method in Python until torch 2.14, one in C since."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

_IN_C = not isinstance(torch.autograd.Function.__dict__["apply"], classmethod)
_RAW: Any = torch.autograd.Function.__dict__["apply"]


def apply_of_functions() -> Any:
    """What `MyFunction.apply` calls with the class and the arguments: a Python function, or a descriptor of C's."""
    return _RAW if _IN_C else _RAW.__func__


def function_applied_by(method: Any) -> type[torch.autograd.Function] | None:
    """The class that `method` is the ``apply`` of, as a bound method of Python's or of C's; None for anything else.

    >>> class Double(torch.autograd.Function):
    ...     pass
    >>> function_applied_by(Double.apply), function_applied_by(len), function_applied_by([].append)
    (<class 'firesteel.torch_compat.autograd_functions.Double'>, None, None)
    """
    owner = getattr(method, "__self__", None)
    if not isinstance(owner, type) or not issubclass(owner, torch.autograd.Function):
        return None
    return owner if method == _RAW.__get__(None, owner) else None


def _apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
    return _RAW.__get__(None, cls)(*args, **kwargs)


def quick_apply(function: type[torch.autograd.Function]) -> Callable[..., Any]:
    """``function.apply``, for calls outside of transforms with tensors that are no wrappers left behind by one: it does
    not look for these.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    >>> quick_apply(Double)(torch.ones(2))
    tensor([2., 2.])
    """
    inherited: Any = function if _IN_C else super(torch.autograd.Function, function)
    apply: Callable[..., Any] = inherited.apply
    return apply


def code_of_apply() -> types.CodeType:
    """The code that a frame runs below which a function's forward is, inside of :func:`apply_in_python`."""
    code: types.CodeType = (_apply if _IN_C else _RAW.__func__).__code__
    return code


@contextlib.contextmanager
def apply_in_python() -> Iterator[None]:
    """``apply`` leaves a frame on Python's stack."""
    if not _IN_C:
        yield
        return
    function: Any = torch.autograd.Function
    function.apply = classmethod(_apply)
    try:
        yield
    finally:
        function.apply = _RAW


BACKWARD_HOOK_FUNCTION: Any = torch.nn.modules._functions.BackwardHookFunction  # type: ignore[attr-defined]
"""What tensors pass through before and behind a module with backward hooks: it returns its arguments."""
