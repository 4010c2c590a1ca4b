"""Operators, dispatch keys and dispatch modes."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

#: The type of ``torch.ops.aten.add.Tensor`` and its like.
OpOverload = torch._ops.OpOverload

#: The type of operators that take functions: ``torch.ops.higher_order.cond`` and its like.
HigherOrderOperator = torch._ops.HigherOrderOperator

#: Raises, with a message, when a number is false: what assertions in graphs call.
assert_number: OpOverload = torch.ops.aten._assert_scalar.default


class DispatchMode(TorchDispatchMode):
    """Base of our dispatch modes; unlike torch's own base it does not drag in ``torch._dynamo`` when subclassed."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


#: Assigned to ``__torch_function__`` of a tensor subclass, it takes the subclass out of the function protocol.
disabled_torch_function = torch._C._disabled_torch_function_impl


#: The dispatch keys of a tensor: ``dispatch_keys(t).has(key)``. Torch's own function, for guards call it often.
dispatch_keys: Callable[[torch.Tensor], torch._C.DispatchKeySet] = torch._C._dispatch_keys


def dispatch_key_bits(t: torch.Tensor) -> int:
    """The dispatch keys of a tensor as one integer, cheap to compare in a guard.

    >>> dispatch_key_bits(torch.zeros(2)) == dispatch_key_bits(torch.ones(3))
    True
    """
    return torch._C._dispatch_keys(t).raw_repr()


def implementation_address(t: torch.Tensor) -> int:
    """The address of the C++ object behind a tensor."""
    return t._cdata


@functools.cache
def _library() -> ctypes.PyDLL:
    return ctypes.PyDLL(torch._C.__file__)  # a name is looked for in all libraries that it needs


def library_function(name: str) -> Any:
    """A function that torch's shared libraries export, for ctypes; None where they do not."""
    return getattr(_library(), name, None)


def attention_kernel(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
                     dropout: float, is_causal: bool, scale: float | None, enable_gqa: bool) -> int:
    """The number of the kernel that attention takes for these tensors."""
    return torch._fused_sdp_choice(query, key, value, mask, dropout, is_causal, scale=scale, enable_gqa=enable_gqa)


def cuda_library_function(name: str) -> Any:
    """The same for the part of torch that is for CUDA, where there is one."""
    function = library_function(name)
    if function is not None:
        return function
    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cuda.so")
    return getattr(ctypes.PyDLL(path), name, None) if os.path.exists(path) else None


#: ``push_dispatch_mode(mode)`` and ``pop_dispatch_mode()`` are entering and leaving a dispatch mode without the Python
#: bookkeeping of ``with mode:`` (0.8 us instead of 2.2). They must be paired by the caller.
push_dispatch_mode = torch._C._push_on_torch_dispatch_stack


def pop_dispatch_mode() -> None:
    """Undo the last :func:`push_dispatch_mode`."""
    torch._C._pop_torch_dispatch_stack(None)


def top_dispatch_mode() -> Any:
    """The dispatch mode that sees operators first; None when none is entered.

    >>> top_dispatch_mode() is None
    True
    """
    depth = torch._C._len_torch_dispatch_stack()
    return torch._C._get_dispatch_stack_at(depth - 1) if depth else None


def torch_dispatch_stack_length() -> int:
    """How many dispatch modes are entered in this thread."""
    return torch._C._len_torch_dispatch_stack()


@contextmanager
def without_modes() -> Iterator[None]:
    """Operators inside are plain operators on plain tensors: whatever watches or changes them outside does not here."""
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    traced = torch._C._get_tracing_state()
    set_traced: Callable[[Any], None] = torch._C._set_tracing_state  # type: ignore[attr-defined]
    set_traced(None)
    try:
        with torch._C.DisableTorchFunction(), temporarily_clear_interpreter_stack(), _disable_current_modes(), \
                torch.inference_mode(False):
            yield
    finally:
        set_traced(traced)


@contextmanager
def outside_dispatch_modes() -> Iterator[None]:
    """Dispatch modes do not see the operators inside."""
    if not torch._C._len_torch_dispatch_stack():
        yield
        return
    with _disable_current_modes():
        yield


def torch_function_stack_length() -> int:
    """How many function modes (``torch.device`` contexts among them) are entered in this thread."""
    return torch._C._len_torch_function_stack()


