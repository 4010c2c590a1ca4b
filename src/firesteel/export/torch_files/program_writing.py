"""Programs in the form that `torch.export.load` reads."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import IO, Any

import torch

from ... import torch_compat
from ...shapes import Expr, Symbol
from ...shapes.expr import Scalar
from ...shapes.printing import print_python
from ...shapes.symnode import expr_of
from ...torch_compat.pytrees import tree_leaves
from ..module_calls import ModuleCallSignature
from ..program import ExportedProgram
from ..saving.errors import SavedProgramError
from ..saving.programs import environment_of, numbers_of
from ..signature import (
    ArgumentSpec,
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from .archive import ARCHIVE_VERSION, CONSTANTS, EXAMPLES, EXTRA, FORMAT, MODELS, WEIGHTS, write_archive
from .graph_writing import GraphWriting, outermost_module
from .guards import places_of_inputs
from .naming import renaming
from .payload_writing import Payloads
from .trees import write_torch_tree
from .values import Metadata, write_constant, write_float

_MODEL = "model"
_VERSION = {"major": 8, "minor": 0}
_INPUTS = {InputKind.PARAMETER: ("parameter", "parameter_name"), InputKind.BUFFER: ("buffer", "buffer_name"),
           InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name")}
_OUTPUTS = {
    OutputKind.LOSS_OUTPUT: ("loss_output", None), OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
    OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
}  # fmt: skip


def save_for_torch(program: ExportedProgram, file: str | IO[bytes],
                   extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a file that `torch.export.load` reads. Raises `SavedProgramError` where it has no form for the program."""
    weights, constants = Payloads(WEIGHTS, "weight_"), Payloads(CONSTANTS, "tensor_")
    weights.add_all(program.state_dict, "parameter or buffer")
    constants.add_all(program.constants, "constant")
    text = json.dumps(write_program(program)).encode()

    def parts() -> Iterator[tuple[str, bytes | memoryview]]:
        for payloads, what in ((weights, "weights"), (constants, "constants")):
            yield from payloads.parts()
            yield f"{payloads.folder}{_MODEL}_{what}_config.json", json.dumps({"config": payloads.config}).encode()
        yield f"{MODELS}{_MODEL}.json", text
        yield f"{EXAMPLES}{_MODEL}.pt", _examples(program)
        for name, data in (extra_files or {}).items():
            yield EXTRA + name, data.encode() if isinstance(data, str) else data
        yield from ((FORMAT, b"pt2"), (ARCHIVE_VERSION, b"0"), ("byteorder", b"little"), (".data/version", b"6\n"))

    write_archive(file, parts())


def _examples(program: ExportedProgram) -> bytes:
    """The example inputs as torch saves them, where they are tensors and plain values."""
    plain = (torch.Tensor, bool, int, float, str, complex, type(None))
    if program.example_inputs is None or not all(
            isinstance(leaf, plain) for leaf in tree_leaves(program.example_inputs)):
        return b""
    buffer = io.BytesIO()
    torch.save(program.example_inputs, buffer)
    return buffer.getvalue()


def write_program(program: ExportedProgram) -> dict[str, Any]:
    """The program without its tensors."""
    env = environment_of(program)
    hints: dict[Symbol, Scalar] = dict(env.hints) if env is not None else {}
    renamed = renaming(_symbols(program), hints)
    metadata = Metadata(renamed, hints, outermost_module(program.graph))
    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": GraphWriting(program.graph_module, metadata).graph(),
            "signature": {"input_specs": [_input(spec, program) for spec in signature.input_specs],
                          "output_specs": [_output(spec) for spec in signature.output_specs]},
            "module_call_graph": [{"fqn": entry.fqn, "signature": _call(entry.signature)}
                                  for entry in program.module_call_graph],
            "metadata": {}, "treespec_namedtuple_fields": {},
        },
        "opset_version": {"aten": torch_compat.operator_version()},
        "range_constraints": _ranges(program, renamed),
        "schema_version": _VERSION, "verifiers": ["ATEN" if _is_functional(program) else "TRAINING"],
        "torch_version": str(torch.__version__), "guards_code": _guards(program),
    }  # fmt: skip


def _symbols(program: ExportedProgram) -> list[Symbol]:
    """The symbols of a program in the order in which it speaks of them."""
    symbols: dict[Symbol, None] = {}
    exprs: list[Any] = []
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                exprs += numbers_of(node.meta.get("val"))
    for expr in (*exprs, *program.range_constraints, *(guard.expr for guard in program.guards)):
        if isinstance(expr, Expr):
            symbols.update(dict.fromkeys(sorted(expr.free_symbols, key=str)))
    return list(symbols)


