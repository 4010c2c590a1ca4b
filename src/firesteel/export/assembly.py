"""From a traced program to an `ExportedProgram`: results become outputs, the contract is checked, parts are named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
import torch.fx

from ..fake import FakeTensor
from ..shapes import ShapeEnv, Symbol
from ..shapes.symnode import expr_of
from ..torch_compat.pytrees import tree_flatten
from .constraints import solve
from .declared import Declared
from .errors import ExportError
from .lifting import PLAIN, Lifting, argument_of
from .module_calls import ModuleCallEntry, ModuleCallSignature, numbered
from .pre_dispatch import PreDispatchRecorder
from .program import ExportedProgram
from .signature import ConstantArgument, ExportGraphSignature, OutputKind, OutputSpec

_ATEN = torch.ops.aten
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass
class Traced:
    """What tracing found: the recorded graph without an output, and the program's result."""

    recorder: PreDispatchRecorder
    lifting: Lifting
    env: ShapeEnv
    result: Any
    """As the program returns it, with fakes, symbolic numbers, and tensors from outside as leaves."""
    stand_ins: Mapping[int, Any]
    """By the ids of leaves of the result: the fakes or numbers of the recorder that they are."""
    assigned: Sequence[tuple[str, Any]] = ()
    """Buffers that were given another tensor."""
    calls: dict[str, ModuleCallSignature] = field(default_factory=dict)
    """How submodules are called, of those that were asked for."""


def assemble(traced: Traced, declared: Declared, deferred: bool = False) -> ExportedProgram:
    """The exported program of a traced one; `deferred` as in `solve`."""
    recorder, lifting = traced.recorder, traced.lifting
    for name, value in traced.assigned:
        _assign_buffer(traced, name, value)
    recorder.assert_checks()
    leaves, out_spec = tree_flatten(traced.result)
    outputs, specs = [], []
    for position, leaf in enumerate(leaves):
        value = traced.stand_ins.get(id(leaf), leaf)
        outputs.append(_output(recorder, value, position))
        spec_arg = argument_of(outputs[-1], value) if isinstance(outputs[-1], torch.fx.Node) else ConstantArgument(
            "", outputs[-1])
        specs.append(OutputSpec(OutputKind.USER_OUTPUT, spec_arg, None))
    recorder.graph.output(tuple(outputs))
    _remove_dead_numbers(recorder.graph)
    for graph in (recorder.graph, *(part.graph for part in recorder.subgraphs.values())):
        for node in graph.nodes:
            node.meta.pop("recompute", None)  # what to compute again in the backward is for the one who trains it
    arguments = lifting.arguments
    contract = solve(declared, traced.env, deferred)
    ranges = _in_graph(contract.ranges, recorder, traced.env)
    root = torch.nn.Module()
    for name, part in recorder.subgraphs.items():
        root.add_module(name, part)
    module = torch.fx.GraphModule(root, recorder.graph)
    state = _state_dict(lifting)
    call = ModuleCallSignature([], [], arguments.spec, out_spec, arguments.forward_names)
    names = {name: None for name, _ in lifting.module.named_modules() if name} | dict.fromkeys(traced.calls)
    calls = [ModuleCallEntry("", call), *(ModuleCallEntry(name, traced.calls.get(name)) for name in names)]
    return ExportedProgram(
        graph_module=module, graph_signature=ExportGraphSignature(lifting.input_specs(), specs), state_dict=state,
        constants=lifting.all_constants(), range_constraints=ranges, guards=contract.guards,
        module_call_graph=calls, example_inputs=(arguments.args, arguments.kwargs))


def _state_dict(lifting: Lifting) -> dict[str, torch.Tensor]:
    """Parameters and buffers in the order of the module's own state_dict."""
    tensors = {entry.name: entry.tensor for entry in lifting.state if entry.persistent is not False}
    order = [name for name in lifting.module.state_dict(keep_vars=True) if name in tensors]
    return {name: tensors[name] for name in [*order, *tensors]}


