"""``torch.autograd.Function`` in captured code: one operation of the graph.

The forward is executed symbolically first, to see that it has no side effects and only does what capture knows, and to
guard what it reads. What it does is then recorded as a single call of ``apply``, which runs forward and backward as the
user wrote them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from .call_handlers import PYTHON_HANDLERS
from .objects import class_member, find_on_class
from .signals import GraphBreak, UserRaise
from .source import AttrSource
from .torch_calls import run_fake, to_graph, wrap_result
from .values.base import Value
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


class AppliedFunction:
    """The operation that the graph calls."""

    def __init__(self, cls: type) -> None:
        self.function = cls
        self.__name__ = f"{cls.__name__}_apply"
        self.__qualname__ = self.__name__
        self.__module__ = cls.__module__

    def __call__(self, *args: Any) -> Any:
        return self.function.apply(*args)  # type: ignore[attr-defined]


def apply(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """``MyFunction.apply(*args)``."""
    owner = args[0].realize()
    if not isinstance(owner, ClassValue) or kwargs:
        raise GraphBreak("autograd.Function.apply with keyword arguments")
    cls, inputs = owner.cls, args[1:]
    look_at_forward(tx, owner, inputs)
    pairs = [to_graph(tx, value, keep_numbers=False) for value in inputs]
    target = AppliedFunction(cls)
    result = run_fake(tx, target, target.__name__, [fake for _, fake in pairs], {})
    node = tx.graph.call(target, tuple(node for node, _ in pairs), {}, tx.user_frames())
    node.meta["example_value"] = result
    tx.effects.version += 1
    return wrap_result(tx, node, result)


def look_at_forward(tx: Tracer, owner: ClassValue, inputs: list[Value]) -> None:
    """Execute the forward symbolically and forget what it did to the graph."""
    cls = owner.cls
    graph = tx.graph.graph
    last = next(iter(reversed(graph.nodes)), None)
    nodes = {id(value): (value, value.node, value.fake.shape) for value in tx.tensor_of_fake.values()}
    needs = [isinstance(v := value.realize(), TensorValue) and v.fake.requires_grad for value in inputs]
    context = tx.call(tx.python_object(ForwardContext), [TupleValue([tx.constant(need) for need in needs])], {})
    grad_enabled = torch.is_grad_enabled()
    operations = tx.graph.operations
    outer, tx.effects.changes = tx.effects.changes, []
    try:
        torch.set_grad_enabled(False)
        forward = _static(tx, cls, "forward")
        if cls.setup_context is torch.autograd.Function.setup_context:  # type: ignore[attr-defined]
            tx.call(forward, [context, *inputs], {})
        else:
            output = tx.call(forward, list(inputs), {})
            tx.call(_static(tx, cls, "setup_context"), [context, TupleValue(list(inputs)), output], {})
    except UserRaise:
        raise GraphBreak(f"{cls.__name__}.forward raises an exception") from None
    finally:
        torch.set_grad_enabled(grad_enabled)
        changes, tx.effects.changes = tx.effects.changes, outer
    given = {id(value) for value in _reachable(inputs)}
    if any(value is None or value.source is not None or id(value) in given for value in changes or ()):
        raise GraphBreak(f"{cls.__name__}.forward changes something besides its result")
    for value, node, shape in nodes.values():
        if value.node is not node or value.fake.shape != shape:
            raise GraphBreak(f"{cls.__name__}.forward writes to a tensor in place")
    for node in reversed(list(graph.nodes)):
        if node is last or node.op == "placeholder":
            break
        if not isinstance(node.meta.get("example_value"), (int, float)):  # numbers may be used again
            graph.erase_node(node)
    tx.graph.operations = operations


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


PYTHON_HANDLERS[torch.autograd.Function.apply.__func__] = apply  # type: ignore[attr-defined]
