"""Hooks on gradients that a captured program registers: ``register_hook``, ``retain_grad`` and their like.

A hook is called when backward runs, which is after the graph. So registering it is an effect of the entry: the tensor
becomes a result of the graph, and gets its hook there. A result that others are computed from parts the graph
(decision 27), so its gradient is the whole one, and the hook runs as the program wrote it, whatever it does.

    hidden = x.exp()                        (hidden, loss) = graph(x)
    hidden.register_hook(clip)         ->   hidden.register_hook(clip)
    loss = hidden.sum()                     return loss
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.hooks import RemovableHandle

from .. import torch_compat
from ..functional.applied_functions import pass_hooked
from ..torch_compat import subclasses
from .call_handlers import handles
from .equivalents.module_hooks import several_tensors
from .signals import GraphBreak, SkipFrame
from .torch_calls import call_torch
from .values.base import Value
from .values.constants import ConstantValue
from .values.methods import NativeMethod
from .values.wrapper_tensors import WrapperTensorValue

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .tracer import Tracer
    from .values.tensors import TensorValue


class HookHandle(Value):
    """What registering a hook returns. The hook is registered where the entry makes it."""

    __slots__ = ("tensor", "method", "args", "removed")

    def __init__(self, tensor: TensorValue, method: str, args: list[Value]) -> None:
        super().__init__(None)
        self.tensor = tensor
        self.method = method
        self.args = args
        self.removed = False

    def python_type(self) -> type:
        return RemovableHandle

    def describe(self) -> str:
        return "the handle of a hook"

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "remove":
            return NativeMethod(self, name)
        self.unsupported(f"attribute {name!r}")

    native_methods = True

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        self.removed = True
        tx.effects.forget_built(self)
        return ConstantValue(None)

    def emit(self, code: EntryCode) -> str:
        if self.removed:
            self.unsupported("the use of a hook that is removed again")
        parts = ", ".join(code.value(value) for value in (self.tensor, *self.args))
        return code.assign(self, f"{code.constant(call_method)}({self.method!r}, {parts})")


def call_method(name: str, tensor: torch.Tensor, *args: Any) -> Any:
    """A method of torch's own: what a class has to say about it, it said while the program was captured."""
    with subclasses.DisableSubclasses():
        return getattr(torch.Tensor, name)(tensor, *args)


def register(tx: Tracer, tensor: TensorValue, method: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``tensor.register_hook(hook)``, ``register_post_accumulate_grad_hook(hook)`` or ``retain_grad()``."""
    if kwargs or len(args) != (method != "retain_grad"):
        raise GraphBreak(f"Tensor.{method}() with unusual arguments")
    fake = tensor.fake
    if fake.is_inference() or not fake.requires_grad:
        raise GraphBreak(f"Tensor.{method}() of a tensor that does not require grad")  # which raises
    if not tx.compiler.backend_is_own or tx.compiler.exports:
        raise tensor.break_for_autograd(tx, f"Tensor.{method}() where a backend may compute gradients side by side")
    if isinstance(tensor, WrapperTensorValue) and tensor.source is None:  # the graph returns its parts only
        raise tensor.break_for_autograd(tx, f"Tensor.{method}() of {tensor.describe()}")
    is_leaf = tensor.source is not None and fake.is_leaf
    if method == "register_post_accumulate_grad_hook" and not is_leaf:
        raise GraphBreak(f"Tensor.{method}() of a tensor that is no argument, or no leaf")
    version = torch_compat.version_of(fake)
    if tensor.source is not None and not is_leaf and version:
        raise tensor.break_for_autograd(tx, f"Tensor.{method}() of an argument that was changed in place")
    tx.hooked.append((tensor, version))
    handle = HookHandle(tensor, method, [arg.realize() for arg in args])
    tx.effects.built(handle)
    return ConstantValue(None) if method == "retain_grad" else handle


def check_hooked(tx: Tracer) -> None:
    """At the end of a capture: a change in place behind a hook gives the tensor another history than it had then."""
    for tensor, version in tx.hooked:
        if torch_compat.version_of(tensor.fake) != version:
            raise SkipFrame("a tensor is changed in place behind a hook on its gradient")


@handles(several_tensors)
def break_for_several_tensors(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A module with a full backward hook takes or returns more than one tensor that requires gradients."""
    raise GraphBreak("a full backward hook of a module that takes or returns several tensors which require gradients")


@handles(pass_hooked)
def call_pass_hooked(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """An operation of the graph."""
    return call_torch(tx, pass_hooked, args, kwargs)
