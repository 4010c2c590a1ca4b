"""``loss.backward()``, ``torch.autograd.backward`` and ``torch.autograd.grad`` in captured code.

Fake tensors have autograd's own records, so they are asked which leaves a loss depends on. The graph gets one operation
that computes gradients of these leaves. Adding them to ``.grad`` is then ordinary captured code: an attribute that is
set, or an addition in place.

    loss.backward()    ->    g0, g1 = leaf_gradients([loss], None, [weight, bias])
                             weight.grad = g0
                             bias.grad.add_(g1)
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from ..torch_compat import subclasses
from .call_handlers import handles
from .signals import GraphBreak
from .source import AttrSource
from .torch_calls import call_torch
from .values.base import Value
from .values.constants import ConstantValue
from .values.sequences import ListValue, TupleValue
from .values.subclass_tensors import SubclassTensorValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .frame import Frame
    from .tracer import Tracer

NONE = ConstantValue(None)
ASKING = ("register_hook", "retain_grad")
HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks", "retains_grad")


def backward(tx: Tracer, tensor: TensorValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``tensor.backward(...)``."""
    named = _named(args, kwargs, ("gradient", "retain_graph", "create_graph", "inputs"), "Tensor.backward")
    return run_backward(tx, tensor, named.get("gradient", NONE), named)


@handles(torch.autograd.backward)
def call_backward(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.autograd.backward(...)``."""
    names = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
    named = _named(args, kwargs, names, "torch.autograd.backward")
    if not _is_none(named.get("grad_variables", NONE)):
        raise GraphBreak("torch.autograd.backward with grad_variables", "use grad_tensors")
    return run_backward(tx, named["tensors"], named.get("grad_tensors", NONE), named)


def run_backward(tx: Tracer, outputs: Value, gradients: Value, named: dict[str, Value]) -> Value:
    """The gradients of all leaves, or of those in ``inputs``, are added to their ``.grad``."""
    from ..autodiff.gradients import leaf_gradients

    tensors = _tensors(tx, outputs, "backward() from")
    given = NONE if _is_none(gradients) else TupleValue(_sequence(tx, gradients))
    retain, create = (tx.constant_of(named.get(name, NONE)) for name in ("retain_graph", "create_graph"))
    leaves, hidden = leaves_of(tx, tensors)
    if hidden or outside_between(tx, tensors, []):
        raise GraphBreak("backward() goes on outside of the compiled function: one of its arguments is no leaf",
                         "call backward() where the whole computation is inside, or outside of the compiled function")
    inputs = named.get("inputs", NONE)
    only = not _is_none(inputs)
    if not only and ends_without_leaf(tensors):
        raise GraphBreak("backward() goes through a view that was made in inference mode, and frees what leads there")
    if only:
        leaves = _tensors(tx, inputs, "backward() with inputs")
        if any(not leaf.fake.is_leaf for leaf in leaves) or len({id(leaf) for leaf in leaves}) != len(leaves):
            raise GraphBreak("backward() with inputs that are no leaves, or with the same one twice")
        if not leaves:
            raise GraphBreak("backward() with no inputs")
    for leaf in leaves:
        guard_hooks(tx, leaf)
    if create and not torch.is_grad_enabled():
        raise GraphBreak("backward(create_graph=True) where grad mode is off")
    with quiet(tx):
        computed = call_torch(tx, leaf_gradients, [
            TupleValue(list(tensors)), given, TupleValue(list(leaves)), tx.constant(retain), tx.constant(bool(create)),
            tx.constant(only)], {})
    for leaf, gradient in zip(leaves, _sequence(tx, computed), strict=True):
        if not _is_none(gradient):
            accumulate(tx, leaf, gradient, bool(create))
    return ConstantValue(None)


def accumulate(tx: Tracer, leaf: TensorValue, gradient: Value, create: bool) -> None:
    """Add to ``leaf.grad`` as autograd does: in place, unless the sum must be differentiable itself."""
    present = leaf.get_attr(tx, "grad").realize()
    if _is_none(present):
        leaf.set_attr(tx, "grad", gradient)
    elif not isinstance(present, TensorValue):
        raise GraphBreak(f".grad is {present.describe()}")
    elif create:
        leaf.set_attr(tx, "grad", tx.call_torch("add", [present, gradient], {}))
    elif present.fake.requires_grad:
        raise GraphBreak("backward() adds to a gradient that needs a gradient itself")
    else:
        tx.call_torch("add_", [present, gradient], {})


@handles(torch.autograd.grad)
def call_grad(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``torch.autograd.grad(...)``: an operation of the graph as it is."""
    names = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
             "is_grads_batched", "materialize_grads")
    named = _named(args, kwargs, names, "torch.autograd.grad")
    outputs = _tensors(tx, named["outputs"], "torch.autograd.grad of")
    inputs = _tensors(tx, named["inputs"], "torch.autograd.grad with respect to")
    if "is_grads_batched" in named and tx.truth(named["is_grads_batched"]):
        raise GraphBreak("torch.autograd.grad with is_grads_batched")
    hidden = leaves_of(tx, outputs)[1]
    if (hidden and (len(inputs) != 1 or hidden != leaves_of(tx, inputs)[1])) or outside_between(tx, outputs, inputs):
        raise GraphBreak("torch.autograd.grad goes on outside of the compiled function: one argument is no leaf",
                         "make the whole computation part of the compiled function")
    for tensor in inputs:
        guard_hooks(tx, tensor)
    plain = {"outputs": TupleValue(list(outputs)), "inputs": TupleValue(list(inputs))}
    with quiet(tx):
        return call_torch(tx, torch.autograd.grad, [], {**named, **plain})