def function_mode_devices() -> tuple[torch.device, ...] | None:
    """The devices of the ``torch.device`` contexts that are entered in this thread; None when another function mode is.

    >>> function_mode_devices()
    ()
    """
    from torch.utils._device import DeviceContext

    modes = [torch._C._get_function_stack_at(i) for i in range(torch._C._len_torch_function_stack())]
    if any(type(mode) is not DeviceContext for mode in modes):
        return None
    return tuple([mode.device for mode in modes])


def functorch_active() -> bool:
    """Whether we run inside a transform of ``torch.func`` (vmap, grad, jvp, functionalize).

    >>> functorch_active()
    False
    """
    return torch._C._functorch.peek_interpreter_stack() is not None


#: Context manager: operators called inside prefer kernels and decompositions written in Python.
python_dispatcher = torch._C._EnablePythonDispatcher


def python_dispatcher_enabled() -> bool:
    """Whether we run inside :data:`python_dispatcher`.

    >>> with python_dispatcher():
    ...     python_dispatcher_enabled()
    True
    """
    return torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.PythonDispatcher)


#: Context manager: operators called inside skip ``__torch_dispatch__`` of modes and subclasses.
below_python_key = torch._C._DisableTorchDispatch
#: Context manager: functions called inside skip ``__torch_function__`` of modes and subclasses.
without_torch_function = torch._C.DisableTorchFunction


def operator_name(op: Any) -> str:
    """The full name of an operator, such as ``aten.add.Tensor``.

    >>> operator_name(torch.ops.aten.add.Tensor)
    'aten.add.Tensor'
    """
    return str(op)


def find_operator(space: str, name: str, overload: str) -> OpOverload | None:
    """The operator of a name, if one is registered.

    >>> find_operator("aten", "add", "Tensor")
    <OpOverload(op='aten.add', overload='Tensor')>
    """
    try:
        operator = getattr(getattr(getattr(torch.ops, space), name), overload)
    except AttributeError:
        return None
    return operator if isinstance(operator, OpOverload) else None


def schema_of(op: OpOverload) -> torch._C.FunctionSchema:
    """The declared signature of an operator."""
    return op._schema


def operator_version() -> int:
    """The version of the operators of this torch, which its files of programs say."""
    return torch._C._get_max_operator_version()


def mutates_arguments(op: OpOverload) -> bool:
    """Whether the signature says that the operator writes to an argument."""
    return op._schema.is_mutable


def written_arguments(op: OpOverload) -> tuple[tuple[int, str], ...]:
    """Position and name of each argument that the signature says the operator writes to.

    >>> written_arguments(torch.ops.aten.add_.Tensor), written_arguments(torch.ops.aten.add.Tensor)
    (((0, 'self'),), ())
    """
    return tuple((position, argument.name) for position, argument in enumerate(op._schema.arguments)
                 if argument.alias_info is not None and argument.alias_info.is_write)


def returns_what_it_writes(op: OpOverload) -> bool:
    """Whether an operator returns its first argument, which it has changed: ``add_`` and its like."""
    schema = op._schema
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    given, returned = schema.arguments[0].alias_info, schema.returns[0].alias_info
    return bool(given and returned and given.is_write and given.before_set == returned.before_set)


_DATA_DEPENDENT_TAGS = frozenset({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})


def is_data_dependent(op: OpOverload) -> bool:
    """Whether the operator is marked as having a result, or a result shape, that depends on values.

    >>> is_data_dependent(torch.ops.aten.nonzero.default), is_data_dependent(torch.ops.aten.add.Tensor)
    (True, False)
    """
    return not _DATA_DEPENDENT_TAGS.isdisjoint(op.tags)


# Python has compositions of these, but eager runs kernels of their own, whose results lie otherwise on a GPU.
_NO_COMPOSITIONS = ("aten::upsample_nearest", "aten::_upsample_nearest_exact")


def can_decompose(op: OpOverload) -> bool:
    """Whether the operator is only a composition of others (``linear``, ``reshape``), in eager as well.

    >>> can_decompose(torch.ops.aten.linear.default), can_decompose(torch.ops.aten.upsample_nearest2d.default)
    (True, False)
    """
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    name = op.name()
    if torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
        return True
    return key in op.py_kernels and not name.startswith(_NO_COMPOSITIONS)


def decompose(op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run the composition of an operator for which :func:`can_decompose` holds."""
    return op.decompose(*args, **kwargs)
