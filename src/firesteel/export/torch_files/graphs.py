"""Graphs of torch's files as graphs of saved programs.

Operators that own graphs become firesteel's. Those that only say how a graph is run are written into the graph around:

    wrap_with_set_grad_enabled(False, submod_1, x)      is_grad_enabled = torch.is_grad_enabled()
                                                        set_grad_enabled(False)
                                                        ... submod_1 ...
                                                        set_grad_enabled(is_grad_enabled)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..saving.schema import SavedGraph, SavedNode
from .arguments import field as field_of
from .arguments import names_in, only, read_argument, renamed
from .metadata import Sizes, modules_around, values_of
from .operators import HIGHER_ORDER, Operator, target_of

GETITEM = "operator.getitem"


@dataclass
class GraphWriter:
    """A graph of a saved program that is being made."""

    sizes: Sizes
    nodes: list[SavedNode] = field(default_factory=list)
    subgraphs: dict[str, SavedGraph] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Any] = field(default_factory=dict)
    """What stands for the names of the file in this graph, where it is not a node of the same name."""
    taken: set[str] = field(default_factory=set)
    origin: tuple[str | None, list[Any]] = None, []

    def fresh(self, name: str) -> str:
        """A name that no node has yet."""
        number, result = 0, name
        while result in self.taken:
            number += 1
            result = f"{name}_{number}"
        self.taken.add(result)
        return result

    def add(self, op: str, name: str, target: str, args: list[Any], kwargs: dict[str, Any], value: Any) -> Any:
        """A node, and the value that stands for it. Names are changed where a node cannot have them."""
        trace, modules = self.origin if op == "call_function" else (None, [])
        self.nodes.append(SavedNode(op, name, target, args, kwargs, value, trace, modules))
        return {"node": name}

    def call(self, name: str, target: str, args: list[Any], value: Any, kwargs: dict[str, Any] | None = None) -> Any:
        """A call under a fresh name."""
        return self.add("call_function", self.fresh(name), target, args, kwargs or {}, value)

    def subgraph(self, name: str, graph: SavedGraph) -> Any:
        """The node of a graph."""
        name = self.fresh(name)
        self.subgraphs[name] = graph
        return self.add("get_attr", name, name, [], {}, {"value": None})

    def argument(self, data: Any) -> Any:
        """An argument in terms of this graph's nodes."""
        return renamed(read_argument(data), self.places)


def read_graph(data: Any, sizes: Sizes) -> SavedGraph:
    """A graph. Raises ValueError."""
    return read_outermost(data, sizes, [])[0]


def read_outermost(data: Any, sizes: Sizes, names: list[str]) -> tuple[SavedGraph, dict[str, str]]:
    """The graph of a program, and the nodes that stand for names of the file where they are called otherwise.

    ``names`` are those of the inputs. Raises ValueError.
    """
    writer = GraphWriter(sizes, known=values_of(data, sizes))
    for position, given in enumerate(field_of(data, "inputs", list)):
        value = read_argument(given)
        name = names_in(value)[0] if names_in(value) else names[position]
        known = writer.known.get(name, {"value": value if not names_in(value) else None})
        writer.taken.add(name)
        writer.add("placeholder", name, name, [], {}, known)
    results = add_operations(writer, data)
    writer.add("output", writer.fresh("output"), "output", [{"tuple": results}], {}, {"value": None})
    places = {name: value["node"] for name, value in writer.places.items()
              if isinstance(value, dict) and "node" in value}
    return SavedGraph(writer.nodes, writer.subgraphs), places


def add_operations(writer: GraphWriter, data: Any) -> list[Any]:
    """Add the operations of a graph to another; its results."""
    nodes = field_of(data, "nodes", list)
    used = set(_names_used(nodes)) | {name for given in field_of(data, "outputs", list)
                                      for name in names_in(read_argument(given))}
    for node in nodes:
        try:
            _add_node(writer, node, used)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ValueError(f"node {str(node.get('name'))[:80]}: {error}") from error
    return [writer.argument(given) for given in data["outputs"]]


def _names_used(nodes: list[Any]) -> list[str]:
    names = []
    for node in nodes:
        for given in field_of(node, "inputs", list):
            kind, content = only(given["arg"], "argument")
            if kind not in ("as_graph", "as_operator"):
                names += names_in(read_argument({kind: content}))
    return names


def _add_node(writer: GraphWriter, node: Any, used: set[str]) -> None:
    metadata = node.get("metadata") or {}
    trace = metadata.get("stack_trace")
    writer.origin = (trace if isinstance(trace, str) else None, modules_around(metadata))
    operator = target_of(field_of(node, "target", str))
    if operator.higher_order is not None:
        results = HIGHER_ORDER[operator.higher_order](writer, node)
        outputs = field_of(node, "outputs", list)
        for output, result in zip(outputs, results, strict=len(outputs) == len(results)):
            for name in names_in(read_argument(output)):
                writer.places[name] = result
        return
    args, kwargs = _arguments(writer, operator, node["inputs"])
    outputs = field_of(node, "outputs", list)
    name = str(node.get("name") or _first_name(outputs) or operator.name)
    if len(outputs) == 1 and "as_tensors" not in outputs[0] and "as_none" not in outputs[0]:
        single = names_in(read_argument(outputs[0]))[0]
        known = writer.known.get(single, {"value": None})
        writer.places[single] = writer.call(single, operator.target, args, known, kwargs)
        return
    known, items = _several(writer, outputs)
    call = writer.call(name, operator.target, args, known, kwargs)
    _add_items(writer, call, items, used)


def _first_name(outputs: list[Any]) -> str | None:
    names = [name for output in outputs for name in names_in(read_argument(output))]
    return names[0] if len(names) == 1 else None


def _several(writer: GraphWriter, outputs: list[Any]) -> tuple[Any, Any]:
    """What is known of several results, and their names, nested as they are."""
    if not outputs or (len(outputs) == 1 and "as_none" in outputs[0]):
        return {"value": None}, []
    values = [read_argument(output) for output in outputs]
    if len(outputs) == 1:
        values = values[0]
    return {"list" if len(outputs) == 1 else "tuple": [_known(writer, value) for value in values]}, values


def _known(writer: GraphWriter, value: Any) -> Any:
    if isinstance(value, list):
        return {"list": [_known(writer, item) for item in value]}
    names = names_in(value)
    return writer.known.get(names[0], {"value": None}) if names else {"value": None}


def _add_items(writer: GraphWriter, call: Any, items: list[Any], used: set[str]) -> None:
    """Nodes for those items of a result that are used."""
    for position, item in enumerate(items):
        if not used.intersection(names_in(item)):
            continue
        known = _known(writer, item)
        name = "getitem" if isinstance(item, list) else item["node"]
        node = writer.call(name, GETITEM, [call, position], known)
        if isinstance(item, list):
            _add_items(writer, node, item, used)
        else:
            writer.places[name] = node


def _arguments(writer: GraphWriter, operator: Operator, inputs: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for given in inputs:
        value, name = writer.argument(given["arg"]), str(given.get("name"))
        if operator.is_positional(name, given.get("kind")):
            args.append(value)
        else:
            kwargs[name] = value
    return args, kwargs
