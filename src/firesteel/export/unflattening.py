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
``lin@1``, ``lin@2``. Values are passed one by one: inputs of a module are the values that its operations use, in the
order of first use, and its results are those that others use. Modules whose signature is preserved are called with what
they were called with; see `preserved_calls`.

The tensors are copies: running or training the module changes neither the program nor other modules made from it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..torch_compat.graph_modules import calling_code
from ..torch_compat.module_tables import is_saved, own_buffers, own_modules, own_parameters, share_modules
from .lifting import identifier
from .module_calls import ModuleCallSignature, numbered
from .preserved_calls import CallStructure, PreservedCode, PreservedModule, assign_buffer, call_module
from .program import ExportedProgram
from .signature import ConstantArgument

Node = torch.fx.Node


@dataclass
class _Call:
    """One call of a module: operations, and calls of inner modules, in order."""

    key: str
    name: str
    items: list[Node | _Call] = field(default_factory=list)

    @property
    def number(self) -> int:
        """Which call of the module it is."""
        number = self.key.rpartition("@")[2]
        return int(number) if "@" in self.key and number.isdigit() else 0

    def nodes(self) -> Iterator[Node]:
        """All operations, those of inner calls included."""
        for item in self.items:
            if isinstance(item, _Call):
                yield from item.nodes()
            else:
                yield item


def unflatten(program: ExportedProgram) -> torch.fx.GraphModule:
    """A module like `ExportedProgram.module` whose submodules are those of the exported one.

    >>> import torch, firesteel as fs
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    >>> module = fs.export.unflatten(fs.export.export(model, (torch.ones(4, 2),)))
    >>> [name for name, _ in module.named_children()], module(torch.ones(4, 2)).shape
    (['0', '1'], torch.Size([4, 3]))
    """
    module = program.module()
    _copy_tensors(module)
    signatures = {entry.fqn: entry.signature for entry in program.module_call_graph[1:] if entry.signature is not None}
    return _Unflattening(module, signatures).run()


def _copy_tensors(module: torch.nn.Module) -> None:
    """Give a module tensors of its own; one that has several names stays one, and what shares memory does so again."""
    copies: dict[int, torch.Tensor] = {}
    memories: dict[Any, Any] = {}
    for part in module.modules():
        for table in (own_parameters(part), own_buffers(part)):
            for name, tensor in table.items():
                if tensor is None:
                    continue
                if id(tensor) not in copies:
                    own = copy.deepcopy(tensor.detach(), memories)
                    copies[id(tensor)] = torch.nn.Parameter(own, tensor.requires_grad) if isinstance(
                        tensor, torch.nn.Parameter) else own.requires_grad_(tensor.requires_grad)
                table[name] = copies[id(tensor)]  # type: ignore[assignment]


