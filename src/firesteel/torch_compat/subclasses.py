"""What torch knows of tensor subclasses: which of them take part in ``__torch_function__``, and their tensors without
their class."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode, get_default_nowrap_functions

from .result_hooks import HooksForGradients, call_hooks_for_gradients
from .tensors import gradient_hooks

disabled_impl: Any = torch._C._disabled_torch_function_impl
"""The ``__torch_function__`` of classes that are treated as plain tensors, such as ``nn.Parameter``."""
default_impl: Any = torch.Tensor.__torch_function__.__func__  # type: ignore[attr-defined]
"""The ``__torch_function__`` of classes that define none: results become instances of the class."""
default_dispatch: Any = torch.Tensor.__torch_dispatch__
make_subclass: Any = torch.Tensor._make_subclass
new_tensor: Any = torch.Tensor.__new__
as_subclass: Any = torch.Tensor.as_subclass
alias_operator: Any = torch.ops.aten.alias.default
DisableSubclasses: Any = torch._C.DisableTorchFunctionSubclass
"""Context manager: ``__torch_function__`` of subclasses is not called, that of modes is."""
DisableAll: Any = torch._C.DisableTorchFunction
"""Context manager: no ``__torch_function__`` is called."""
push_function_mode: Any = torch._C._push_on_torch_function_stack
pop_function_mode: Any = torch._C._pop_torch_function_stack
function_mode_at: Any = torch._C._get_function_stack_at
function_modes: Any = torch._C._len_torch_function_stack
FunctionMode = TorchFunctionMode
nowrap_functions = get_default_nowrap_functions
dispatch_keys_of: Any = torch._C._dispatch_keys


def is_overriding(cls: type) -> bool:
    """Whether torch functions on tensors of this class call its ``__torch_function__``."""
    return getattr(cls, "__torch_function__", disabled_impl) is not disabled_impl


def has_own_dispatch(cls: type) -> bool:
    """Whether operators on tensors of this class call its ``__torch_dispatch__``."""
    return getattr(cls, "__torch_dispatch__", default_dispatch) is not default_dispatch


def has_foreign_hooks(t: torch.Tensor) -> bool:
    """Whether autograd would call hooks of a tensor with None, in backward passes that eager does not come by in."""
    hooks = gradient_hooks(t) if t.requires_grad else None
    return bool(hooks) and type(hooks) is not HooksForGradients


def hooks_for_gradients(t: torch.Tensor) -> None:
    """Hooks that are still to come on a tensor are called for gradients only."""
    with DisableSubclasses():
        if t.requires_grad and not gradient_hooks(t) and type(gradient_hooks(t)) is not HooksForGradients:
            call_hooks_for_gradients(t)


def plain_alias(t: torch.Tensor) -> torch.Tensor:
    """The same elements and the same history as a plain tensor."""
    hooks_for_gradients(t)
    if torch.is_grad_enabled():
        return as_subclass(t, torch.Tensor)  # type: ignore[no-any-return]
    with torch.enable_grad():
        return as_subclass(t, torch.Tensor)  # type: ignore[no-any-return]


def has_hooks(t: torch.Tensor) -> bool:
    """Whether something is to be called with the gradient of a tensor, or keeps it."""
    with DisableSubclasses():
        return bool(t._backward_hooks or t._post_accumulate_grad_hooks or t.retains_grad)  # type: ignore[attr-defined]


def with_class(t: torch.Tensor, cls: Any) -> torch.Tensor:
    """A tensor that nobody else has as one of a class; the same object, with the history that it has."""
    try:
        t.__class__ = cls
    except TypeError:  # the class has slots
        return as_subclass(t, cls)  # type: ignore[no-any-return]
    return t


def own_facts_of(t: torch.Tensor) -> tuple[bool, bool]:
    """What its plain alias does not tell of a tensor: whether it is a leaf, and whether it has hooks."""
    with DisableSubclasses():
        return t.is_leaf, has_foreign_hooks(t)


def facts_of(t: torch.Tensor) -> tuple[Any, ...]:
    """What compiled code relies on of a tensor whose class answers such questions itself."""
    with DisableSubclasses():
        return (tuple(t.shape), t.stride(), t.storage_offset() if t.layout is torch.strided else 0, t.dtype, t.device,
                t.layout, t.requires_grad, t.is_leaf, dispatch_keys_of(t), has_foreign_hooks(t))


def is_parameter(t: torch.Tensor) -> bool:
    """Whether a tensor is one of a module's parameters, by its class or its mark."""
    with DisableSubclasses():
        return isinstance(t, torch.nn.Parameter)