def _ranges(program: ExportedProgram, renamed: Mapping[Expr, Expr]) -> dict[str, Any]:
    ranges = {}
    for expr, bounds in program.range_constraints.items():
        new = renamed.get(expr)
        if isinstance(new, Symbol):
            ranges[new.name] = {"min_val": bounds.lower, "max_val": bounds.upper}
        elif isinstance(expr, Symbol) and expr.kind == "bool" and new is not None:
            ranges[next(iter(new.free_symbols)).name] = {"min_val": 0, "max_val": 1}
    for old, new in renamed.items():
        if isinstance(old, Symbol) and old.kind == "bool":
            ranges[next(iter(new.free_symbols)).name] = {"min_val": 0, "max_val": 1}
    return ranges


def _is_functional(program: ExportedProgram) -> bool:
    """Whether nothing in the graphs writes to anything, and the program was decomposed."""
    targets = [node.target for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)
               for node in module.graph.nodes if isinstance(node.target, torch_compat.OpOverload)]
    return not any(torch_compat.mutates_arguments(target) or torch_compat.can_decompose(target) for target in targets)


def _guards(program: ExportedProgram) -> list[str]:
    """Conditions on sizes beyond ranges and equal symbols, as Python of the arguments' names."""
    sources: dict[Symbol, str] = {}
    derived: list[tuple[str, Expr]] = []
    for place, value in places_of_inputs(program).items():
        numbers = [(f"{place}.size()[{dim}]", size) for dim, size in enumerate(value.shape)] \
            if isinstance(value, torch.Tensor) else [(place, value)]
        for text, number in numbers:
            if not isinstance(number, (torch.SymInt, torch.SymFloat)):
                continue
            expr = expr_of(number)
            if isinstance(expr, Symbol):
                sources.setdefault(expr, text)
            elif not expr.is_constant:
                derived.append((text, expr))
    known = sources.keys()
    texts = [f"{text} == {print_python(expr, sources)}" for text, expr in derived if expr.free_symbols <= known]
    for guard in program.guards:
        if not guard.expr.free_symbols <= known:
            raise SavedProgramError(f"torch's files have no form for the condition {guard.expr}, which is on sizes "
                                    "that no input has by themselves")
        texts.append(print_python(guard.expr, sources))
    return texts


def _argument(argument: ArgumentSpec) -> dict[str, Any]:
    match argument:
        case TensorArgument(name):
            return {"as_tensor": {"name": name}}
        case SymIntArgument(name):
            return {"as_sym_int": {"as_name": name}}
        case SymFloatArgument(name):
            return {"as_sym_float": {"as_name": name}}
        case ConstantArgument(_, value):
            return write_constant(value)
    raise SavedProgramError(f"torch's files have no form for {argument.name}, which is a "
                            f"{type(argument).__name__.removesuffix('Argument')}")


def _input(spec: InputSpec, program: ExportedProgram) -> dict[str, Any]:
    if spec.kind in _INPUTS:
        kind, target = _INPUTS[spec.kind]
        content: dict[str, Any] = {"arg": {"name": spec.arg.name}, target: spec.target}
        if spec.kind is InputKind.BUFFER:
            content["persistent"] = spec.target in program.state_dict
        return {kind: content}
    if spec.kind is not InputKind.USER_INPUT:
        raise SavedProgramError(f"torch's files have no form for {spec.target}, an object that is no tensor")
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _constant(spec.arg)}}
    return {"user_input": {"arg": _argument(spec.arg)}}


def _constant(argument: ConstantArgument) -> dict[str, Any]:
    value = argument.value
    if value is None:
        return {"as_none": True}
    if type(value) is float:
        return {"as_float": write_float(value)}
    if type(value) in (bool, int, str):
        return {{bool: "as_bool", int: "as_int", str: "as_string"}[type(value)]: value}
    raise SavedProgramError(f"torch's files have no form for the input {argument.name}, which is a "
                            f"{type(value).__qualname__}", "Pass tensors, numbers, texts and None.")


def _output(spec: OutputSpec) -> dict[str, Any]:
    if spec.kind is OutputKind.USER_OUTPUT:
        if isinstance(spec.arg, ConstantArgument) and isinstance(spec.arg.value, str):
            raise SavedProgramError(f"torch's files have no form for the result {spec.arg.value!r}",
                                    "Return texts outside of the program.")
        return {"user_output": {"arg": _argument(spec.arg)}}
    if spec.kind not in _OUTPUTS:
        raise SavedProgramError(f"torch's files have no form for outputs of the kind {spec.kind.name}")
    kind, target = _OUTPUTS[spec.kind]
    return {kind: {"arg": {"name": spec.arg.name}} | ({} if target is None else {target: spec.target})}


def _call(signature: ModuleCallSignature | None) -> dict[str, Any] | None:
    if signature is None:
        return None
    return {
        "inputs": [_argument(item) for item in signature.inputs],
        "outputs": [_argument(item) for item in signature.outputs],
        "in_spec": write_torch_tree(signature.in_spec), "out_spec": write_torch_tree(signature.out_spec),
        "forward_arg_names": signature.forward_arg_names,
    }  # fmt: skip