class _Unflattening:
    def __init__(self, module: torch.fx.GraphModule, signatures: dict[str, ModuleCallSignature]) -> None:
        self.module = module
        self.signatures = signatures
        self.known: dict[str, list[tuple[Any, str]]] = {}
        """By the names of modules: graphs of their calls so far, and the names under which they are."""
        self.kept: set[tuple[str, str]] = set()
        """Graphs that operations own: the module that has one, and its name there."""
        self.nodes: dict[str, Node] = {}

    def run(self) -> torch.fx.GraphModule:
        old = self.module.graph
        _read_after_writes(old, {output.name for call in self.signatures.values() for output in call.outputs})
        self.nodes = {node.name: node for node in old.nodes}
        root = self._calls(old)
        graph = torch.fx.Graph()
        values: dict[Node, Node] = {}
        for node in old.nodes:
            if node.op == "placeholder":
                values[node] = graph.node_copy(node)
        self._emit(root, graph, values, self.module)
        result = next(iter(reversed(old.nodes)))
        self._state(graph, values, "", result.all_input_nodes)
        graph.output(torch.fx.map_arg(result.args[0], values.__getitem__))
        graph.set_codegen(calling_code(old))
        _set_graph(self.module, graph)
        return self.module

    def _calls(self, graph: torch.fx.Graph) -> _Call:
        """The operations of a graph by the calls that they belong to."""
        root = _Call("", "")
        stack = [root]
        for node in graph.nodes:
            if node.op in ("placeholder", "output") or self._is_state(node):
                continue
            path = [(key, entry[0]) for key, entry in node.meta.get("nn_module_stack", {}).items() if entry[0]]
            keys = [key for key, _ in path]
            while len(stack) > 1 and stack[-1].key not in keys:
                stack.pop()
            for key, name in path[keys.index(stack[-1].key) + 1 :] if len(stack) > 1 else path:
                if name.startswith(f"{stack[-1].name}." if stack[-1].name else ""):
                    call = _Call(key, name)
                    stack[-1].items.append(call)
                    stack.append(call)
            stack[-1].items.append(node)
        return root

    def _is_state(self, node: Node) -> bool:
        """Whether a node reads a parameter, a buffer or a constant, and not a graph that an operation owns."""
        return node.op == "get_attr" and isinstance(_attribute(self.module, node), torch.Tensor)

    def _emit(self, call: _Call, graph: torch.fx.Graph, values: dict[Node, Node], owner: torch.nn.Module) -> None:
        """Write what a call does; ``owner`` is the module that it is a call of."""
        for item in call.items:
            if isinstance(item, _Call):
                self._emit_call(call, item, graph, values, owner)
                continue
            if item.op == "get_attr":  # a graph, which belongs to whoever owns the operation
                owner.add_module(str(item.target), _attribute(self.module, item))
            if _is_assignment(item) and self._assign(item, call, graph, values):
                continue
            self._state(graph, values, call.name, item.all_input_nodes)
            values[item] = graph.node_copy(item, values.__getitem__)

    def _assign(self, node: Node, call: _Call, graph: torch.fx.Graph, values: dict[Node, Node]) -> bool:
        """Give a buffer of a preserved module its new value, which a module in its place may not have."""
        buffer, value = node.args[:2]
        if not isinstance(buffer, Node) or not isinstance(value, Node) or not self._is_state(buffer):
            return False
        path, _, name = str(buffer.target).rpartition(".")
        if path not in self.signatures or path == call.name or (call.name and not self._belongs(buffer, call.name)):
            return False
        local = path[len(call.name) + 1 :] if call.name else path
        values[node] = graph.call_function(assign_buffer, (graph.create_node("get_attr", local), name, values[value]))
        return True

    def _state(self, graph: torch.fx.Graph, values: dict[Node, Node], name: str, used: Sequence[Node]) -> None:
        """Parameters and buffers are read by the module that has them."""
        for node in used:
            if node not in values and self._is_state(node):
                target = str(node.target)
                local = target[len(name) + 1 :] if name else target
                values[node] = graph.create_node("get_attr", local, name=node.name)
                values[node].meta.update(node.meta)

    def _emit_call(self, outer: _Call, call: _Call, graph: torch.fx.Graph, values: dict[Node, Node],
                   owner: torch.nn.Module) -> None:
        inside = dict.fromkeys(call.nodes())
        signature = self._signature(call, inside)
        self._repeat_numbers(outer, inside, graph, values)
        used = dict.fromkeys(node for one in inside for node in one.all_input_nodes
                             if node not in inside and not self._belongs(node, call.name))
        results = [node for node in inside if node not in values and any(user not in inside for user in node.users)]
        inputs = [] if signature is None else [_node_of(item, self.nodes) for item in signature.inputs]
        outputs = [] if signature is None else [_node_of(item, self.nodes) for item in signature.outputs]
        more = [node for node in used if node not in inputs]
        rest = [node for node in results if node not in outputs]

        inner = torch.fx.Graph()
        local: dict[Node, Node] = {}
        for position, node in enumerate([*inputs, *more]):
            placeholder = inner.placeholder(node.name if isinstance(node, Node) else f"constant_{position}")
            placeholder.target = placeholder.name
            if isinstance(node, Node) and node not in local:
                local[node] = placeholder
                placeholder.meta.update(node.meta)
        name = call.name[len(outer.name) + 1 :] if outer.name else call.name
        holder = _submodule(owner, name)
        self._emit(call, inner, local, holder)
        given = [node for node in outputs if isinstance(node, Node)]
        self._state(inner, local, call.name, [node for node in given if self._belongs(node, call.name)])
        returned: list[Any] = [local.get(node) if isinstance(node, Node) else node for node in [*outputs, *rest]]
        if signature is not None:
            inner.set_codegen(PreservedCode(len(inputs), len(outputs)))
            inner.output(tuple(returned))
        else:
            inner.output(returned[0] if len(returned) == 1 else tuple(returned))
        structure = None if signature is None else CallStructure(
            signature.in_spec, signature.out_spec, tuple([self._buffer_of(node, call.name) for node in rest]))
        target = self._place(call.name, outer.name, owner, holder, inner, structure)
        self._state(graph, values, outer.name, [node for node in (*inputs, *more) if isinstance(node, Node)])
        arguments = [values[node] if isinstance(node, Node) else node for node in inputs]
        further = [values[node] for node in more]
        if structure is None:
            call_node = graph.create_node("call_module", target, tuple(further))
        else:
            attribute = f"_call_{identifier(target)}"
            vars(owner)[attribute] = structure
            # what the user puts in the place of the module is there for all its calls, whatever they compute
            first = name if self.known[call.name][0][0][0] is not None else target
            modules = [graph.create_node("get_attr", part) for part in dict.fromkeys((first, target))]
            call_node = graph.call_function(call_module, (
                graph.create_node("get_attr", attribute), modules, arguments, further))
        if structure is None and len(rest) == 1:
            values[rest[0]] = call_node
            call_node.meta.update(rest[0].meta)
            return
        for position, item in enumerate([*outputs, *rest]):
            if isinstance(item, Node) and item in inside and item not in values:
                values[item] = graph.call_function(getitem, (call_node, position))
                values[item].meta.update(item.meta)

    def _signature(self, call: _Call, inside: dict[Node, None]) -> ModuleCallSignature | None:
        """How a call is made, if that is preserved and the graph still shows it."""
        signature = self.signatures.get(numbered(call.name, call.number))
        if signature is None:
            return None
        known = [*signature.inputs, *signature.outputs]
        if any(not isinstance(item, ConstantArgument) and item.name not in self.nodes for item in known):
            return None
        inputs = [_node_of(item, self.nodes) for item in signature.inputs]
        return None if any(isinstance(node, Node) and node in inside for node in inputs) else signature

    def _repeat_numbers(self, outer: _Call, inside: dict[Node, None], graph: torch.fx.Graph,
                        values: dict[Node, Node]) -> None:
        """Sizes that were read inside of a call for the first time are read again outside where they are needed."""
        for node in inside:
            if isinstance(node.meta.get("val"), torch.SymInt) and any(user not in inside for user in node.users):
                used = node.all_input_nodes
                if node.op == "call_function" and all(other in values or self._is_state(other) for other in used):
                    self._state(graph, values, outer.name, used)
                    values[node] = graph.node_copy(node, values.__getitem__)

    def _buffer_of(self, node: Node, name: str) -> str | None:
        """The buffer of a module that gets a value in the end."""
        for user in node.users:
            if _is_assignment(user) and user.args[1] is node and self._belongs(user.args[0], name):  # type: ignore[arg-type]
                return str(user.args[0].target)[len(name) + 1 :]  # type: ignore[union-attr]
        return None

    def _belongs(self, node: Node, name: str) -> bool:
        return self._is_state(node) and str(node.target).startswith(f"{name}.")

    def _place(self, full: str, outer: str, owner: torch.nn.Module, holder: torch.nn.Module, graph: torch.fx.Graph,
               structure: CallStructure | None) -> str:
        """The submodule of the owner that does what a graph says: a new one, unless a call of before did the same."""
        shape = [structure, *_shape(graph, holder)]
        known = self.known.setdefault(full, [])
        owned = {(full, str(node.target)) for node in graph.nodes if _owned_graph(node, holder) is not None}
        for other, target in known:
            if other == shape:
                for _, name in owned - self.kept:  # those of the call before do the same
                    del own_modules(holder)[name]
                return target[len(outer) + 1 :] if outer else target
        self.kept |= owned
        target = numbered(full, len(known))
        kind = torch.fx.GraphModule if structure is None else PreservedModule
        module = kind(torch.nn.Module(), torch.fx.Graph(), class_name=type(holder).__name__)
        _set_graph(module, graph)
        for node in graph.nodes:  # how it calls modules whose signature is preserved
            if isinstance(call := vars(holder).get(str(node.target)), CallStructure):
                vars(module)[str(node.target)] = call
        if structure is not None:
            vars(module)["structure"] = structure
        for part, parameter in own_parameters(holder).items():
            module.register_parameter(part, parameter)
        for part, buffer in own_buffers(holder).items():
            module.register_buffer(part, buffer, is_saved(holder, part))
        # One table for all its calls: what the user puts in the place of a part is there for each of them.
        share_modules(module, holder)
        local = target[len(outer) + 1 :] if outer else target
        *path, last = local.split(".")
        for part in path:
            owner = _submodule(owner, part)
        owner.add_module(last, module)
        known.append((shape, target))
        return local


