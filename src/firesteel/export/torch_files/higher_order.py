"""The operators of torch's files that own graphs, as operations of saved programs."""

from __future__ import annotations

from typing import Any

from ... import torch_compat
from ..saving.targets import read_target
from .arguments import field, names_in, only, read_argument
from .graphs import GETITEM, GraphWriter, add_operations, read_graph
from .metadata import values_of
from .operators import HIGHER_ORDER, target_of


def _owner(name: str) -> Any:
    def register(function: Any) -> Any:
        HIGHER_ORDER[name] = function
        return function

    return register


def _inputs(node: Any) -> list[Any]:
    """The arguments, all of them by position."""
    return [given["arg"] for given in field(node, "inputs", list)]


def _graph(data: Any) -> Any:
    """The graph that an argument is."""
    kind, content = only(data, "argument")
    if kind != "as_graph":
        raise ValueError(f"an argument of the kind {kind[:40]} where a graph is expected")
    return content


def _own_graph(writer: GraphWriter, data: Any) -> Any:
    """An argument that is a graph, as a graph of the writer's."""
    content = _graph(data)
    graph = read_graph(field(content, "graph", dict), writer.sizes)
    return writer.subgraph(field(content, "name", str), graph)


def _results(writer: GraphWriter, node: Any, call: Any) -> list[Any]:
    """Nodes for the results of a call that returns a tuple."""
    results: list[Any] = []
    for position, output in enumerate(field(node, "outputs", list)):
        names = names_in(read_argument(output))
        if not names:
            results.append(None)
            continue
        results.append(writer.call(names[0], GETITEM, [call, position], writer.known.get(names[0], {"value": None})))
    return results


def _known(writer: GraphWriter, node: Any) -> Any:
    values = []
    for output in node["outputs"]:
        names = names_in(read_argument(output))
        values.append(writer.known.get(names[0], {"value": None}) if names else {"value": None})
    return {"tuple": values}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@_owner("cond")
def _cond(writer: GraphWriter, node: Any) -> list[Any]:
    pred, true_graph, false_graph, *operands = _inputs(node)
    graphs = [_own_graph(writer, graph) for graph in (true_graph, false_graph)]
    given = _as_list(writer.argument(operands[0])) if operands else []
    args = [writer.argument(pred), *graphs, given]
    return _results(writer, node, writer.call("cond", "firesteel.cond", args, _known(writer, node)))


@_owner("while_loop")
def _while_loop(writer: GraphWriter, node: Any) -> list[Any]:
    condition, body, carried, *additional = _inputs(node)
    graphs = [_own_graph(writer, graph) for graph in (condition, body)]
    args = [*graphs, _as_list(writer.argument(carried)), _as_list(writer.argument(additional[0])) if additional else []]
    return _results(writer, node, writer.call("while_loop", "firesteel.while_loop", args, _known(writer, node)))


@_owner("map_impl")
def _map(writer: GraphWriter, node: Any) -> list[Any]:
    body, xs, *additional = _inputs(node)
    args = [_own_graph(writer, body), _as_list(writer.argument(xs)),
            _as_list(writer.argument(additional[0])) if additional else []]
    return _results(writer, node, writer.call("map_impl", "firesteel.map", args, _known(writer, node)))


@_owner("scan")
def _scan(writer: GraphWriter, node: Any) -> list[Any]:
    body, init, xs, *additional = _inputs(node)
    args = [_own_graph(writer, body), _as_list(writer.argument(init)), _as_list(writer.argument(xs)),
            _as_list(writer.argument(additional[0])) if additional else []]
    return _results(writer, node, writer.call("scan", "firesteel.scan", args, _known(writer, node)))


@_owner("wrap_with_set_grad_enabled")
def _grad_mode(writer: GraphWriter, node: Any) -> list[Any]:
    enabled, body, *operands = _inputs(node)
    before = writer.call("is_grad_enabled", "torch.is_grad_enabled", [], {"value": None})
    writer.call("_set_grad_enabled", "torch.set_grad_enabled", [writer.argument(enabled)], {"value": None})
    results = _written_out(writer, body, operands)
    writer.call("_set_grad_enabled", "torch.set_grad_enabled", [before], {"value": None})
    return results


@_owner("invoke_subgraph")
def _subgraph(writer: GraphWriter, node: Any) -> list[Any]:
    body, _, *operands = _inputs(node)
    return _written_out(writer, body, operands)


@_owner("hints_wrapper")
def _hints(writer: GraphWriter, node: Any) -> list[Any]:
    body, *operands = _inputs(node)
    return _written_out(writer, body, operands[:-1])


def _written_out(writer: GraphWriter, body: Any, operands: list[Any]) -> list[Any]:
    """The operations of a graph in the place of its call."""
    graph = field(_graph(body), "graph", dict)
    values: list[Any] = []
    for operand in operands:
        value = writer.argument(operand)
        values += value if isinstance(value, list) else [value]
    around = dict(writer.places), dict(writer.known), writer.origin
    names = [names_in(read_argument(given)) for given in field(graph, "inputs", list)]
    writer.places = {name[0]: value for name, value in zip(names, values, strict=True) if name}
    writer.known = values_of(graph, writer.sizes)
    results = add_operations(writer, graph)
    writer.places, writer.known, writer.origin = around
    return results


@_owner("auto_functionalized")
def _written_copies(writer: GraphWriter, node: Any) -> list[Any]:
    """An operator that writes to its arguments, called on copies of them: its results, then the copies."""
    first, *given = field(node, "inputs", list)
    operator = target_of(field(first["arg"], "as_operator", str))
    found: Any = read_target(operator.target)
    kwargs = {field(entry, "name", str): writer.argument(entry["arg"]) for entry in given}
    targets = [name for _, name in torch_compat.written_arguments(found)]
    args = [operator.target, {"tuple": targets}]
    # The first result of an operator that returns nothing is None here, and is left out in firesteel
    silent = not torch_compat.schema_of(found).returns
    outputs = field(node, "outputs", list)
    own = {**node, "outputs": outputs[1:] if silent else outputs}
    call = writer.call(operator.name, "firesteel.written_copies", args, _known(writer, own), kwargs)
    return [None] * silent + _results(writer, own, call)
