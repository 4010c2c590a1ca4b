"""PyTorch's global state during capture: grad mode, autocast and the like are changed for real, recorded in the graph,
and restored when the capture ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..compiling_flag import is_compiling
from .call_handlers import handles
from .signals import GraphBreak
from .values.base import Value
from .values.constants import ConstantValue
from .values.opaque import OpaqueValue
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


ALWAYS_GUARDED = torch_compat.guarded_state_getters()


def _setter(function: Any) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        plain = [tx.constant_of(arg) for arg in args]
        named = {key: tx.constant_of(value) for key, value in kwargs.items()}
        result = tx.fold(function, plain, named)
        leaves = function is torch.autocast_decrement_nesting
        tx.graph.call(torch_compat.leave_autocast_block if leaves else function, tuple(plain), named, tx.user_frames())
        tx.effects.version += 1
        tx.touched_state[function.__name__] = function
        return result

    return call


def _getter(function: Any) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        plain = [tx.constant_of(arg) for arg in args]
        result = tx.fold(function, plain, {key: tx.constant_of(value) for key, value in kwargs.items()})
        if function not in ALWAYS_GUARDED and not tx.touched_state and result.is_constant():
            tx.guard(None, "global state", "{k[0]}(*{k[1]}) == {k[2]}", (function, tuple(plain), result.as_constant()))
        return result

    return call


def _register(functions: Any, make: Callable[[Any], Any]) -> None:
    for function in functions:
        handles(function)(make(function))


_register(torch_compat.state_setters(), _setter)
_register(torch_compat.state_getters(), _getter)


def _constant(value: Any) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return ConstantValue(value)

    return call


for _function in torch_compat.always_true_while_compiling():
    _register([_function], lambda f: _constant(True))
for _function in torch_compat.always_false_while_compiling():
    _register([_function], lambda f: _constant(False))


def _is_exporting(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return ConstantValue(tx.compiler.exports)


for _function in torch_compat.true_while_exporting():
    _register([_function], lambda f: _is_exporting)


def _overloaded(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``has_torch_function``: only tensor subclasses and objects with __torch_function__ count."""
    from .values.sequences import SequenceValue

    queue = list(args)
    while queue:
        value = queue.pop().realize()
        if isinstance(value, SequenceValue):
            queue.extend(value.elements(tx))
        elif isinstance(value, OpaqueValue) and isinstance(value.real, torch.Tensor):
            raise GraphBreak("a tensor subclass with __torch_function__")
        elif isinstance(value, SubclassTensorValue) and value.asks_class(tx) or \
                not isinstance(value, (ConstantValue, TensorValue)) and \
                hasattr(value.python_type(), "__torch_function__"):
            return ConstantValue(True)
    # beside the program's own, capture only runs under function modes of torch.device
    return ConstantValue(bool(tx.torch_functions.asked_modes))


_register(torch_compat.torch_function_checks(), lambda f: _overloaded)


@handles(torch.is_tensor)
def call_is_tensor(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    value = args[0].realize()
    return ConstantValue(issubclass(value.python_type(), torch.Tensor))


def _breaking(reason: str) -> Any:
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        raise GraphBreak(reason)

    return call


_register(torch_compat.rng_state_functions(), lambda f: _breaking(f"{f.__name__}() changes or reads the random state"))
handles(is_compiling)(lambda tx, args, kwargs: ConstantValue(True))
_register(torch_compat.graph_break_functions(), lambda f: _breaking("graph_break() was called"))