def _set_graph(module: torch.fx.GraphModule, graph: torch.fx.Graph) -> None:
    """Give a module another graph; torch would write the code of all modules below it again, as often as they are
    reached, and parts that are called several times are reached by many ways."""
    below = dict(own_modules(module))
    own_modules(module).clear()
    module.graph = graph
    own_modules(module).update(below)


def _read_after_writes(graph: torch.fx.Graph, results: set[str]) -> None:
    """What an operator returns that writes to a tensor in place is that tensor: whoever uses it reads the tensor.

    So a module that reads a buffer which another module has changed does not depend on that module's operations.
    ``results``: the nodes that modules are known to return.
    """
    for node in graph.nodes:
        if node.name in results or not isinstance(node.target, torch_compat.OpOverload):
            continue
        if torch_compat.returns_what_it_writes(node.target) and node.args and isinstance(node.args[0], Node):
            node.replace_all_uses_with(node.args[0])


def _is_assignment(node: Node) -> bool:
    """Whether a buffer gets another value as a whole."""
    return node.target is torch.ops.aten.copy_.default and not node.users


def _node_of(argument: Any, nodes: dict[str, Node]) -> Any:
    """The node of an argument of a signature, or the constant that it is."""
    return argument.value if isinstance(argument, ConstantArgument) else nodes[argument.name]


