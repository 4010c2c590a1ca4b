"""Graphs as JSON and back, with what is known about the value of every node.

The text of a graph module is Python code that is made of names in the graph, so every name of a file is checked to be
an identifier before it gets there.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

import torch
import torch.fx

from ... import torch_compat
from ...fake import FakeTensor
from ...fake.dims import layout_of, offset_of
from ...shapes import Expr, ShapeEnv
from ...shapes.parsing import ParseError, parse
from ...shapes.symnode import expr_of, make_symbolic
from .schema import SavedGraph, SavedModule, SavedNode
from .targets import read_target, write_target
from .values import read_device, read_enum, read_value, write_value

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OPS = ("placeholder", "get_attr", "call_function", "output")


# ---------------------------------------------------------------------------------------------------------------------
# writing


def write_graph(module: torch.fx.GraphModule) -> SavedGraph:
    """The graph of a module and those of its children."""
    children = {name: write_graph(part) for name, part in module.named_children()
                if isinstance(part, torch.fx.GraphModule)}
    return SavedGraph([_write_node(node) for node in module.graph.nodes], children)


def _write_node(node: torch.fx.Node) -> SavedNode:
    target = write_target(node.target) if node.op == "call_function" else str(node.target)
    modules = [SavedModule(str(key), *map(str, entry)) for key, entry in node.meta.get("nn_module_stack", {}).items()]
    return SavedNode(
        node.op, node.name, target, [write_value(value) for value in node.args],
        {key: write_value(value) for key, value in node.kwargs.items()}, write_known(node.meta.get("val")),
        node.meta.get("stack_trace"), modules)  # fmt: skip


def write_known(value: Any) -> Any:
    """What is known about a value: a tensor's metadata, a number's expression, a constant."""
    if isinstance(value, torch.Tensor):
        shape, stride = layout_of(value) if isinstance(value, FakeTensor) else (value.shape, value.stride())
        offset = offset_of(value) if isinstance(value, FakeTensor) else value.storage_offset()
        return {"tensor": {
            "dtype": str(value.dtype)[6:], "shape": [write_size(size) for size in shape],
            "stride": [write_size(size) for size in stride], "offset": write_size(offset),
            "device": str(value.device), "requires_grad": value.requires_grad,
        }}  # fmt: skip
    if isinstance(value, _SYMBOLIC):
        return {"number": write_size(value)}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [write_known(item) for item in value]}
    return {"value": write_value(value)}


def write_size(size: Any) -> int | str:
    """A number: as it is, or the text of its expression."""
    if isinstance(size, _SYMBOLIC):
        return str(expr_of(size))
    expr = getattr(size, "expr", None)
    return int(size) if expr is None else str(expr)


# ---------------------------------------------------------------------------------------------------------------------
# reading


class GraphReader:
    """Reads the graphs of one program, whose symbols live in one environment."""

    def __init__(self, env: ShapeEnv, symbols: Mapping[str, Expr]) -> None:
        self.env = env
        self.symbols = symbols
        self._exprs: dict[str, Expr] = dict(symbols)

    def graph(self, saved: SavedGraph, where: str = "graph") -> torch.fx.GraphModule:
        """A graph module. Raises ValueError."""
        root = torch.nn.Module()
        for name, part in saved.subgraphs.items():
            root.add_module(checked_name(name), self.graph(part, f"{where}.{name}"))
        graph = torch.fx.Graph()
        nodes: dict[str, torch.fx.Node] = {}
        for number, node in enumerate(saved.nodes):
            if (node.op == "output") != (number == len(saved.nodes) - 1):
                raise ValueError(f"{where}: the output is not the last node")
            try:
                nodes[node.name] = self._node(graph, nodes, node, saved)
            except (ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError) as error:
                raise ValueError(f"{where}, node {node.name[:80]}: {error}") from error
        if not saved.nodes:
            raise ValueError(f"{where}: there are no nodes")
        return torch.fx.GraphModule(root, graph)

    def _node(self, graph: torch.fx.Graph, nodes: Mapping[str, torch.fx.Node], saved: SavedNode,
              owner: SavedGraph) -> torch.fx.Node:
        if saved.op not in _OPS or saved.name in nodes:
            raise ValueError(f"{saved.op[:40]} with this name")
        target: Any = saved.target
        if saved.op == "call_function":
            target = read_target(saved.target)
        elif saved.op == "get_attr" and saved.target not in owner.subgraphs:
            raise ValueError(f"there is no graph {saved.target[:80]}")
        else:
            checked_name(saved.target)

        def named(name: str) -> torch.fx.Node:
            if name not in nodes:
                raise ValueError(f"{name[:80]} is used before it is computed")
            return nodes[name]

        args = tuple([read_value(value, named) for value in saved.args])
        kwargs = {checked_name(key): read_value(value, named) for key, value in saved.kwargs.items()}
        node = graph.create_node(saved.op, target, args, kwargs, name=checked_name(saved.name))
        if node.name != saved.name:
            raise ValueError("this name cannot be given to a node")
        node.meta["val"] = self.known(saved.value)
        if saved.stack_trace is not None:
            node.meta["stack_trace"] = saved.stack_trace
        if saved.modules:
            node.meta["nn_module_stack"] = {entry.key: (entry.name, entry.type) for entry in saved.modules}
        return node

    def known(self, data: Any, depth: int = 0) -> Any:
        """What `write_known` wrote."""
        if not isinstance(data, dict) or len(data) != 1 or depth > 16:
            raise ValueError(f"{str(data)[:80]} says nothing about a value")
        kind, content = next(iter(data.items()))
        if kind == "value":
            return read_value(content)
        if kind == "number" and isinstance(content, (int, str)):
            return self.size(content)
        if kind in ("tuple", "list") and isinstance(content, list):
            items = [self.known(item, depth + 1) for item in content]
            return tuple(items) if kind == "tuple" else items
        if kind == "tensor" and isinstance(content, dict):
            return self._tensor(**content)
        raise ValueError(f"{str(data)[:80]} says nothing about a value")

    def _tensor(self, dtype: str, shape: list[Any], stride: list[Any], offset: Any, device: str,
                requires_grad: bool) -> FakeTensor:
        sizes, strides = ([self.size(size) for size in numbers] for numbers in (shape, stride))
        kind, place = read_enum("dtype", dtype), read_device(device)
        fake = torch_compat.make_wrapper(FakeTensor, sizes, strides, self.size(offset), kind, place)
        if requires_grad:
            fake.requires_grad_(True)
        return fake

    def size(self, data: Any) -> Any:
        """A number, symbolic where the text is an expression."""
        if isinstance(data, bool) or not isinstance(data, (int, str)):
            raise ValueError(f"{str(data)[:80]} is no size")
        return data if isinstance(data, int) else make_symbolic(self.env, self.expr(data))

    def expr(self, text: str) -> Expr:
        """The expression that a text says."""
        expr = self._exprs.get(text)
        if expr is None:
            try:
                expr = self._exprs[text] = parse(text, self.symbols)
            except ParseError as error:
                raise ValueError(str(error)) from error
        return expr


def checked_name(name: str) -> str:
    """A name that may stand in code. Raises ValueError."""
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ValueError(f"{name[:80]!r} is no name")
    return name
