"""Programs of torch's files as programs of firesteel."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import torch

from ...torch_compat.pytrees import tree_flatten
from ..program import ExportedProgram
from ..saving.errors import SavedProgramError
from ..saving.programs import read_program
from ..saving.schema import (
    SavedArgument,
    SavedCall,
    SavedInput,
    SavedOutput,
    SavedProgram,
    SavedRange,
    SavedSignature,
    SavedSymbol,
    SavedTensor,
    read,
)
from . import higher_order  # noqa: F401  (registers what it reads)
from .archive import EXAMPLES, EXTRA, MODELS, TorchArchive
from .arguments import field, only, read_argument, read_float
from .expressions import read_expression
from .graphs import read_outermost
from .guards import read_guards
from .metadata import Sizes
from .payloads import PayloadReader, read_tables
from .trees import read_torch_tree

_MAJOR = 8
"""The version of the schema that torch 2.11 to 2.15 write."""
_INPUTS = {"parameter": ("PARAMETER", "parameter_name"), "buffer": ("BUFFER", "buffer_name"),
           "tensor_constant": ("CONSTANT_TENSOR", "tensor_constant_name")}
_OUTPUTS = {
    "loss_output": ("LOSS_OUTPUT", ""), "buffer_mutation": ("BUFFER_MUTATION", "buffer_name"),
    "parameter_mutation": ("PARAMETER_MUTATION", "parameter_name"),
    "gradient_to_parameter": ("GRADIENT_TO_PARAMETER", "parameter_name"),
    "gradient_to_user_input": ("GRADIENT_TO_USER_INPUT", "user_input_name"),
    "user_input_mutation": ("USER_INPUT_MUTATION", "user_input_name"),
}  # fmt: skip
_ARGUMENTS = {"as_tensor": "TensorArgument", "as_sym_int": "SymIntArgument", "as_sym_float": "SymFloatArgument",
              "as_sym_bool": "SymBoolArgument"}


def load_torch_program(archive: TorchArchive, device: torch.device | None,
                       extra_files: dict[str, Any] | None) -> ExportedProgram:
    """The program of an archive. Raises ValueError and `SavedProgramError`."""
    model = archive.model()
    data = json.loads(archive.text(f"{MODELS}{model}.json"))
    version = field(data, "schema_version", dict)
    if version.get("major") != _MAJOR:
        raise SavedProgramError(
            f"{archive.name} is of version {version.get('major')}.{version.get('minor')} of torch's format, this "
            f"firesteel reads {_MAJOR}", "Load it with the torch that wrote it and save it with torch 2.11 to 2.15.")
    try:
        saved = read(SavedProgram, _program(data, *read_tables(archive, model)))
        program = read_program(saved, PayloadReader(archive, device), PayloadReader(archive, device))
        program.guards = read_guards(program, [text for text in data.get("guards_code") or [] if isinstance(text, str)])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    program.example_inputs = _examples(archive, model, program, device)
    for name in extra_files if extra_files is not None else ():
        extra_files[name] = archive.read(EXTRA + name)  # type: ignore[index]
    return program


def _program(data: Any, state: list[SavedTensor], constants: list[SavedTensor]) -> SavedProgram:
    sizes = Sizes()
    module = field(data, "graph_module", dict)
    specs = field(module, "signature", dict)
    inputs = [_input(spec, position) for position, spec in enumerate(field(specs, "input_specs", list))]
    outputs = [_output(spec) for spec in field(specs, "output_specs", list)]
    graph, places = read_outermost(field(module, "graph", dict), sizes, [spec.argument.name for spec in inputs])
    ranges = [_range(text, bounds, sizes) for text, bounds in data.get("range_constraints", {}).items()]
    calls = [SavedCall(field(call, "fqn", str), _call(call.get("signature")))
             for call in field(module, "module_call_graph", list)]
    signatures = [call.signature for call in calls if call.signature is not None]
    for argument in (*(spec.argument for spec in outputs), *(
            item for signature in signatures for item in (*signature.inputs, *signature.outputs))):
        argument.name = places.get(argument.name, argument.name)
    sources = _sources(graph.nodes)
    # torch gives integers that are inputs the range of sizes, whatever the example is, and does not check it
    ranges = [entry for entry in ranges if _inside(sizes.hints.get(entry.expr), entry)]
    bounds = {entry.expr: entry for entry in ranges}
    symbols = [_symbol(name, kind, sizes, bounds.get(name), sources) for name, kind in sizes.kinds.items()]
    return SavedProgram("", str(data.get("torch_version")), symbols, ranges, [], inputs, outputs, graph, state,
                        constants, calls, None)  # fmt: skip


def _symbol(name: str, kind: str, sizes: Sizes, bounds: SavedRange | None, sources: dict[str, str]) -> SavedSymbol:
    hint = sizes.hints.get(name) if name in sources else None
    lower, upper = (None, None) if bounds is None or kind != "int" else (bounds.lower, bounds.upper)
    if hint is not None and not _inside(hint, bounds):
        lower = upper = None
    return SavedSymbol(name, kind, hint, lower, upper, sources.get(name, name))


def _inside(hint: Any, bounds: SavedRange | None) -> bool:
    return hint is None or bounds is None or (
        (bounds.lower is None or hint >= bounds.lower) and (bounds.upper is None or hint <= bounds.upper))


def _sources(nodes: list[Any]) -> dict[str, str]:
    """Where in the inputs each symbol is found."""
    sources: dict[str, str] = {}
    for node in nodes:
        if node.op == "placeholder":
            known = node.value.get("tensor", {}).get("shape", [])
            for dim, size in enumerate(known):
                if isinstance(size, str):
                    sources.setdefault(size, f"{node.name}.size({dim})")
            if isinstance(node.value.get("number"), str):
                sources.setdefault(node.value["number"], node.name)
    return sources


def _range(text: str, bounds: Any, sizes: Sizes) -> SavedRange:
    expr = read_expression(text, kinds=sizes.kinds)
    sizes.kinds.update({symbol.name: symbol.kind for symbol in expr.free_symbols})
    lower, upper = bounds.get("min_val"), bounds.get("max_val")
    return SavedRange(str(expr), None if lower is None else int(lower), None if upper is None else int(upper))


def _argument(data: Any, name: str = "") -> SavedArgument:
    kind, content = only(data, "argument")
    value = read_argument(data)
    if kind in _ARGUMENTS and isinstance(value, dict) and "node" in value:
        return SavedArgument(_ARGUMENTS[kind], value["node"])
    return SavedArgument("ConstantArgument", name, value)


def _input(spec: Any, position: int) -> SavedInput:
    kind, content = only(spec, "input")
    if kind in _INPUTS:
        name, target = _INPUTS[kind]
        argument = SavedArgument("TensorArgument", field(field(content, "arg", dict), "name", str))
        return SavedInput(name, argument, field(content, target, str), content.get("persistent"))
    if kind == "user_input":
        return SavedInput("USER_INPUT", _argument(content["arg"], f"arg{position}"), None, None)
    if kind == "constant_input":
        what, value = only(content["value"], "constant")
        value = None if what == "as_none" else read_float(value) if what == "as_float" else value
        return SavedInput("USER_INPUT", SavedArgument("ConstantArgument", field(content, "name", str), value), None,
                          None)
    raise ValueError(f"inputs of the kind {kind[:40]} are not supported"
                     + (": objects of registered classes are pickled" if kind == "custom_obj" else ""))


def _output(spec: Any) -> SavedOutput:
    kind, content = only(spec, "output")
    if kind == "user_output":
        return SavedOutput("USER_OUTPUT", _argument(content["arg"]), None)
    if kind not in _OUTPUTS:
        raise ValueError(f"outputs of the kind {kind[:40]} are not supported")
    name, target = _OUTPUTS[kind]
    argument = SavedArgument("TensorArgument", field(field(content, "arg", dict), "name", str))
    return SavedOutput(name, argument, field(content, target, str) if target else None)


def _call(signature: Any) -> SavedSignature | None:
    if signature is None:
        return None
    names = signature.get("forward_arg_names")
    in_tree = read_torch_tree(field(signature, "in_spec", str))
    count = sum(len(next(iter(part.values()))) for part in in_tree["tuple"])
    return SavedSignature(
        [_argument(item) for item in signature["inputs"]], [_argument(item) for item in signature["outputs"]],
        in_tree, read_torch_tree(field(signature, "out_spec", str)),
        names if isinstance(names, list) and len(names) == count else None)  # fmt: skip


def _examples(archive: TorchArchive, model: str, program: ExportedProgram, device: torch.device | None) -> Any:
    """The example inputs, if they can be read without running anything: tensors and plain containers of them."""
    part = f"{EXAMPLES}{model}.pt"
    if part not in archive.parts or not archive.parts[part].file_size:
        return None
    try:
        examples = torch.load(io.BytesIO(archive.read(part)), weights_only=True, map_location=device)
    except (pickle.UnpicklingError, RuntimeError, AttributeError, TypeError, ValueError, KeyError, EOFError):
        return None
    fits = isinstance(examples, (tuple, list)) and len(examples) == 2 and \
        tree_flatten(tuple(examples))[1] == program.in_spec
    return tuple(examples) if fits else None
