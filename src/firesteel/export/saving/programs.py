"""Whole programs as the objects of `schema` and back."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...errors import UserFrame
from ...shapes import Expr, Provenance, ShapeEnv, ShapeGuard, Symbol
from ...shapes.symnode import expr_of
from ...torch_compat.pytrees import children_of, tree_flatten, tree_unflatten
from .. import signature as signatures
from ..module_calls import ModuleCallEntry, ModuleCallSignature
from ..program import ExportedProgram
from ..ranges import ValueRanges
from ..signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec
from .errors import SavedProgramError
from .graphs import GraphReader, checked_name, write_graph, write_size
from .schema import (
    SavedArgument,
    SavedCall,
    SavedGuard,
    SavedInput,
    SavedOutput,
    SavedProgram,
    SavedRange,
    SavedSignature,
    SavedSymbol,
)
from .tensors import TensorReader, TensorWriter
from .trees import read_tree, write_tree
from .values import read_value, write_value

_ARGUMENTS: dict[str, Any] = {
    kind.__name__: kind for kind in (
        signatures.TensorArgument, signatures.SymIntArgument, signatures.SymFloatArgument, signatures.SymBoolArgument,
        signatures.ConstantArgument, signatures.TokenArgument)
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------------------
# writing


def write_program(program: ExportedProgram, versions: tuple[str, str], weights: TensorWriter,
                  examples: TensorWriter) -> SavedProgram:
    """The program without its tensors, which go to the writers."""
    count = len(program.state_dict)
    tensors = {f"state {name}": tensor for name, tensor in program.state_dict.items()}
    tensors.update({f"constant {name}": tensor for name, tensor in program.constants.items()})
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise SavedProgramError(f"{name} is an object of type {type(tensor).__qualname__}", "Tensors can be saved.")
    saved = weights.add_all(tensors)
    for entry, tensor_name in zip(saved, tensors, strict=True):
        entry.name = tensor_name.split(" ", 1)[1]
    return SavedProgram(
        *versions, _write_symbols(program),
        [SavedRange(str(expr), bounds.lower, bounds.upper) for expr, bounds in program.range_constraints.items()],
        [_write_guard(guard) for guard in program.guards],
        [SavedInput(spec.kind.name, _write_argument(spec.arg), spec.target, spec.persistent)
         for spec in program.graph_signature.input_specs],
        [SavedOutput(spec.kind.name, _write_argument(spec.arg), spec.target)
         for spec in program.graph_signature.output_specs],
        write_graph(program.graph_module), saved[:count], saved[count:],
        [SavedCall(entry.fqn, _write_signature(entry.signature)) for entry in program.module_call_graph],
        _write_examples(program, examples))  # fmt: skip


def _write_symbols(program: ExportedProgram) -> list[SavedSymbol]:
    """All symbols that the program speaks of, with what the environment of its trace knows about them."""
    env = environment_of(program)
    symbols: dict[Symbol, None] = {}
    exprs: list[Any] = [*program.range_constraints, *(guard.expr for guard in program.guards)]
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                exprs += numbers_of(node.meta.get("val"))
    for expr in exprs:
        if isinstance(expr, Expr):
            symbols.update(dict.fromkeys(sorted(expr.free_symbols, key=str)))
    saved = []
    for symbol in symbols:
        info = env.symbols.get(symbol) if env is not None else None
        bounds = env.interval(symbol) if env is not None and symbol.kind == "int" else None
        lower, upper = (None, None) if bounds is None else (
            None if abs(end) == math.inf else int(end) for end in (bounds.lower, bounds.upper))
        saved.append(SavedSymbol(symbol.name, symbol.kind, info.hint if info else None, lower, upper,
                                 info.source_name if info else ""))
    return saved


def environment_of(program: ExportedProgram) -> ShapeEnv | None:
    """The environment in which a program's symbols live, if it has any."""
    for node in program.graph.nodes:
        for number in symbolic_numbers(node.meta.get("val")):
            return number.node.shape_env.env
    return None