def _attribute(module: torch.nn.Module, node: Node) -> Any:
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _submodule(owner: torch.nn.Module, name: str) -> torch.nn.Module:
    """A submodule, made if it has no parameters and so is not there yet."""
    for part in name.split("."):
        if part not in own_modules(owner):
            owner.add_module(part, torch.nn.Module())
        owner = owner.get_submodule(part)
    return owner


def _owned_graph(node: Node, owner: torch.nn.Module) -> torch.fx.GraphModule | None:
    """The graph that a node gives to an operation, such as a branch of a condition."""
    part = own_modules(owner).get(str(node.target)) if node.op == "get_attr" else None
    return part if isinstance(part, torch.fx.GraphModule) and not isinstance(part, PreservedModule) else None


def _shape(graph: torch.fx.Graph, owner: torch.nn.Module) -> list[Any]:
    """A graph without its names, and without those of graphs that its operations own."""
    numbers = {node: number for number, node in enumerate(graph.nodes)}

    def target(node: Node) -> Any:
        if node.op == "placeholder":
            return None
        owned = _owned_graph(node, owner)
        return node.target if owned is None else _shape(owned.graph, owned)

    return [
        (node.op, target(node),
         str(torch.fx.map_arg((node.args, node.kwargs), lambda used: _Place(numbers[used])))) for node in graph.nodes
    ]  # fmt: skip


class _Place(str):
    """A node by its position."""

    def __new__(cls, number: int) -> _Place:
        return super().__new__(cls, f"%{number}")
