"""Functions that a transform is applied to: captured on stand-ins for arguments, as graphs that the operation owns.

    grad(lambda w: (x * w).sum())(w)     ->     body_graph_0 = graph(w, x): return ((x * w).sum(),)
                                                differentiated(body_graph_0, (w, x), 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..functional.applied_functions import AppliedFunction
from ..shapes import Symbol
from ..shapes.symnode import expr_of
from .break_reasons import written_name
from .control_flow import add_graph
from .regions import capture_region, make_graph, reached_values, remove
from .signals import GraphBreak
from .torch_calls import run_fake, wrap_result
from .trees import Structure, flatten
from .undecidable import SYMBOLIC
from .values.base import Value
from .values.sequences import TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@dataclass
class TransformBody:
    """A captured function, before the operation that transforms it is part of the graph."""

    graph: Any
    operands: list[torch.fx.Node]
    """What the graph takes: what the stand-ins stand for, then what the function uses besides."""
    results: list[TensorValue]
    """The tensors that the function returns, as it sees them."""
    structure: Structure
    """What is around them."""
    place: torch.fx.Node | None = None
    """The node of the graph, where the operation is part of the graph around it."""

    def examples(self) -> list[Any]:
        """The operands on which the operation is tried."""
        return [node.meta["example_value"] for node in self.operands]


def stand_in(tx: Tracer, leaf: TensorValue, fake: torch.Tensor) -> TensorValue:
    """A tensor of its own for a function to be captured on; a node for it is in the graph until then."""
    node = tx.graph.graph.call_function(torch.ops.aten.alias.default, (leaf.node,))
    node.meta["example_value"] = fake
    value = wrap_result(tx, node, fake)
    assert isinstance(value, TensorValue)
    return value


SUBSCRIPTS_ONLY = ("torch._dynamo._trace_wrapped_higher_order_op", "TransformGetItemToIndex")
"""torch's mode that changes subscripts, and nothing else, around functions of attention masks."""


def refuse_asked(tx: Tracer, title: str, values: Sequence[Value]) -> None:
    """Raise when a class or a mode would be asked about what torch itself does to tensors in a transform."""
    values = [value.realize() for value in values]
    asked = tx.torch_functions
    kinds = [mode.python_type() for mode in asked.asked_modes]
    subscripts_only = all((kind.__module__, kind.__qualname__) == SUBSCRIPTS_ONLY for kind in kinds)
    if asked.concern(tx, values, {}) and (asked.has_overrides or not subscripts_only):
        raise GraphBreak(f"{title} where a class or a mode with a __torch_function__ is asked")


def capture_body(tx: Tracer, title: str, run: Callable[[], Value], leaves: Sequence[TensorValue],
                 stand_ins: Sequence[TensorValue], runs_once: bool = True) -> TransformBody:
    """Capture ``run``, which calls the function on ``stand_ins`` for ``leaves``."""
    refuse_asked(tx, title, leaves)
    places = [value.node for value in stand_ins]
    changes: list[Value] = []

    def run_noting_changes() -> Value:
        result = run()
        changes.extend(tx.effects.changes or ())
        return result

    region = capture_region(tx, title, run_noting_changes, stand_ins, runs_once, places)
    _refuse_kept(tx, title, changes, {*places, *region.nodes})
    results, structure = flatten(tx, region.result)
    refuse_asked(tx, title, results)
    inside = [node.meta["example_value"] for node in region.nodes
              if isinstance(node.meta.get("example_value"), SYMBOLIC)]
    if _symbols(structure) & {symbol for number in inside for symbol in expr_of(number).free_symbols
                              if not tx.shape_env.is_backed(symbol)}:
        raise GraphBreak(f"{title} of a function that returns a number which data decides on")
    besides = [node for node in dict.fromkeys([*region.free, *(result.node for result in results)])
               if node not in places and node not in region.nodes]
    graph = make_graph(tx, region, [*places, *besides], [result.node for result in results])
    _refuse_rules(title, graph)
    remove(tx, places)
    return TransformBody(graph, [*(leaf.node for leaf in leaves), *besides], results, structure)