# ---------------------------------------------------------------------------------------------------------------------
# what autograd knows


def leaves_of(tx: Tracer, tensors: list[TensorValue]) -> tuple[list[TensorValue], frozenset[int]]:
    """The leaves that tensors depend on, and those that stand for a history outside of the captured program."""
    from ..autodiff.gradients import history

    if tx.hooked:
        raise GraphBreak("backward() behind a hook on a gradient, which it may call")
    leaves: dict[int, TensorValue] = {}
    hidden = set()
    fakes = [t.fake for t in tensors if t.fake.is_leaf and t.fake.requires_grad]
    for node in history([t.fake for t in tensors]):
        if hasattr(node, "variable"):
            fakes.append(node.variable)
        elif (cls := getattr(type(node), "_forward_cls", None)) in tx.untraceable:
            raise GraphBreak(f"{cls.__name__}.backward is Python that cannot be followed")
    for fake in fakes:
        leaf = tx.tensor_of_fake.get(id(fake))
        if leaf is None:
            hidden.add(id(fake))
        else:
            leaves.setdefault(id(leaf), leaf)
    return list(leaves.values()), frozenset(hidden)


def ends_without_leaf(tensors: list[TensorValue]) -> bool:
    """Whether a part of the history leads to no leaf: gradients of leaves would leave it out."""
    from ..autodiff.gradients import history

    return any(not hasattr(node, "variable") and all(following is None for following, _ in node.next_functions)
               for node in history([t.fake for t in tensors]))


def outside_between(tx: Tracer, outputs: list[TensorValue], inputs: list[TensorValue]) -> bool:
    """Whether outputs depend on arguments with a history, such as views of ``inputs``: a graph does not know it."""
    from ..autodiff.gradients import history

    known = [entry.example for entry in tx.graph.inputs]
    arguments = {fake.grad_fn for fake in known if isinstance(fake, torch.Tensor) and fake.grad_fn is not None}
    ends = [t.fake for t in inputs] if len(inputs) == 1 else []  # one of several may be between the outputs and another
    return bool(arguments) and not arguments.isdisjoint(history([t.fake for t in outputs], ends))


def hooked_later(frame: Frame, index: int) -> str | None:
    """The name of a local tensor that code behind an instruction registers a hook on, if it is used in the graph."""
    instructions = frame.decoded.instructions[index + 1:]
    for loaded, following in itertools.pairwise(instructions):
        if following.argval in ASKING and following.op in ("LOAD_METHOD", "LOAD_ATTR") \
                and loaded.op in ("LOAD_FAST", "LOAD_FAST_CHECK"):
            value = frame.locals.get(loaded.argval)
            if isinstance(value, TensorValue) and value.has_uses_in_history:
                return str(loaded.argval)
    return None


def guard_hooks(tx: Tracer, tensor: TensorValue) -> None:
    """Rely on a tensor from outside having no hooks: they would be called by real gradients only."""
    if tensor.source is None:
        return
    if isinstance(tensor, SubclassTensorValue):
        if subclasses.has_hooks(tensor.real):
            raise GraphBreak("backward() calls a hook of a tensor", "remove the hook, or accept the break")
        tx.guard(tensor.source, "hooks", "not {k[0]}({0})", (subclasses.has_hooks,))
        return
    for name in HOOKS:
        if getattr(tensor.real, name, None):
            raise GraphBreak("backward() calls a hook of a tensor", "remove the hook, or accept the break")
        tx.guard(AttrSource(tensor.source, name), "hooks", "not {0}")


@contextmanager
def quiet(tx: Tracer) -> Iterator[None]:
    """Run autograd on fakes. Its operators were checked in the forward pass; warnings come when the graph runs."""
    late, tx.fake.before_late_error = tx.fake.before_late_error, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        tx.fake.before_late_error = late


# ---------------------------------------------------------------------------------------------------------------------
# arguments


def _named(args: list[Value], kwargs: dict[str, Value], names: tuple[str, ...], what: str) -> dict[str, Value]:
    named = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or set(named) - set(names) or len(named) != len(args) + len(kwargs):
        raise GraphBreak(f"{what} with these arguments")
    return named


def _is_none(value: Value) -> bool:
    value = value.realize()
    return isinstance(value, ConstantValue) and value.value is None


def _sequence(tx: Tracer, value: Value) -> list[Value]:
    value = value.realize()
    return [item.realize() for item in tx.to_list(value)] if isinstance(value, (TupleValue, ListValue)) else [value]


def _tensors(tx: Tracer, value: Value, what: str) -> list[TensorValue]:
    value = value.realize()
    items = [value] if isinstance(value, TensorValue) else [item.realize() for item in tx.to_list(value)]
    tensors = [item for item in items if isinstance(item, TensorValue)]
    if len(tensors) != len(items):
        raise GraphBreak(f"{what} something that is no tensor")
    return tensors
