"""``torch.autograd.Function`` in captured code: one operation of the graph.

Forward and backward are executed symbolically first, to see that they have no side effects and only do what capture
knows, and to guard what they read. What they do is then recorded as a single call of ``apply``, which runs both as the
user wrote them. A backward that cannot be followed is left to autograd: such a call only runs on real tensors.
The static methods ``vmap`` and ``jvp`` are not looked at: graphs that transforms work on have no Function with these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..functional.applied_functions import AppliedFunction
from ..shapes import Symbol, eq
from ..shapes.symnode import expr_of
from ..torch_compat.autograd_functions import apply_of_functions
from .call_handlers import handles
from .graph_arguments import to_graph
from .objects import class_member, find_on_class
from .signals import GraphBreak, NotConstant, SkipFrame, UserRaise
from .source import AttrSource
from .torch_calls import run_fake, wrap_result
from .undecidable import SYMBOLIC
from .values.base import Value
from .values.constants import NumberValue
from .values.mappings import DictValue
from .values.objects import ClassValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


class ForwardContext:
    """Stands for ``ctx`` while a forward is looked at."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> Any:
        return getattr(self, "to_save", ())


@handles(apply_of_functions())
def apply(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``MyFunction.apply(*args)``."""
    owner = args[0].realize()
    if not isinstance(owner, ClassValue) or kwargs:
        raise GraphBreak("autograd.Function.apply with keyword arguments")
    cls: Any = owner.cls
    inputs = args[1:]
    if torch.is_inference_mode_enabled() and torch.is_grad_enabled():
        raise SkipFrame("autograd.Function.apply in inference mode with grad mode on: inference tensors get a history",
                        this_call=True)
    if cls in tx.made_classes:
        raise GraphBreak(f"autograd.Function {cls.__name__}, a class made inside of the compiled function",
                         "make the class outside of the compiled function")
    traceable, inner = look_inside(tx, owner, inputs)
    if not traceable:
        tx.untraceable.add(cls)
    pairs = [to_graph(tx, value, keep_numbers=False) for value in inputs]
    target = AppliedFunction(cls, traceable, inner)
    result = run_fake(tx, cls.apply, target.__name__, [fake for _, fake in pairs], {})
    if not _is_modelled(result):
        raise GraphBreak(f"{cls.__name__}.forward returns a {type(result).__name__}, or one among its results")
    node = tx.graph.call(target, tuple(node for node, _ in pairs), {}, tx.user_frames())
    node.meta["example_value"] = result
    tx.effects.version += 1
    return wrap_result(tx, node, result)


def look_inside(tx: Tracer, owner: ClassValue, inputs: list[Value]) -> tuple[bool, tuple[AppliedFunction, ...]]:
    """Execute forward and backward symbolically and forget what they did to the graph.

    Returns False when the backward, which is not needed for that, is nothing that capture can follow; and the
    operations of other Functions that both call.
    """
    cls = owner.cls
    graph = tx.graph.graph
    needs = [isinstance(v := value.realize(), TensorValue) and v.fake.requires_grad for value in inputs]
    last = next(iter(reversed(graph.nodes)), None)
    nodes = {id(value): (value.node, value.fake.shape, _version(value)) for value in tx.tensor_of_fake.values()}
    context = tx.call(tx.python_object(ForwardContext), [TupleValue([tx.constant(need) for need in needs])], {})
    grad_enabled = torch.is_grad_enabled()
    operations = tx.graph.operations
    outer, tx.effects.changes = tx.effects.changes, []
    try:
        torch.set_grad_enabled(False)
        forward = _static(tx, cls, "forward")
        if cls.setup_context is torch.autograd.Function.setup_context:  # type: ignore[attr-defined]
            output = tx.call(forward, [context, *inputs], {})
        else:
            output = tx.call(forward, list(inputs), {})
            tx.call(_static(tx, cls, "setup_context"), [context, TupleValue(list(inputs)), output], {})
        traceable = look_at_backward(tx, cls, context, output.realize())
    except UserRaise:
        raise GraphBreak(f"{cls.__name__}.forward raises an exception") from None
    finally:
        torch.set_grad_enabled(grad_enabled)
        changes, tx.effects.changes = tx.effects.changes, outer
    given = {id(value) for value in _reachable(inputs)}
    if any(value is None or value.source is not None or id(value) in given for value in changes or ()):
        raise GraphBreak(f"{cls.__name__} changes something besides its result")
    for value in tx.tensor_of_fake.values():
        if id(value) not in nodes and value.source is None:
            continue  # made by the function itself
        node, shape, version = nodes.get(id(value)) or (_placeholder(value.node), value.fake.shape, 0)
        if value.fake.shape != shape or _version(value) != version:
            raise GraphBreak(f"{cls.__name__} writes to a tensor in place")
        value.node = node  # an operation that returned the tensor as it was is to be forgotten
    read: set[Symbol] = set()
    inner: list[AppliedFunction] = []
    for node in reversed(list(graph.nodes)):
        if node is last or node.op == "placeholder":
            break
        if isinstance(node.target, AppliedFunction):
            inner.append(node.target)
        for used in node.all_input_nodes:
            read |= _symbols(used.meta.get("example_value"))
        if not isinstance(node.meta.get("example_value"), (int, float)):  # numbers may be used again
            graph.erase_node(node)
    tx.graph.operations = operations
    for value in _reachable(inputs):
        if isinstance(value, TensorValue):
            read -= set().union(*(_symbols(size) for size in (*value.fake.shape, *value.fake.stride())))
        elif isinstance(value, NumberValue):
            read -= value.expr.free_symbols
    for symbol in sorted(read & tx.symbols.sources.keys(), key=str):
        # found by the function itself, who will find it as it is now when the graph is traced again
        hint = tx.shape_env.hint(symbol)
        assert hint is not None
        tx.symbols.decide(eq(symbol, hint))
    return traceable, tuple(inner)


def _version(value: TensorValue) -> int:
    """How often a tensor has been written to. Those made in inference mode do not count."""
    return -1 if value.fake.is_inference() else torch_compat.version_of(value.fake)


def _placeholder(node: torch.fx.Node) -> torch.fx.Node:
    """The input of the graph that operations returned as it was."""
    while node.op != "placeholder":
        node = node.all_input_nodes[0]
    return node


def _is_modelled(result: Any) -> bool:
    """Whether what a function returned is made of tensors and constants: other objects are not to be made again."""
    if type(result) is tuple:
        return all(_is_modelled(item) for item in result)
    return result is None or isinstance(result, (torch.Tensor, bool, int, float, str, *SYMBOLIC))


def _symbols(number: Any) -> frozenset[Symbol]:
    return frozenset(expr_of(number).free_symbols) if isinstance(number, SYMBOLIC) else frozenset()


def look_at_backward(tx: Tracer, cls: type, context: Value, output: Value) -> bool:
    """Execute the backward for gradients like the results; False when it cannot be followed."""
    outputs = output.items if isinstance(output, TupleValue) else [output]
    try:
        backward = _static(tx, cls, "backward")
        grads: list[Value] = []
        for value in outputs:
            value = value.realize()
            known = isinstance(value, TensorValue) and (
                value.fake.dtype.is_floating_point or value.fake.dtype.is_complex)
            grads.append(tx.call_torch(torch.ones_like, [value], {}) if known else tx.constant(None))
        if any(isinstance(gradient, TensorValue) for gradient in grads):  # otherwise autograd never asks for it
            tx.call(backward, [context, *grads], {})
    except (UserRaise, GraphBreak, NotConstant):
        return False
    return True


def _reachable(values: list[Value]) -> Iterator[Value]:
    for value in values:
        value = value.realize()
        yield value
        if isinstance(value, (TupleValue, ListValue)):
            yield from _reachable(value.items or [])
        elif isinstance(value, DictValue):
            yield from _reachable([item for _, item in value.items.values()])


def _static(tx: Tracer, cls: type, name: str) -> Value:
    raw, owner = find_on_class(cls, name)
    if owner is None or not isinstance(raw, staticmethod):
        raise GraphBreak(f"{cls.__name__}.{name} is no static method")
    source = class_member(tx, cls, name, raw, owner).source
    assert source is not None
    return tx.wrap(raw.__func__, AttrSource(source, "__func__"))
