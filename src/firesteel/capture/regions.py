"""Regions: a piece of the program is captured in place, then its part of the graph is moved to a graph of its own.

    s = sin(x)                                body = graph(x, w):
    y = s * w      the region                     s = sin(x); y = s * w
    ...                              ->           return (y,)

What the region uses from before it, of arguments, closures and parameters alike, becomes an operand. A region must
not change anything that was there before; whoever makes one of a branch or a loop's body relies on that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import torch_compat
from ..records import dataclass
from ..torch_compat.graph_modules import LazyGraphModule
from .global_state import GlobalState
from .signals import GraphBreak, UserRaise
from .undecidable import SYMBOLIC
from .values.base import Value
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer

_TRANSFORMS = "firesteel.functional.transforms"


@dataclass
class Region:
    """A captured region."""

    result: Any
    """What the program computed in it: a Value, or what the caller's function returned."""
    nodes: list[torch.fx.Node]
    """Its nodes, still in the graph around it."""
    memory: set[int] = field(default_factory=set)
    """The storages of tensors that were there before, and of all inputs."""

    @property
    def free(self) -> list[torch.fx.Node]:
        """What its nodes use from before it, in order."""
        inside = set(self.nodes)
        return list(dict.fromkeys(used for node in self.nodes for used in node.all_input_nodes if used not in inside))

    def is_new(self, tensor: TensorValue) -> bool:
        """Whether a tensor is made in the region and is no view of anything from before."""
        return tensor.node in self.nodes and torch_compat.storage_address(tensor.fake) not in self.memory


def _given_back(node: torch.fx.Node) -> bool:
    """Whether a node is a result of a transform, which gives a tensor back as it was (`vmap(lambda x: x)`)."""
    transform = node.args[0] if node.target is getitem else None
    return isinstance(transform, torch.fx.Node) and getattr(transform.target, "__module__", "") == _TRANSFORMS


def capture_region(tx: Tracer, title: str, run: Callable[[], Any], roots: Iterable[Any] = (),
                   runs_once: bool = False, given: Iterable[torch.fx.Node] = ()) -> Region:
    """Run a piece of the program symbolically. ``roots`` are values that it gets, besides those of the frames.

    Raises `GraphBreak` where it has side effects. One that ``runs_once``, whatever becomes of its graph, may change
    Python's objects, as long as they get hold of none of its tensors. Numbers made of ``given`` are the region's own.
    """
    before = set(tx.graph.graph.nodes)
    known = [value for value in tx.tensor_of_fake.values() if isinstance(value, TensorValue)]
    versions = [(value, value.node, torch_compat.version_of(value.fake)) for value in known
                if not value.fake.is_inference()]
    state, modes, checks = GlobalState.current(), len(tx.entered_modes), len(tx.shape_env.checks)
    symbols = set(tx.shape_env.symbols)
    outer, tx.effects.changes = tx.effects.changes, []
    depth = len(tx.frames)
    try:
        result = run()
    except UserRaise as raised:
        raise GraphBreak(f"{title} raises {raised.value.python_type().__name__}") from None
    except GraphBreak as signal:
        if not runs_once:  # it may not be run
            signal.raises = False
        raise
    finally:
        del tx.frames[depth:]
        changes, tx.effects.changes = tx.effects.changes or [], outer
        if outer is not None:
            outer.extend(changes)
    if changes and not runs_once:
        _refuse_changes(tx, title, changes, roots)
    for value, node, version in versions:
        if torch_compat.version_of(value.fake) != version or value.node is not node and not _given_back(value.node):
            raise GraphBreak(f"{title} changes a tensor in place", "compute a new tensor instead")
        value.node = node
    if any(entry.mutated and entry.node not in before for entry in tx.graph.inputs):
        raise GraphBreak(f"{title} changes a tensor in place", "compute a new tensor instead")
    if GlobalState.current() != state or len(tx.entered_modes) != modes:
        raise GraphBreak(f"{title} changes the global state of torch")
    if any(check.expr.free_symbols & symbols for check in tx.shape_env.checks[checks:]):
        raise GraphBreak(f"{title} states something about a value from outside that only data decides")
    nodes = _nodes_of_region(tx, before, set(given))
    if changes and runs_once:
        _refuse_leaks(tx, title, changes, nodes)
    memory = {torch_compat.storage_address(value.fake) for value in known}
    memory |= {torch_compat.storage_address(entry.example) for entry in tx.graph.inputs
               if isinstance(entry.example, torch.Tensor)}
    return Region(result, nodes, memory)