def symbolic_numbers(value: Any) -> list[Any]:
    """The symbolic numbers in what is known about a value."""
    if isinstance(value, torch.Tensor):
        numbers = [*value.shape, *value.stride(), value.storage_offset()] if value.layout is torch.strided else []
    else:
        numbers = list(value) if isinstance(value, (tuple, list)) else [value]
    symbolic = []
    for number in numbers:
        if isinstance(number, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            symbolic.append(number)
        elif isinstance(number, (torch.Tensor, tuple, list)):
            symbolic += symbolic_numbers(number)
    return symbolic


def numbers_of(value: Any) -> list[Expr]:
    """The expressions in what is known about a value."""
    return [expr_of(number) for number in symbolic_numbers(value)]


def _write_guard(guard: ShapeGuard) -> SavedGuard:
    frame = guard.provenance.frame
    if frame is None:
        return SavedGuard(str(guard.expr), None, None, None, guard.provenance.op)
    return SavedGuard(str(guard.expr), frame.filename, frame.lineno, frame.function, guard.provenance.op)


def _write_argument(argument: Any) -> SavedArgument:
    if type(argument).__name__ not in _ARGUMENTS:
        raise SavedProgramError(f"{argument.name} is an object, which cannot be saved")
    return SavedArgument(type(argument).__name__, argument.name, write_value(getattr(argument, "value", None)))


def _write_signature(signature: ModuleCallSignature | None) -> SavedSignature | None:
    if signature is None:
        return None
    return SavedSignature(
        [_write_argument(item) for item in signature.inputs], [_write_argument(item) for item in signature.outputs],
        write_tree(signature.in_spec), write_tree(signature.out_spec), signature.forward_arg_names)


def _write_examples(program: ExportedProgram, tensors: TensorWriter) -> list[Any] | None:
    """The leaves of the example inputs; None if there are none, or some that are neither tensors nor plain values."""
    if program.example_inputs is None:
        return None
    leaves, spec = tree_flatten(program.example_inputs)
    if spec != program.in_spec:
        return None
    given = {str(number): leaf for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    try:
        places = {entry.name: vars(entry) for entry in tensors.add_all(given)}
        return [{"tensor": places[str(number)]} if str(number) in given else {"value": write_value(leaf)}
                for number, leaf in enumerate(leaves)]
    except SavedProgramError:
        return None


# ---------------------------------------------------------------------------------------------------------------------
# reading


def read_program(saved: SavedProgram, weights: TensorReader, examples: TensorReader) -> ExportedProgram:
    """The program. Raises ValueError."""
    env = ShapeEnv()
    symbols = {entry.name: _read_symbol(env, entry) for entry in saved.symbols}
    reader = GraphReader(env, symbols)
    guards = [_read_guard(reader, entry) for entry in saved.guards]
    for guard in guards:
        env.assume(guard.expr)
    module = reader.graph(saved.graph)
    inputs = [InputSpec(_kind(InputKind, entry.kind), _read_argument(entry.argument), _read_path(entry.target),
                        entry.persistent) for entry in saved.inputs]
    outputs = [OutputSpec(_kind(OutputKind, entry.kind), _read_argument(entry.argument), entry.target)
               for entry in saved.outputs]
    calls = [ModuleCallEntry(entry.name, _read_signature(entry.signature)) for entry in saved.calls]
    if not calls or calls[0].signature is None:
        raise ValueError("calls: how the program is called is missing")
    tensors = [weights.read_all(part) for part in (saved.state, saved.constants)]
    for name in (*tensors[0], *tensors[1]):
        _read_path(name)
    program = ExportedProgram(
        graph_module=module, graph_signature=ExportGraphSignature(inputs, outputs), state_dict=tensors[0],
        constants=tensors[1], module_call_graph=calls, guards=guards, example_inputs=None,
        range_constraints={reader.expr(entry.expr): ValueRanges(entry.lower, entry.upper) for entry in saved.ranges})
    program.example_inputs = _read_examples(program, saved.examples, examples)
    return program


def _read_symbol(env: ShapeEnv, saved: SavedSymbol) -> Symbol:
    if saved.kind not in ("int", "float", "bool"):
        raise ValueError(f"symbols: {saved.kind[:40]} is no kind")
    lower = -math.inf if saved.lower is None else saved.lower
    upper = math.inf if saved.upper is None else saved.upper
    env.reserved.add(checked_name(saved.name))
    kind: Any = saved.kind
    return env.new_symbol(saved.hint, saved.source, kind=kind, name=saved.name, lower=lower, upper=upper)


def _read_guard(reader: GraphReader, saved: SavedGuard) -> ShapeGuard:
    expr = reader.expr(saved.expr)
    if expr.kind != "bool":
        raise ValueError(f"guards: {saved.expr[:80]} is no condition")
    frames = () if saved.file is None else (UserFrame(saved.file, saved.line or 0, saved.function or ""),)
    return ShapeGuard(expr, Provenance(frames, op=saved.op))


def _kind(enum: Any, name: str) -> Any:
    if name not in enum.__members__:
        raise ValueError(f"{name[:40]} is no {enum.__name__}")
    return enum[name]


def _read_path(name: str | None) -> str | None:
    """A name such as ``layer.0.weight``, whose parts may be numbers."""
    if name is not None and not all(
            [part.isdecimal() or part.replace("-", "_").isidentifier() for part in name.split(".")]):
        raise ValueError(f"{name[:80]!r} is no name of a tensor")
    return name


def _read_argument(saved: SavedArgument) -> Any:
    kind = _ARGUMENTS.get(saved.kind)
    if kind is None:
        raise ValueError(f"{saved.kind[:40]} is no kind of argument")
    return kind(saved.name, read_value(saved.value)) if kind is signatures.ConstantArgument else kind(saved.name)


def _read_signature(saved: SavedSignature | None) -> ModuleCallSignature | None:
    if saved is None:
        return None
    given = read_tree(saved.in_tree)
    parts = children_of(given)
    if given.type is not tuple or [part.type for part in parts] != [tuple, dict] or \
            not all(isinstance(key, str) for key in parts[1].context):
        raise ValueError("a call without a tuple of arguments and a dict of keyword arguments")
    if saved.argument_names is not None and len(saved.argument_names) != sum(len(children_of(part)) for part in parts):
        raise ValueError("not as many names as arguments")
    return ModuleCallSignature(
        [_read_argument(item) for item in saved.inputs], [_read_argument(item) for item in saved.outputs],
        given, read_tree(saved.out_tree), saved.argument_names)


def _read_examples(program: ExportedProgram, saved: list[Any] | None, tensors: TensorReader) -> Any:
    from .schema import SavedTensor, read

    if saved is None:
        return None
    leaves = []
    for number, item in enumerate(saved):
        if not isinstance(item, dict) or len(item) != 1:
            raise ValueError(f"examples[{number}]: neither a tensor nor a value")
        if "tensor" in item:
            entry = read(SavedTensor, item["tensor"], f"examples[{number}]")
            leaves.append(tensors.read_all([entry])[entry.name])
        else:
            leaves.append(read_value(item.get("value")))
    if len(leaves) != program.in_spec.num_leaves:
        raise ValueError("examples: not as many as the program takes")
    return tree_unflatten(leaves, program.in_spec)


__all__ = ["environment_of", "numbers_of", "read_program", "symbolic_numbers", "write_program", "write_size"]
