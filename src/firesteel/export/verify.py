"""The verifier of exported programs: graph, signature, state and contract must fit together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from .errors import VerificationError
from .graph_functions import is_graph_function
from .program import ExportedProgram
from .signature import ConstantArgument, InputKind, OutputKind, SymIntArgument, TensorArgument

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def verify(program: ExportedProgram) -> None:
    """Raise `VerificationError` with everything that is wrong."""
    problems = list(_problems(program))
    if problems:
        more = f" (and {len(problems) - 8} more)" if len(problems) > 8 else ""
        raise VerificationError("\n".join(problems[:8]) + more)


def _problems(program: ExportedProgram) -> Iterator[str]:
    yield from _graph_problems(program.graph_module, "the graph")
    yield from _input_problems(program)
    yield from _output_problems(program)
    yield from _call_problems(program)
    for expr, bounds in program.range_constraints.items():
        if bounds.lower is not None and bounds.upper is not None and bounds.lower > bounds.upper:
            yield f"the range of {expr} is empty: {bounds!r}"


# ---------------------------------------------------------------------------------------------------------------------
# graphs


def _graph_problems(module: torch.fx.GraphModule, where: str) -> Iterator[str]:
    graph = module.graph
    try:
        graph.lint()
    except RuntimeError as error:
        yield f"{where}: {error}"
        return
    outputs = [node for node in graph.nodes if node.op == "output"]
    if len(outputs) != 1:
        yield f"{where} has {len(outputs)} output nodes"
    behind_inputs = False
    for node in graph.nodes:
        if node.op == "placeholder":
            if behind_inputs:
                yield f"{where}: the input {node.name} stands behind operations"
            if "val" not in node.meta:
                yield f"{where}: {node.name} has no meta['val']"
            continue
        behind_inputs = behind_inputs or node.op != "get_attr"
        if node.op == "get_attr":
            yield from _attribute_problems(module, node, where)
        elif node.op == "call_function":
            yield from _operation_problems(node, where)
        elif node.op != "output":
            yield f"{where}: {node.name} is a {node.op}; programs have call_function only"


def _attribute_problems(module: torch.fx.GraphModule, node: torch.fx.Node, where: str) -> Iterator[str]:
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    if isinstance(value, torch.fx.GraphModule):
        yield from _graph_problems(value, f"{node.target} of {where}")
    else:
        yield f"{where}: {node.name} reads the attribute {node.target}, which is no graph; tensors are inputs"


def _operation_problems(node: torch.fx.Node, where: str) -> Iterator[str]:
    target: Any = node.target
    if "val" not in node.meta:
        yield f"{where}: {node.name} has no meta['val']"
    for value in _plain_values((node.args, node.kwargs)):
        if isinstance(value, (torch.Tensor, *_SYMBOLIC)):
            yield f"{where}: {node.name} has a {type(value).__name__} as an argument; it must be a node"
    if isinstance(target, torch_compat.OpOverload):
        yield from _schema_problems(node, target, where)
    elif not is_graph_function(target) and not isinstance(target, torch_compat.HigherOrderOperator):
        yield f"{where}: {node.name} calls {target}, which is neither an operator nor arithmetic on sizes"


def _plain_values(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _plain_values(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _plain_values(item)
    else:
        yield value


def _schema_problems(node: torch.fx.Node, target: Any, where: str) -> Iterator[str]:
    schema = torch_compat.schema_of(target)
    positional = [argument for argument in schema.arguments if not argument.kwarg_only]
    if len(node.args) > len(positional):
        yield f"{where}: {node.name} passes {len(node.args)} arguments to {target}, which takes {len(positional)}"
    given = {argument.name for argument in positional[:len(node.args)]}
    known = {argument.name for argument in schema.arguments}
    for name in node.kwargs:
        if name not in known:
            yield f"{where}: {node.name} passes {name}=, which {target} does not take"
        if name in given:
            yield f"{where}: {node.name} passes {name} twice to {target}"
    for argument in schema.arguments:
        if not argument.has_default_value() and argument.name not in given and argument.name not in node.kwargs \
                and not str(argument.type).startswith("Optional"):
            yield f"{where}: {node.name} does not pass {argument.name} to {target}"


# ---------------------------------------------------------------------------------------------------------------------
# signature


def _input_problems(program: ExportedProgram) -> Iterator[str]:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    specs = program.graph_signature.input_specs
    if [node.name for node in placeholders] != [spec.arg.name for spec in specs]:
        yield (f"the inputs of the graph are {[node.name for node in placeholders]}, those of the signature "
               f"{[spec.arg.name for spec in specs]}")
        return
    for node, spec in zip(placeholders, specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, TensorArgument) and not isinstance(node.meta.get("val"), torch.Tensor):
                yield f"{node.name} is a tensor in the signature and {node.meta.get('val')!r} in the graph"
            continue
        table = program.state_dict if spec.kind is InputKind.PARAMETER or spec.persistent else program.constants
        tensor = table.get(spec.target or "")
        if tensor is None:
            yield f"{spec.target}, which {node.name} stands for, is missing among the program's tensors"
        elif spec.kind is not InputKind.CUSTOM_OBJ and (
                tuple(tensor.shape) != tuple(node.meta["val"].shape) or tensor.dtype is not node.meta["val"].dtype):
            yield (f"{spec.target} is {tensor.dtype}{list(tensor.shape)}, but {node.name} is "
                   f"{node.meta['val'].dtype}{list(node.meta['val'].shape)}")


def _output_problems(program: ExportedProgram) -> Iterator[str]:
    output = next((node for node in program.graph.nodes if node.op == "output"), None)
    if output is None:
        return
    values, specs = output.args[0], program.graph_signature.output_specs
    if not isinstance(values, (tuple, list)) or len(values) != len(specs):
        count = len(values) if isinstance(values, (tuple, list)) else 1
        yield f"the graph has {count} outputs, the signature {len(specs)}"
        return
    targets = {spec.target if spec.target is not None else spec.arg.name
               for spec in program.graph_signature.input_specs}
    for position, (value, spec) in enumerate(zip(values, specs, strict=True)):
        if isinstance(spec.arg, (TensorArgument, SymIntArgument)):
            if not isinstance(value, torch.fx.Node) or value.name != spec.arg.name:
                yield f"output {position} is {value} in the graph and {spec.arg.name} in the signature"
        elif isinstance(spec.arg, ConstantArgument) and isinstance(value, torch.fx.Node):
            if value.op != "placeholder":
                yield f"output {position} is {value} in the graph and the constant {spec.arg.value!r} in the signature"
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT) and spec.target not in targets:
            yield f"output {position} is the new value of {spec.target}, which is no input"
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in specs):
        for node in program.graph.nodes:
            if isinstance(node.target, torch_compat.OpOverload) and torch_compat.mutates_arguments(node.target):
                yield f"{node.name} writes to its arguments in a program that returns what it changes"


def _call_problems(program: ExportedProgram) -> Iterator[str]:
    entry = program.module_call_graph[0] if program.module_call_graph else None
    if entry is None or entry.fqn != "" or entry.signature is None:
        yield "the module call graph does not begin with the program itself"
        return
    inputs = len(program.graph_signature.user_inputs)
    outputs = len(program.graph_signature.user_outputs)
    if entry.signature.in_spec.num_leaves != inputs:
        yield f"a call has {entry.signature.in_spec.num_leaves} inputs, the graph {inputs}"
    if entry.signature.out_spec.num_leaves != outputs:
        yield f"a call has {entry.signature.out_spec.num_leaves} results, the graph {outputs}"
