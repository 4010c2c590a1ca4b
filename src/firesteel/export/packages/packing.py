"""`package`: exported programs, compiled ahead of time, in one file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ...devices import kind_of
from ...errors import UnsupportedError, UserCodeError
from ...functional.graph import FunctionalGraph, Unsupported
from ...kernels.cpu.target import Target, avx2, host, host_architecture
from ...kernels.ir import Buffer, BufferRef
from ...kernels.options import make_options
from ...kernels.shared_object.build import build
from ...kernels.shared_object.interface import Weight, needed_features
from ...kernels.shared_object.planned import NotPackageable, Planned
from ...kernels.shared_object.program import Contract
from ...pipeline.package_plans import plan_graph
from ...shapes import Expr, ShapeGuard, Symbol
from ...torch_compat.tensors import storage_address
from ...version import __version__
from ..callable_module import MUTATIONS, add_output
from ..program import ExportedProgram
from ..saving.errors import SavedProgramError
from ..saving.trees import write_tree
from ..saving.values import write_value
from ..signature import ConstantArgument, InputKind
from .archive import HEADER, PAGE, WEIGHTS, ArchiveWriter
from .errors import PackageError
from .weights import Layout, Store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_CPUS: dict[str, Callable[[], Target]] = {"native": host, "avx2": avx2}


@dataclass
class _Model:
    """A model on its way into a package."""

    program: ExportedProgram
    planned: Planned
    inputs: list[str]
    outputs: list[str]
    guards: list[ShapeGuard]
    keys: dict[str, str]
    """Names of the weights in this model to their names in the file."""
    tensors: dict[str, torch.Tensor]
    buffers: dict[str, str]
    """The plan's buffers that are weights, to the names of those."""


def package(program: ExportedProgram | Mapping[str, ExportedProgram], path: str | os.PathLike[str], *,
            cpu: str = "native", **options: Any) -> str:
    """Compile programs into a file that runs without Python, as `firesteel.export.package` says; its path."""
    if host_architecture() != "x86_64":
        raise UnsupportedError(f"packages are made on x86-64 and for it, this machine is {host_architecture()}")
    programs: dict[str, Any] = {"model": program} if not isinstance(program, Mapping) else dict(program)
    if not programs or not all(isinstance(item, ExportedProgram) for item in programs.values()):
        raise UserCodeError("package takes an ExportedProgram, or a dict of them under names",
                            "Export first: fs.export.package(fs.export.export(model, args), path).")
    for name in programs:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UserCodeError(f"{name!r} cannot be the name of a model",
                                "Use letters, digits, points, hyphens and underscores.")
    if cpu not in _CPUS:
        raise UserCodeError(f"cpu is {cpu!r}", f"it is one of {', '.join(_CPUS)}")
    chosen = make_options(options)
    if chosen.max_autotune and cpu != "native":
        raise UserCodeError(f"max_autotune measures on this CPU, and the package is for cpu={cpu!r}",
                            "leave one of the two out")
    target = _CPUS[cpu]()
    store = Store()
    models = {name: _plan(item, store, name if len(programs) > 1 else "", chosen) for name, item in programs.items()}
    layout = store.lay_out()
    writer = ArchiveWriter(os.fspath(path))
    try:
        described = {}
        for name, model in models.items():
            described[name] = _add_model(writer, name, model, layout, target)
        if store.tensors:
            writer.add(WEIGHTS, store.write(layout), layout.file.length, PAGE)
        header = _header()
        writer.add(HEADER, [header], len(header))
        writer.finish({"firesteel": __version__, "torch": torch.__version__,
                       "cpu": {"name": target.cpu, "features": needed_features(target)},
                       "devices": sorted({entry["device"] for entry in described.values()}), "models": described})
    except BaseException:
        writer.abandon()
        raise
    return os.fspath(path)


def _header() -> bytes:
    with open(os.path.join(os.path.dirname(__file__), HEADER), "rb") as file:
        return file.read()


# From a program to a plan


def _plan(program: ExportedProgram, store: Store, prefix: str, options: Any) -> _Model:
    from ...functional import trace

    graph, examples = _flat_graph(program)
    with torch.no_grad():
        try:
            functional: FunctionalGraph = trace(graph, examples)
        except Unsupported as error:
            raise NotPackageable(error.reason) from error
        weights = len(program.graph_signature.input_specs) - len(program.graph_signature.user_inputs)
        planned = plan_graph(functional, options, weights)
    lifted = [spec for spec in program.graph_signature.input_specs if spec.kind is not InputKind.USER_INPUT]
    tensors: dict[str, torch.Tensor] = {}
    buffers: dict[str, str] = {}
    for spec, entry, value in zip(lifted, planned.functional.inputs, program.lifted_values(), strict=False):
        assert spec.target is not None
        tensors[spec.target] = value
        buffers[entry.name] = spec.target
    _refuse_shared_memory(planned.functional, tensors)
    constants = {**planned.plan.constants, **(planned.kept.plan.constants if planned.kept is not None else {})}
    for number, (buffer, value) in enumerate(constants.items()):
        name = f"constant.{number}"
        while name in tensors:
            name = f"_{name}"
        tensors[name], buffers[buffer] = value, name
    keys = {}
    for name, tensor in tensors.items():
        wanted = name if name not in store.tensors else f"{prefix}.{name}" if prefix else name
        keys[name] = store.add(wanted, tensor)
    return _Model(program, planned, _input_names(program), _output_names(program), list(functional.guards), keys,
                  tensors, buffers)