def _in_graph(ranges: dict[Any, Any], recorder: PreDispatchRecorder, env: ShapeEnv) -> dict[Any, Any]:
    """Without the ranges of numbers from data that no node has: tracing made them on the way."""
    data = {symbol for symbol, info in env.symbols.items() if info.hint is None}
    if not data:
        return ranges
    used: set[Symbol] = set()
    for node in recorder.graph.nodes:
        value = node.meta.get("val")
        for part in value if isinstance(value, (tuple, list)) else (value,):
            for number in part.shape if isinstance(part, torch.Tensor) else (part,):
                if isinstance(number, _SYMBOLIC):
                    used |= env.replace(expr_of(number)).free_symbols
    return {expr: bounds for expr, bounds in ranges.items()
            if not expr.free_symbols & data or expr.free_symbols <= used}


def _output(recorder: PreDispatchRecorder, value: Any, position: int) -> Any:
    if isinstance(value, torch.Tensor):
        fake = value if isinstance(value, FakeTensor) else recorder.outside(value)
        return recorder.node_of(fake)
    if isinstance(value, _SYMBOLIC):
        return recorder.sizes.node_of(value)
    if isinstance(value, PLAIN):
        return value
    cache = "Call the model with use_cache=False, or have its config say so. " \
        if type(value).__module__.startswith("transformers.") and type(value).__name__.endswith("Cache") else ""
    raise ExportError(
        f"result {position} is an object of type {type(value).__qualname__}",
        cache + "Results are tensors, numbers, strings, None, and containers of these. Register the class as a "
        "container of them (torch.utils._pytree.register_pytree_node, register_dataclass).")


def _assign_buffer(traced: Traced, name: str, value: Any) -> None:
    """``self.buffer = tensor`` keeps the buffer and copies the tensor into it, which must be of its kind."""
    recorder = traced.recorder
    spec = next(spec for spec in traced.lifting.specs if spec.target == name)
    placeholder = next(node for node in recorder.graph.nodes if node.name == spec.arg.name)
    buffer = placeholder.meta["val"]
    if not isinstance(value, FakeTensor) or value.dtype is not buffer.dtype or str(value.shape) != str(buffer.shape):
        raise ExportError(f"forward sets the buffer {name} to something of another kind, shape or dtype",
                          "Buffers of exported programs keep their shape and dtype.")
    node = recorder.new_node(_ATEN.copy_.default, (placeholder, recorder.node_of(value)), {}, buffer)
    # The program does this at its end, whichever module ran last.
    stack = node.meta.get("nn_module_stack", {})
    node.meta["nn_module_stack"] = {key: entry for key, entry in stack.items() if not entry[0]}


def _remove_dead_numbers(graph: torch.fx.Graph) -> None:
    """Arithmetic on sizes that nobody uses. Everything else stays, as in the user's program."""
    for node in reversed(graph.nodes):
        value = node.meta.get("val")
        if node.op == "call_function" and not node.users and isinstance(value, _SYMBOLIC) and not _reads_data(node):
            graph.erase_node(node)


def _reads_data(node: torch.fx.Node) -> bool:
    return node.target is _ATEN.item.default


ModuleCall: TypeAlias = "tuple[torch.nn.Module, int]"
"""A module and the number of one of its calls."""


def module_stack_of(calls: Sequence[ModuleCall], names: Mapping[int, str]) -> dict[str, tuple[str, str]]:
    """The modules around an operation as nodes keep them: a key for every call, the name in the program, the class."""
    stack: dict[str, tuple[str, str]] = {}
    for module, number in calls:
        name = names.get(id(module))
        if name is not None:
            kind = type(module)
            key = numbered("L__self__" + ("_" + name.replace(".", "_") if name else ""), number)
            stack[key] = (name, f"{kind.__module__}.{kind.__qualname__}")
    return stack
