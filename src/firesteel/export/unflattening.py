"""`unflatten`: the module hierarchy of an exported program again.

Before, one graph:

    linear = aten.linear(x, p_block_lin_weight, p_block_lin_bias)
    relu = aten.relu(linear)
    add = relu + 1

After, a module for every call of a module that left operations, each with the parameters that it had:

    root:   block = self.block(x); add = block + 1
    block:  lin = self.lin(x); relu = self.act(lin)
    lin:    linear = aten.linear(x, self.weight, self.bias)

A module that is called more than once is one module if all its calls compute the same, and otherwise several: ``lin``,
``lin@1``, ``lin@2``. Inside of the program values are passed one by one: inputs of a module are the values that its
operations use, in the order of first use, and its results are those that others use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
import torch.fx

from .program import ExportedProgram

Node = torch.fx.Node


@dataclass
class _Call:
    """One call of a module: operations, and calls of inner modules, in order."""

    name: str
    items: list[Node | _Call] = field(default_factory=list)

    def nodes(self) -> Iterator[Node]:
        """All operations, those of inner calls included."""
        for item in self.items:
            if isinstance(item, _Call):
                yield from item.nodes()
            else:
                yield item


def unflatten(program: ExportedProgram) -> torch.fx.GraphModule:
    """A module like `ExportedProgram.module` whose submodules are those of the exported one."""
    module = program.module()
    return _Unflattening(module).run()


class _Unflattening:
    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.known: dict[str, list[tuple[Any, str]]] = {}
        """Graphs of the modules so far, and the names under which they are."""

    def run(self) -> torch.fx.GraphModule:
        old = self.module.graph
        root = _Call("")
        stack = [root]
        for node in old.nodes:
            if node.op in ("placeholder", "output") or _is_state(self.module, node):
                continue
            path = [entry[0] for entry in node.meta.get("nn_module_stack", {}).values() if entry[0]]
            while len(stack) > 1 and stack[-1].name not in path:
                stack.pop()
            for name in path[path.index(stack[-1].name) + 1 :] if len(stack) > 1 else path:
                if name.startswith(f"{stack[-1].name}." if stack[-1].name else ""):
                    call = _Call(name)
                    stack[-1].items.append(call)
                    stack.append(call)
            stack[-1].items.append(node)
        graph = torch.fx.Graph()
        values: dict[Node, Node] = {}
        for node in old.nodes:
            if node.op == "placeholder":
                values[node] = graph.node_copy(node)
        self._emit(root, graph, values, self.module)
        result = next(iter(reversed(old.nodes)))
        self._state(graph, values, self.module, "", result.all_input_nodes)
        graph.output(torch.fx.map_arg(result.args[0], values.__getitem__))
        graph.set_codegen(old._codegen)
        self.module.graph = graph
        self.module.recompile()
        return self.module

    def _emit(self, call: _Call, graph: torch.fx.Graph, values: dict[Node, Node], owner: torch.nn.Module) -> None:
        """Write what a call does; ``owner`` is the module that it is a call of."""
        for item in call.items:
            if isinstance(item, _Call):
                self._emit_call(call, item, graph, values, owner)
                continue
            self._state(graph, values, owner, call.name, item.all_input_nodes)
            values[item] = graph.node_copy(item, values.__getitem__)

    def _state(self, graph: torch.fx.Graph, values: dict[Node, Node], owner: torch.nn.Module, name: str,
               used: list[Node]) -> None:
        """Parameters and buffers are read by the module that has them."""
        for node in used:
            if node not in values and _is_state(self.module, node):
                target = str(node.target)
                local = target[len(name) + 1 :] if name else target
                values[node] = graph.create_node("get_attr", local, name=node.name)
                values[node].meta.update(node.meta)

    def _emit_call(self, outer: _Call, call: _Call, graph: torch.fx.Graph, values: dict[Node, Node],
                   owner: torch.nn.Module) -> None:
        inside = set(call.nodes())
        given: dict[Node, None] = {}
        for node in call.nodes():
            for used in node.all_input_nodes:
                if used not in inside and not self._belongs(used, call.name):
                    given[used] = None
        results = [node for node in call.nodes() if any(user not in inside for user in node.users)]
        inner = torch.fx.Graph()
        local: dict[Node, Node] = {}
        for node in given:
            local[node] = inner.placeholder(node.name)
            local[node].meta.update(node.meta)
        name = call.name[len(outer.name) + 1 :] if outer.name else call.name
        holder = _submodule(owner, name)
        self._emit(call, inner, local, holder)
        outputs = [local[node] for node in results]
        inner.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
        target = self._place(call.name, name, owner, holder, inner)
        self._state(graph, values, owner, outer.name, list(given))
        made = graph.create_node("call_module", target, tuple([values[node] for node in given]))
        if len(results) == 1:
            values[results[0]] = made
            made.meta.update(results[0].meta)
            return
        for position, node in enumerate(results):
            values[node] = graph.call_function(getitem, (made, position))
            values[node].meta.update(node.meta)

    def _belongs(self, node: Node, name: str) -> bool:
        return _is_state(self.module, node) and str(node.target).startswith(f"{name}.")

    def _place(self, full: str, name: str, owner: torch.nn.Module, holder: torch.nn.Module,
               graph: torch.fx.Graph) -> str:
        """The attribute of the owner that does what a graph says: a new one, unless a call of before did the same."""
        shape = _shape(graph)
        known = self.known.setdefault(full, [])
        for other, target in known:
            if other == shape:
                return target
        target = f"{name}@{len(known)}" if known else name
        made = torch.fx.GraphModule(holder, graph, class_name=type(holder).__name__)
        for part, parameter in holder._parameters.items():
            made.register_parameter(part, parameter)
        for part, buffer in holder._buffers.items():
            made.register_buffer(part, buffer, part not in holder._non_persistent_buffers_set)
        for part, child in holder.named_children():
            made.add_module(part, child)
        *path, last = target.split(".")
        for part in path:
            owner = _submodule(owner, part)
        owner.add_module(last, made)
        known.append((shape, target))
        return target


def _is_state(module: torch.nn.Module, node: Node) -> bool:
    """Whether a node reads a parameter or buffer, and not a graph that an operation owns."""
    if node.op != "get_attr":
        return False
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return isinstance(value, torch.Tensor)


def _submodule(owner: torch.nn.Module, name: str) -> torch.nn.Module:
    """A submodule, made if it has no parameters and so is not there yet."""
    for part in name.split("."):
        if part not in owner._modules:
            owner.add_module(part, torch.nn.Module())
        owner = owner.get_submodule(part)
    return owner


def _shape(graph: torch.fx.Graph) -> list[Any]:
    """A graph without its names."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}
    return [
        (node.op, node.target if node.op != "placeholder" else None,
         str(torch.fx.map_arg((node.args, node.kwargs), lambda used: _Place(numbers[used])))) for node in graph.nodes
    ]  # fmt: skip


class _Place(str):
    """A node by its position."""

    def __new__(cls, number: int) -> _Place:
        return super().__new__(cls, f"%{number}")