def _nodes_of_region(tx: Tracer, before: set[torch.fx.Node], given: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """Nodes that are new, but for numbers made of others from outside: those may be used again after the region."""
    inside: dict[torch.fx.Node, None] = {}
    for node in tx.graph.graph.nodes:
        if node in before or node.op == "placeholder":
            continue
        # a part of a list of numbers has no example
        number = isinstance(node.meta.get("example_value"), (int, float, *SYMBOLIC)) or \
            (node.target is getitem and "example_value" not in node.meta)
        if number and not any(used in inside or used in given for used in node.all_input_nodes):
            continue
        inside[node] = None
    return list(inside)


def make_graph(tx: Tracer, region: Region, operands: list[torch.fx.Node], results: list[torch.fx.Node],
               cloned: frozenset[int] = frozenset()) -> LazyGraphModule:
    """The graph of a region, whose nodes leave the outer graph. ``cloned``: the positions of results that it copies."""
    graph = torch.fx.Graph()
    new: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in operands:
        placeholder = graph.placeholder(node.name)
        placeholder.meta["example_value"] = node.meta.get("example_value")
        new.setdefault(node, placeholder)
    root = torch.nn.Module()
    for node in region.nodes:
        new[node] = graph.node_copy(node, new.__getitem__)
        if node.op == "get_attr" and str(node.target) in tx.graph.submodules:
            root.add_module(str(node.target), tx.graph.submodules.pop(str(node.target)))
    outputs = []
    for position, node in enumerate(results):
        placeholder = new[node]
        if position in cloned:
            placeholder = graph.call_method("clone", (placeholder,))
            placeholder.meta = dict(node.meta)
        outputs.append(placeholder)
    graph.output(tuple(outputs))
    remove(tx, region.nodes)
    return LazyGraphModule(root, graph, class_name="Body")


def remove(tx: Tracer, nodes: list[torch.fx.Node]) -> None:
    """Take nodes out of the graph, and what is known of numbers through them."""
    gone = set(nodes)
    for node in reversed(nodes):
        tx.graph.graph.erase_node(node)
    numbers = tx.number_nodes
    for expr in [expr for expr, node in numbers.by_expr.items() if node in gone]:
        del numbers.by_expr[expr]
    for symbol in [symbol for symbol, place in numbers.places.items() if place[0] in gone]:
        del numbers.places[symbol]
    for path in [path for path, node in numbers.parts.items() if node in gone or path[0] in gone]:
        del numbers.parts[path]


def _refuse_changes(tx: Tracer, title: str, changes: list[Any], roots: Iterable[Any]) -> None:
    """Raise when one of the changed values existed before the region."""
    if any(value is None for value in changes):
        raise GraphBreak(f"{title} has a side effect, such as printing")
    reached: set[int] | None = None
    for value in changes:
        if value.source is None:
            if reached is None:
                reached = reachable([roots, *([frame.stack, frame.locals, frame.cells] for frame in tx.frames)])
            if id(value) not in reached:
                continue
        raise GraphBreak(f"{title} changes {value.describe()}, which was there before it",
                         "return the new value instead")


def _refuse_leaks(tx: Tracer, title: str, changes: list[Any], nodes: list[torch.fx.Node]) -> None:
    """Raise when something that was there before the region, and outlives it, holds one of its tensors."""
    if any(value is None for value in changes):
        raise GraphBreak(f"{title} has a side effect, such as printing")
    outside = reachable([[frame.stack, frame.locals, frame.cells] for frame in tx.frames])
    kept = [value for value in changes if value.source is not None or id(value) in outside]
    inside = set(nodes)
    held = reached_values(kept).values()
    if any(isinstance(value, TensorValue) and value.node in inside for value in held):
        raise GraphBreak(f"{title}: a tensor of the function is kept beyond its call", "return it instead")


def reachable(roots: Any) -> set[int]:
    """The identities of all values that can be reached from some."""
    return set(reached_values(roots))


def reached_values(roots: Any) -> dict[int, Any]:
    """All values and frames that can be reached from some, by identity."""
    reached: dict[int, Any] = {}
    open_values: list[Any] = [roots]
    while open_values:
        value = open_values.pop()
        if isinstance(value, (list, tuple, set, frozenset)):
            open_values.extend(value)
        elif isinstance(value, dict):
            open_values.extend(value.keys())
            open_values.extend(value.values())
        elif isinstance(value, Value):
            if id(value) in reached:
                continue
            reached[id(value)] = value
            for cls in type(value).__mro__:
                for slot in vars(cls).get("__slots__", ()):
                    if slot not in ("source", "tx", "real", "node", "fake"):
                        open_values.append(getattr(value, slot, None))
            open_values.append(getattr(value, "__dict__", None))
        elif type(value).__name__ == "Frame" and hasattr(value, "stack") and id(value) not in reached:
            reached[id(value)] = value
            open_values.extend((value.stack, value.locals, value.cells))
    return reached
