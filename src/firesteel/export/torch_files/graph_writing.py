"""Graphs of programs in the form of torch's files: a node has all results of a call, and no `getitem` follows it.

Regions with gradients switched on or off become graphs of their own, as torch has them:

    is_grad_enabled = torch.is_grad_enabled()
    set_grad_enabled(False)                       (mul,) = wrap_with_set_grad_enabled(False, submod_0, x)
    mul = x * 2
    set_grad_enabled(is_grad_enabled)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from ... import torch_compat
from ...control_flow import operators as control_flow
from ...torch_compat.below_autograd import set_grad_mode
from ..functional_calls import written_copies
from ..graph_functions import names
from ..saving.errors import SavedProgramError
from .operators import KEYWORD, POSITIONAL
from .values import Arguments, Metadata, kind_of_number, write_constant

Nodes = Sequence[torch.fx.Node]
_HIGHER_ORDER = "torch.ops.higher_order."
_OWNERS = {control_flow.cond: "cond", control_flow.while_loop: "while_loop", control_flow.map: "map_impl",
           control_flow.scan: "scan"}


class GraphWriting:
    """One graph, or a region of one."""

    def __init__(self, module: torch.fx.GraphModule, metadata: Metadata) -> None:
        self.module = module
        self.metadata = metadata
        self.same = _repeated_items(module.graph)
        self.arguments = Arguments(self.same)
        self.regions = 0
        self.tables: dict[str, dict[str, Any]] = {}
        self.nodes: list[Any] = []
        self._clear()

    def _clear(self) -> None:
        self.nodes = []
        self.tables = {"tensor_values": {}, "sym_int_values": {}, "sym_float_values": {}, "sym_bool_values": {}}

    # whole graphs

    def graph(self, single: bool = False) -> dict[str, Any]:
        """The graph; ``single`` if its one result is no tuple."""
        nodes = list(self.module.graph.nodes)
        inputs = [self.input(node) for node in nodes if node.op == "placeholder"]
        self.add_operations([node for node in nodes if node.op == "call_function"])
        outputs = [self.arguments.write(value) for value in nodes[-1].args[0]]
        return self._finished(inputs, outputs, single)

    def _finished(self, inputs: list[Any], outputs: list[Any], single: bool = False) -> dict[str, Any]:
        return {"inputs": inputs, "outputs": outputs, "nodes": self.nodes, **self.tables,
                "is_single_tensor_return": single, "custom_obj_values": {}}

    def input(self, node: torch.fx.Node) -> Any:
        """An input of the graph."""
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) or _is_symbolic(value):
            return self.result(node.name, value)
        return write_constant(value)

    def result(self, name: str, value: Any) -> Any:
        """A value under a name, whose metadata goes to the table of its kind."""
        if value is None:
            return {"as_none": True}
        if isinstance(value, torch.Tensor):
            self.tables["tensor_values"][name] = self.metadata.tensor(value)
            return {"as_tensor": {"name": name}}
        kind = kind_of_number(value)
        if kind is None:
            raise SavedProgramError(f"torch's files have no form for a result of the type {type(value).__qualname__}")
        self.tables[f"sym_{kind}_values"][name] = self.metadata.number(value, kind)
        return {f"as_sym_{kind}": {"as_name": name}}

    # operations

    def add_operations(self, nodes: Nodes) -> None:
        """Write operations in order."""
        position = 0
        while position < len(nodes):
            node = nodes[position]
            if node.target is torch.is_grad_enabled:
                position += 1
            elif node.target is set_grad_mode:
                position = self._add_region(nodes, position)
            else:
                if node.target is not operator.getitem:
                    self._add(node)
                position += 1

    def _add(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        if target in _OWNERS:
            self._add_owner(node)
        elif target is written_copies:
            self._add_written_copies(node)
        elif isinstance(target, torch_compat.OpOverload):
            self._add_operator(node, target)
        else:
            name = names().get(target)
            if name is None:
                raise SavedProgramError(f"torch's files have no form for a call of {target}")
            module = "_operator" if name.startswith("operator.") else name.rpartition(".")[0]
            text = f"{module}.{target.__name__}"
            inputs = [_named("ab"[at] if at < 2 else "c", self.arguments.write(value), POSITIONAL)
                      for at, value in enumerate(node.args)]
            self._write(node, text, inputs, [self.result(node.name, node.meta["val"])])

    def _write(self, node: torch.fx.Node, target: str, inputs: list[Any], outputs: list[Any],
               single: bool | None = None) -> None:
        metadata = _metadata(node, self.metadata.root)
        self.nodes.append({"target": target, "inputs": inputs, "outputs": outputs, "metadata": metadata,
                           "is_hop_single_tensor_return": single, "name": node.name})

    def _add_operator(self, node: torch.fx.Node, target: Any) -> None:
        schema = torch_compat.schema_of(target)
        inputs = []
        for position, argument in enumerate(schema.arguments):
            if argument.name in node.kwargs:
                value, kind = node.kwargs[argument.name], KEYWORD
            elif position < len(node.args) and not argument.kwarg_only:
                value, kind = node.args[position], POSITIONAL
            else:
                continue
            inputs.append(_named(argument.name, self.arguments.write(value, str(argument.type)), kind))
        self._write(node, _operator_text(target), inputs, self._results(node, schema))

    def _results(self, node: torch.fx.Node, schema: Any) -> list[Any]:
        """The results of an operator: one, a list of tensors, or several of these."""
        value = node.meta.get("val")
        if not schema.returns:
            return []
        if len(schema.returns) == 1 and not isinstance(value, (list, tuple)):
            return [self.result(node.name, value)]
        items = self._items(node)
        if len(schema.returns) == 1:
            return [{"as_tensors": [self.result(name, part)["as_tensor"] for name, part in items]}]
        results = []
        for at, (name, part) in enumerate(items):
            if isinstance(part, (list, tuple)):
                user = next((user for user in _item_users(node, at)), None)
                inner = [(f"{node.name}_unused_{at}_{number}", item) for number, item in enumerate(part)] \
                    if user is None else self._items(user)
                results.append({"as_tensors": [self.result(label, item)["as_tensor"] for label, item in inner]})
            else:
                results.append(self.result(name, part))
        return results

    def _items(self, node: torch.fx.Node) -> list[tuple[str, Any]]:
        """Names and values of the items of a result."""
        items = []
        for at, value in enumerate(node.meta["val"]):
            user = next(iter(_item_users(node, at)), None)
            items.append((f"{node.name}_unused_{at}" if user is None else user.name, value))
        return items

    # operators that own graphs

    def _add_owner(self, node: torch.fx.Node) -> None:
        inputs = []
        owner: Any = node.target
        for position, value in enumerate(node.args):
            if isinstance(value, torch.fx.Node) and value.op == "get_attr":
                part = getattr(self.module, str(value.target))
                condition = owner is control_flow.while_loop and position == 0
                graph = GraphWriting(part, self.metadata).graph(single=condition)
                inputs.append({"as_graph": {"name": str(value.target), "graph": graph}})
            else:
                inputs.append(self.arguments.write(value))
        outputs = [self.result(name, value) for name, value in self._items(node)]
        self._write(node, _HIGHER_ORDER + _OWNERS[owner], [_named("", given, POSITIONAL) for given in inputs],
                    outputs, single=False)

    def _add_written_copies(self, node: torch.fx.Node) -> None:
        name, _, *args = node.args
        found = torch_compat.find_operator(*_parts(str(name)))
        if found is None:
            raise SavedProgramError(f"there is no operator {name}: import the library that registers it first")
        schema = torch_compat.schema_of(found)
        given = {argument.name: value for argument, value in zip(schema.arguments, args, strict=False)} | node.kwargs
        inputs = [_named("", {"as_operator": _operator_text(found)}, POSITIONAL)]
        inputs += [_named(argument.name, self.arguments.write(given[argument.name], str(argument.type)), KEYWORD)
                   for argument in schema.arguments if argument.name in given]
        outputs = [self.result(label, value) for label, value in self._items(node)]
        if not schema.returns:
            outputs.insert(0, {"as_none": True})
        self._write(node, f"{_HIGHER_ORDER}auto_functionalized", inputs, outputs, single=False)

    # regions with gradients on or off

    def _add_region(self, nodes: Nodes, begin: int) -> int:
        """Write what a switch of gradients applies to as a graph; the position behind it."""
        switch = nodes[begin]
        end, depth = begin + 1, 1
        while end < len(nodes):
            if nodes[end].target is set_grad_mode:
                restores = isinstance(nodes[end].args[0], torch.fx.Node)
                depth += -1 if restores else 1
                if not depth:
                    break
            end += 1
        inside = [node for node in nodes[begin + 1:end]]
        if not any(_computes(node) for node in inside):
            return end + 1
        members = set(inside)
        inside += [user for node in inside for user in node.users  # items that are first looked at behind the region
                   if user.target is operator.getitem and user not in members]
        members.update(inside)
        operands = list(dict.fromkeys(
            node for member in inside for node in member.all_input_nodes
            if node not in members and node.op != "get_attr" and node.target is not torch.is_grad_enabled))
        results = [node for node in inside if _is_value(node) and any(user not in members for user in node.users)
                   and node not in self.same]
        self._write_region(switch, inside, operands, results)
        return end + 1

    def _write_region(self, switch: torch.fx.Node, inside: Nodes, operands: Nodes, results: Nodes) -> None:
        outer = self.nodes, self.tables
        self._clear()
        inputs = [self.result(self.arguments.name(node), node.meta["val"]) for node in operands]
        self.add_operations(inside)
        graph = self._finished(inputs, [self.arguments.write(node) for node in results])
        self.nodes, self.tables = outer
        name = f"submod_{self.regions}"
        self.regions += 1
        given = [write_constant(switch.args[0]), {"as_graph": {"name": name, "graph": graph}},
                 *[self.arguments.write(node) for node in operands]]
        outputs = [self.result(node.name, node.meta["val"]) for node in results]
        self._write(switch, f"{_HIGHER_ORDER}wrap_with_set_grad_enabled",
                    [_named("", value, POSITIONAL) for value in given], outputs, single=False)


def _named(name: str, argument: Any, kind: int) -> dict[str, Any]:
    return {"name": name, "arg": argument, "kind": kind}


def _parts(name: str) -> tuple[str, str, str]:
    space, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return space, base, overload


def _operator_text(target: Any) -> str:
    return f"torch.ops.{torch_compat.operator_name(target)}"


def _item_users(node: torch.fx.Node, position: int) -> list[torch.fx.Node]:
    count = len(node.meta["val"])
    return [user for user in node.users if user.target is operator.getitem
            and user.args[1] in (position, position - count)]


def _repeated_items(graph: torch.fx.Graph) -> dict[torch.fx.Node, str]:
    """Items that are taken twice have one name in the file."""
    first: dict[tuple[torch.fx.Node, Any], str] = {}
    same = {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is operator.getitem:
            source, position = node.args
            place = source, position % len(source.meta["val"])
            if place in first:
                same[node] = first[place]
            first.setdefault(place, node.name)
    return same


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_value(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) or kind_of_number(value) is not None


def _computes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target not in (set_grad_mode, torch.is_grad_enabled)


def outermost_module(graph: torch.fx.Graph) -> str:
    """The text of the module that a program was made of; tools of torch expect it around every operation."""
    stacks = [_modules_text(node) for node in graph.nodes if node.meta.get("nn_module_stack")]
    return stacks[0].partition(";")[0] if stacks else "L__self__,,torch.nn.modules.module.Module"


def _modules_text(node: torch.fx.Node) -> str:
    return ";".join([",".join((str(key), str(path), _class_text(kind)))
                     for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()])


def _metadata(node: torch.fx.Node, root: str) -> dict[str, str]:
    """Source line, modules around, and the function that was called."""
    written = {}
    if isinstance(node.meta.get("stack_trace"), str):
        written["stack_trace"] = node.meta["stack_trace"]
    written["nn_module_stack"] = _modules_text(node) or root
    function = node.meta.get("torch_fn")
    if function:
        written["torch_fn"] = ";".join(function)
    sources = [f"{name},{_class_text(source)}" for name, source in node.meta.get("source_fn_stack", ())]
    if sources and not any(";" in text or text.count(",") != 1 for text in sources):
        written["source_fn_stack"] = ";".join(sources)
    return written


def _class_text(kind: Any) -> str:
    if isinstance(kind, str):
        return kind
    name = getattr(kind, "__qualname__", getattr(kind, "__name__", str(kind)))
    return f"{getattr(kind, '__module__', None) or 'torch'}.{name}"