def _refuse_shared_memory(functional: FunctionalGraph, weights: Mapping[str, torch.Tensor]) -> None:
    """Raise where the program writes to memory of two weights: in a package each has its own."""
    for change in functional.mutated:
        if change.index >= len(weights):
            continue
        name, written = list(weights.items())[change.index]
        for other, tensor in weights.items():
            if tensor is not written and storage_address(tensor) == storage_address(written) != 0:
                raise NotPackageable(f"{name} is changed and shares memory with {other}",
                                     "make one of them from the other in forward")


def _flat_graph(program: ExportedProgram) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The program with everything that it changes changed in place, and without inputs that are always the same."""
    signature = program.graph_signature
    constant = {spec.arg.name for spec in signature.input_specs if isinstance(spec.arg, ConstantArgument)}
    graph = torch.fx.Graph()
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    examples = []
    for node in program.graph.nodes:
        if node.op == "output":
            add_output(program, graph, copied, node)
        elif node.op != "placeholder" or node.name not in constant:
            copied[node] = graph.node_copy(node, copied.__getitem__)
            # Numbers that data decides on keep what the program knows of them.
            copied[node].meta["example_value"] = node.meta.get("val")
            if node.op == "placeholder":
                examples.append(node.meta["val"])
        elif node.users:
            raise NotPackageable(f"the input {node.name} is no tensor and is used by an operator")
    return torch.fx.GraphModule(program.graph_module, graph), examples


def _kept_inputs(planned: Planned) -> list[str]:
    """The last inputs of the plan, which the other plan computes."""
    count = len(planned.kept.plan.outputs) if planned.kept is not None else 0
    return [item.name for item in planned.plan.inputs[len(planned.plan.inputs) - count :] if isinstance(item, Buffer)]


def _input_names(program: ExportedProgram) -> list[str]:
    return [spec.arg.name for spec in program.graph_signature.input_specs
            if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument)]


def _output_names(program: ExportedProgram) -> list[str]:
    names: list[str] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind not in MUTATIONS:
            names.append(getattr(spec.arg, "name", "") or f"output_{len(names)}")
    return names


# From a plan to the file


def _add_model(writer: ArchiveWriter, name: str, model: _Model, layout: Layout, target: Target) -> dict[str, Any]:
    ordered = list(model.tensors)
    weights = [Weight(key, tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()),
                      layout.offsets[model.keys[key]], not kind_of(tensor).is_host)
               for key, tensor in model.tensors.items()]
    places = {buffer: ordered.index(key) for buffer, key in model.buffers.items()}
    for number, buffer in enumerate(_kept_inputs(model.planned)):
        places[buffer] = len(weights) + number
    contract = _contract(model)
    described = _describe(model, contract)
    code = build(model.planned, model.inputs, model.outputs, weights, places, layout.file, contract,
                 json.dumps(described), target)
    part = f"models/{name}/model.so"
    writer.add(part, [code], len(code), PAGE)
    return {"object": part, "weights": model.keys, **described}


def _contract(model: _Model) -> Contract:
    program = model.program
    ranges: dict[Symbol, tuple[int | None, int | None]] = {}
    conditions: list[tuple[Expr, str]] = []
    for expr, bounds in program.range_constraints.items():
        if isinstance(expr, Symbol):
            ranges[expr] = bounds.lower, bounds.upper
    for guard in (*program.guards, *model.guards):
        if guard.expr.free_symbols:
            conditions.append((guard.expr, str(guard.expr)))
    return Contract(model.inputs, ranges, conditions)


def _describe(model: _Model, contract: Contract) -> dict[str, Any]:
    """What the manifest and the shared object say about a model."""
    program, plan = model.program, model.planned.plan
    own = {*model.buffers, *_kept_inputs(model.planned)}
    users = [item for item in plan.inputs if not (isinstance(item, Buffer) and item.name in own)]
    described = iter([_input(name, item) for name, item in zip(model.inputs, users, strict=True)])
    inputs = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument):
                inputs.append({"name": spec.arg.name, "kind": "constant", "value": _plain(spec.arg.value)})
            else:
                inputs.append(next(described))
    outputs = [_output(model, name, output) for name, output in zip(model.outputs, plan.outputs, strict=True)]
    return {
        "device": model.planned.target.device.type, "inputs": inputs, "outputs": outputs,
        "in_spec": write_tree(program.in_spec), "out_spec": write_tree(program.out_spec),
        "sizes": {str(symbol): list(bounds) for symbol, bounds in contract.ranges.items()},
        "conditions": [text for _, text in contract.conditions],
    }


def _input(name: str, item: Buffer | Symbol) -> dict[str, Any]:
    if isinstance(item, Buffer):
        return {"name": name, "kind": "tensor", "dtype": str(item.dtype)[6:],
                "shape": [_size(size) for size in item.shape]}
    return {"name": name, "kind": item.kind}


def _output(model: _Model, name: str, output: Any) -> dict[str, Any]:
    if isinstance(output, BufferRef):
        buffer = model.planned.plan.buffers[output.buffer]
        shape = buffer.shape if output.shape is None else output.shape
        return {"name": name, "kind": "tensor", "dtype": str(output.dtype or buffer.dtype)[6:],
                "shape": [_size(size) for size in shape]}
    if isinstance(output, Expr):
        return {"name": name, "kind": output.kind}
    return {"name": name, "kind": "constant", "value": _plain(output)}


def _size(size: Expr) -> int | str:
    return int(size) if size.is_constant else str(size)  # type: ignore[call-overload]


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return {"float": value.hex()}
    try:
        return write_value(value)
    except SavedProgramError:
        raise PackageError(f"an input or output is the constant {value!r}",
                           "packages keep numbers, strings, None, and torch's dtypes, devices and formats") from None