def _refuse_kept(tx: Tracer, title: str, changes: list[Value], inside: set[torch.fx.Node]) -> None:
    """Raise when something from outside that the function has changed holds a tensor as the function sees it."""
    outside = reached_values([[frame.stack, frame.locals, frame.cells] for frame in tx.frames])
    kept = [value for value in changes if value.source is not None or id(value) in outside]
    if any(_is_made_of(value, inside) for value in reached_values(kept).values()):
        raise GraphBreak(f"{title}: a tensor of the function is kept beyond its call", "return it instead")


def _is_made_of(value: Any, nodes: set[torch.fx.Node]) -> bool:
    """Whether a value is one of these nodes, or a number that is computed from one."""
    node = getattr(value, "node", None)
    if isinstance(node, tuple):  # a number that no node has been made for yet: what is called, and with what
        return any(_is_made_of(operand, nodes) for operand in node[1])
    return node in nodes


def _refuse_rules(title: str, graph: torch.fx.GraphModule) -> None:
    """Raise when the transform would call code of an autograd.Function that nobody has followed."""
    for module in graph.modules():
        for node in module.graph.nodes if isinstance(module, torch.fx.GraphModule) else ():
            if isinstance(node.target, AppliedFunction) and (reason := node.target.why_not_in(title)) is not None:
                raise GraphBreak(f"{title} of {reason}")


def _symbols(structure: Structure) -> frozenset[Symbol]:
    """What the numbers in a structure are made of."""
    if structure[0] == "number":
        return frozenset(structure[1].free_symbols)
    if structure[0] in ("tensor", "constant"):
        return frozenset()
    return frozenset().union(*map(_symbols, structure[2]))


def add_transform(tx: Tracer, title: str, operation: Callable[..., Any], body: TransformBody, *settings: Any) -> \
        tuple[list[Value], torch.fx.Node]:
    """Put the operation that transforms a body into the graph: ``operation(graph, operands, *settings)``.

    Returns the tensors among its results, which come first, and its node.
    """
    results = try_transform(tx, title, operation, [body.graph, body.examples(), *_examples(settings)])
    if body.place is None:
        body.place = add_graph(tx, "body_graph", body.graph)
    node = tx.graph.call(operation, (body.place, tuple(body.operands), *settings), {}, tx.user_frames())
    tx.effects.version += 1
    node.meta["example_value"] = results
    tensors = wrap_result(tx, node, tuple([result for result in results if isinstance(result, torch.Tensor)]))
    assert isinstance(tensors, TupleValue)
    return tensors.items, node


def try_transform(tx: Tracer, title: str, operation: Callable[..., Any], examples: list[Any]) -> Any:
    """What an operation gives for examples; breaks name the transform that it stands for."""
    try:
        return run_fake(tx, operation, title, examples, {})
    except GraphBreak as cause:
        cause.reason = cause.reason.replace(written_name(operation), f"torch.func.{title}")
        raise


def _examples(settings: Sequence[Any]) -> list[Any]:
    return list(torch.fx.map_arg(tuple(settings), lambda node: node.meta["example_value"]))


def argument_numbers(tx: Tracer, value: Value, count: int, title: str) -> int | tuple[int, ...]:
    """``argnums``, counted from the front; breaks for what torch refuses."""
    given = tx.constant_of(value)
    numbers = given if isinstance(given, tuple) else (given,)
    if not numbers or not all(type(number) is int and -count <= number < count for number in numbers):
        raise GraphBreak(f"{title} with argnums={given!r} of {count} arguments")
    wrapped = tuple([number % count for number in numbers])
    if len(set(wrapped)) != len(wrapped):
        raise GraphBreak(f"{title} with argnums={given!r}, some of them twice")
    return wrapped if isinstance(given, tuple) else wrapped[0]
