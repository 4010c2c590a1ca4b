"""Tidying a functional graph: equal computations once, copies that nobody can tell from their source, dead code.

    a = mul(x, 2); b = mul(x, 2); c = clone(b); d = add(a, c)    becomes    a = mul(x, 2); d = add(a, a)

Values never change in a functional graph, so only results that leave it must be tensors of their own;
`separate_results` sees to that.
"""

from __future__ import annotations

from dataclasses import replace
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..fake.symbolic import SYMBOLIC_NUMBERS
from .eager_support import is_refused
from .graph import FreshTensor, FunctionalGraph, InputAlias, Number, Output
from .operators import REFUSED, Kind, is_view, operator_of, raises_on_data, values_of

_ATEN = torch.ops.aten
# By identity: an operator's own hash is a Python function.
_COPIES = frozenset(map(id, (_ATEN.clone.default, _ATEN._to_copy.default)))


def clean_up(graph: FunctionalGraph) -> None:
    """Common subexpressions, needless copies and dead code, in place."""
    merged = _merge(graph)
    if merged:
        _rename(graph, merged)
    _drop_dead(graph)


def _merge(graph: FunctionalGraph) -> dict[torch.fx.Node, torch.fx.Node]:
    leaving = _leaving(graph)
    seen: dict[Any, torch.fx.Node] = {}
    merged: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function":
            continue
        if merged and any(source in merged for source in node.all_input_nodes):
            node.args = _renamed(node.args, merged)
            node.kwargs = _renamed(node.kwargs, merged)
        target = node.target
        if id(target) in _COPIES and node not in leaving and _copies_nothing(node):
            merged[node] = node.args[0]
            continue
        if not _is_pure(node):
            continue
        key = (id(target), _key(node.args), _key(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node and node not in leaving and _same_numbers(first.meta["val"], node.meta["val"]):
            merged[node] = first
    return merged


def _same_numbers(left: Any, right: Any) -> bool:
    """Whether two values have the same symbols: each number that is read from data has one of its own."""
    if isinstance(left, (tuple, list)):
        return all(_same_numbers(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, torch.Tensor):
        return _same(left.shape, right.shape)
    return bool(_number(left) == _number(right))


def _leaving(graph: FunctionalGraph) -> set[torch.fx.Node]:
    """Nodes whose memory may leave the graph: results, and what they are views of."""
    leaving: set[torch.fx.Node] = set()
    for start in graph.graph.output_node().all_input_nodes:
        node: Any = start
        while isinstance(node, torch.fx.Node) and node not in leaving:
            leaving.add(node)
            node = node.args[0] if node.args and (is_view(node) or node.target is getitem) else None
    return leaving


def _copies_nothing(node: torch.fx.Node) -> bool:
    """Whether a copy has the dtype, the device and the layout of its source."""
    source = node.args[0]
    if not isinstance(source, torch.fx.Node):
        return False
    old, new = source.meta["val"], node.meta["val"]
    return old.dtype is new.dtype and old.device == new.device and _same(old.stride(), new.stride())


def _same(left: Any, right: Any) -> bool:
    return len(left) == len(right) and all(_number(a) == _number(b) for a, b in zip(left, right, strict=True))


def _number(value: Any) -> Any:
    return value.node.expr if isinstance(value, SYMBOLIC_NUMBERS) else value


def _is_pure(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch_compat.OpOverload):
        return not getattr(node.target, "bodies", None)
    operator = operator_of(node.target)
    return not (operator.random or operator.has_effect or operator.kind is Kind.WRITES)


def _key(value: Any) -> Any:
    kind = type(value)
    if kind is torch.fx.Node:
        return value
    if kind is int or kind is bool or value is None:
        return kind, value
    if isinstance(value, (tuple, list)):
        return tuple([_key(item) for item in value])
    if isinstance(value, dict):
        return tuple([(name, _key(item)) for name, item in value.items()])
    if isinstance(value, float):
        return float, repr(value)  # 0.0 and -0.0 are equal, a NaN is not
    return type(value), value


def _renamed(value: Any, names: dict[torch.fx.Node, torch.fx.Node]) -> Any:
    if isinstance(value, torch.fx.Node):
        return names.get(value, value)
    if isinstance(value, (tuple, list)):
        return type(value)([_renamed(item, names) for item in value])
    if isinstance(value, dict):
        return {name: _renamed(item, names) for name, item in value.items()}
    return value


def _rename(graph: FunctionalGraph, merged: dict[torch.fx.Node, torch.fx.Node]) -> None:
    def of(node: torch.fx.Node) -> torch.fx.Node:
        return merged.get(node, node)

    outputs: list[Output] = []
    for output in graph.outputs:
        outputs.append(replace(output, node=of(output.node)) if isinstance(output, (FreshTensor, Number)) else output)
    graph.outputs = outputs
    graph.mutated = [replace(change, node=of(change.node)) for change in graph.mutated]
    last = graph.graph.output_node()
    last.args = _renamed(last.args, merged)


def _drop_dead(graph: FunctionalGraph) -> None:
    laid_out = _numbers_of_views(graph)
    for node in reversed(graph.graph.nodes):
        if node.op in ("call_function", "get_attr") and not node.users:
            if laid_out and _number(node.meta.get("val")) in laid_out:
                continue
            if node.op == "get_attr":
                graph.constants.pop(str(node.target), None)
            elif isinstance(node.target, torch_compat.OpOverload):
                operator = operator_of(node.target)
                if operator.random or operator.has_effect or raises_on_data(node):
                    continue
                if is_refused(operator, values_of(node.args), values_of(node.kwargs)):
                    node.meta[REFUSED] = True
                    continue
            elif getattr(node.target, "has_effect", False):
                continue  # a control flow operator
            graph.graph.erase_node(node)


def _numbers_of_views(graph: FunctionalGraph) -> set[Any]:
    """The symbols in the layouts of results that are views: what reads such a number from data has to stay."""
    views = [output.view for output in graph.outputs if isinstance(output, (FreshTensor, InputAlias)) and output.view]
    numbers = [number for view in views for number in (*view.shape, *view.stride, view.offset)]
    return {symbol for number in numbers if isinstance(number, SYMBOLIC_NUMBERS)
            for symbol in number.node.expr.free_symbols}


def separate_results(graph: FunctionalGraph) -> None:
    """Results that are tensors of their own in eager are so here: those that share a value are copied."""
    changed_inputs = {graph.inputs[change.index].node for change in graph.mutated}
    owners: dict[torch.fx.Node, int] = {}
    copies: dict[int, torch.fx.Node] = {}
    outputs: list[Output] = []
    for output in graph.outputs:
        if isinstance(output, FreshTensor):
            base = _base(output.node)
            if base.op != "call_function" or owners.setdefault(base, output.memory) != output.memory:
                if output.memory not in copies:
                    copies[output.memory] = _copy(graph, output.node)
                output = replace(output, node=copies[output.memory])
        outputs.append(output)
    replaced = bool(copies)
    mutated = []
    for change in graph.mutated:
        base = _base(change.node)
        if base in changed_inputs:
            # It may have been overwritten by the time it is read.
            change = replace(change, node=_copy(graph, change.node))
            replaced = True
        mutated.append(change)
    if replaced:
        graph.outputs, graph.mutated = outputs, mutated
        nodes = [output.node for output in outputs if isinstance(output, (FreshTensor, Number))]
        graph.graph.output_node().args = (tuple([*nodes, *(change.node for change in mutated)]),)


def _base(node: torch.fx.Node) -> torch.fx.Node:
    while node.op == "call_function" and is_view(node):
        source = node.args[0]
        assert isinstance(source, torch.fx.Node)
        node = source
    return node


def _copy(graph: FunctionalGraph, node: torch.fx.Node) -> torch.fx.Node:
    with graph.graph.inserting_before(graph.graph.output_node()):
        copy = graph.graph.call_function(_ATEN.clone.default, (node,))
    copy.meta.update(node.meta)
    return copy
