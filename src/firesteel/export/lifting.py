"""Everything a program computes with as inputs of its graph: parameters, buffers, constants, arguments; their names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import torch
import torch.fx

from ..fake import FakeTensor
from ..torch_compat.pytrees import TreeSpec, keystr, tree_flatten, tree_flatten_with_path
from .errors import ExportError
from .nesting import unflatten
from .pre_dispatch import PreDispatchRecorder, is_opaque
from .signature import (
    ArgumentSpec,
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)

PREFIXES = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}
PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def is_constant(value: Any) -> bool:
    """Whether an input is a constant of the program: a plain value, or an object that a call passes again.

    Such objects are members of enums, slices and ranges, modules, and what torch calls opaque types
    (``torch._library.opaque_object``).
    """
    return isinstance(value, (*PLAIN, Enum, slice, range, torch.nn.Module)) or is_opaque(value)


def same_constant(value: Any, other: Any) -> bool:
    """Whether a call passes what the example did: equal, or an object of the same class with equal attributes."""
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if type(value).__eq__ is not object.__eq__:  # type: ignore[comparison-overlap]
        return bool(value == other)
    if isinstance(value, torch.nn.Module):
        return _same_stateless_module(value, other)
    if not hasattr(value, "__dict__"):
        return False
    try:
        return bool(vars(value) == vars(other))
    except RuntimeError:  # of tensors
        return False


def _same_stateless_module(module: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two modules of a class do the same: equal settings, neither weights nor hooks, as in ``nn.ReLU()``."""
    settings = []
    for one in (module, other):
        own = dict(vars(one))
        children = own.pop("_modules")
        if any(own[name] for name in own if name.startswith(("_parameters", "_buffers")) or name.endswith("_hooks")):
            return False
        settings.append((own, list(children.items())))
    (own, parts), (others, other_parts) = settings
    try:
        same = bool(own == others) and [name for name, _ in parts] == [name for name, _ in other_parts]
    except RuntimeError:  # of tensors
        return False
    return same and all(same_constant(one, two) for (_, one), (_, two) in zip(parts, other_parts, strict=True))


@dataclass(frozen=True)
class StateEntry:
    """A parameter or buffer of the module."""

    kind: InputKind
    name: str
    tensor: torch.Tensor
    persistent: bool | None


@dataclass
class UserInput:
    """One leaf of the arguments: its name in the graph, where it is in the call, its value, its fake."""

    name: str
    path: str
    value: Any
    fake: Any = None
    keys: tuple[Any, ...] = ()
    """The way to it from ``(args, kwargs)``."""


@dataclass
class Arguments:
    """The arguments of the example call, flat."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: list[UserInput]
    spec: TreeSpec
    forward_names: list[str]
    """Names of the positional arguments, then of the keyword arguments."""


def state_of(module: torch.nn.Module) -> list[StateEntry]:
    """All parameters and buffers under all their names, parameters first."""
    entries = [StateEntry(InputKind.PARAMETER, name, tensor, None)
               for name, tensor in module.named_parameters(remove_duplicate=False)]
    temporary = {prefix + ("." if prefix else "") + name
                 for prefix, part in module.named_modules(remove_duplicate=False) for name in non_persistent(part)}
    entries += [StateEntry(InputKind.BUFFER, name, tensor, name not in temporary)
                for name, tensor in module.named_buffers(remove_duplicate=False)]
    return entries


def non_persistent(module: torch.nn.Module) -> set[str]:
    """Names of a module's buffers that are not in its state_dict."""
    return set(module.__dict__.get("_non_persistent_buffers_set", ()))


def flat_arguments(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The leaves of a call's arguments, named after forward's parameters."""
    paths, spec = tree_flatten_with_path((args, kwargs))
    names = positional_names(module, args)
    inputs = []
    for path, value in paths:
        root = names[path[1].idx] if path[0].idx == 0 else path[1].key  # type: ignore[attr-defined]
        parts = [str(root)]
        for key in path[2:]:
            parts.append(re.sub(r"[^0-9a-zA-Z]+", "_", keystr((key,))).strip("_"))
        where = path_text(path, names)
        if not isinstance(value, torch.Tensor) and not is_constant(value):
            raise ExportError(
                f"the input {where} is an object of type {type(value).__qualname__}",
                "Inputs are tensors, numbers, strings, None, and containers of these. Register the class as a "
                "container of them (torch.utils._pytree.register_pytree_node, register_dataclass).")
        inputs.append(UserInput(identifier("_".join(parts)), where, value, keys=tuple(path)))
    return Arguments(args, kwargs, inputs, spec, [*names, *kwargs])


def path_text(path: Sequence[Any], names: Sequence[str]) -> str:
    """A leaf of ``(args, kwargs)`` as errors call it; ``names`` are those of the positional arguments."""
    if path[0].idx == 1:
        return str(path[1].key) + keystr(tuple(path[2:]))
    known = path[1].idx < len(names)
    return names[path[1].idx] + keystr(tuple(path[2:])) if known else "*args" + keystr(tuple(path[1:]))


def distinct_tensors(module: torch.nn.Module, args: tuple[Any, ...],
                     kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with copies where a tensor is passed twice or belongs to the module: inputs are independent."""
    seen = {id(entry.tensor) for entry in state_of(module)}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in seen:
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        seen.add(id(leaf))
        return leaf

    leaves, spec = tree_flatten((args, kwargs))
    copies: tuple[tuple[Any, ...], dict[str, Any]] = unflatten(map(copied, leaves), spec)
    return copies


def positional_names(module: torch.nn.Module, args: tuple[Any, ...]) -> list[str]:
    """What forward calls its positional arguments; those of ``*args`` are numbered."""
    names: list[str] = []
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    for parameter in parameters:
        if len(names) >= len(args) or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            break
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{number}" for number in range(len(args) - len(names))]
            break
        names.append(parameter.name)
    return names + [f"arg_{number}" for number in range(len(names), len(args))]


def identifier(text: str) -> str:
    """A name as Python allows it."""
    text = re.sub(r"[^0-9a-zA-Z_]", "_", text)
    return f"_{text}" if not text or text[0].isdigit() else text


@dataclass
class Lifting:
    """The inputs of one graph under construction."""

    module: torch.nn.Module
    arguments: Arguments
    recorder: PreDispatchRecorder
    state: list[StateEntry] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    specs: list[InputSpec] = field(default_factory=list)
    _constant_specs: list[InputSpec] = field(default_factory=list)
    _first_user_input: torch.fx.Node | None = None

    def add_inputs(self, fake_of: Callable[[torch.Tensor, UserInput | None], FakeTensor],
                   numbers: Mapping[int, Any] | None = None) -> None:
        """Make all placeholders that are known before the program runs; `numbers` are the inputs that vary."""
        recorder = self.recorder
        recorder.lift = self.lift
        recorder.lift_object = self.lift_object
        self.state = state_of(self.module)
        for entry in self.state:
            fake = fake_of(entry.tensor, None)
            known = recorder.knows_tensor(fake)
            node = recorder.graph.placeholder(PREFIXES[entry.kind] + identifier(entry.name.replace(".", "_")))
            node.target = node.name
            node.meta["val"] = fake
            if not known:  # a tensor with several names goes by the first
                recorder.bind(fake, node)
            self.specs.append(InputSpec(entry.kind, TensorArgument(node.name), entry.name, entry.persistent))
        for position, item in enumerate(self.arguments.inputs):
            if numbers is not None and position in numbers:
                item.fake = numbers[position]
            elif isinstance(item.value, torch.Tensor):
                item.fake = fake_of(item.value, item)
            else:
                item.fake = item.value
            node = recorder.add_placeholder(item.name, item.fake)
            item.name = node.name
            if is_opaque(item.value):
                recorder.objects[id(item.value)] = (item.value, node)
            self._first_user_input = self._first_user_input or node
            self.specs.append(InputSpec(InputKind.USER_INPUT, argument_of(node, item.fake), None))

    def lift(self, tensor: torch.Tensor, fake: FakeTensor) -> torch.fx.Node:
        """A tensor of the program that is no input becomes one: a constant."""
        target = self._name_of_constant(tensor)
        self.constants[target] = tensor
        node = self._constant_input(PREFIXES[InputKind.CONSTANT_TENSOR], target, fake)
        self._constant_specs.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), target))
        return node

    def lift_object(self, value: Any) -> torch.fx.Node:
        """An object that an operator takes, and that is no input, becomes one."""
        target = self._name_of_constant(value)
        self.constants[target] = value
        node = self._constant_input("obj_", target, value)
        kind = type(value)
        self._constant_specs.append(InputSpec(
            InputKind.CUSTOM_OBJ, CustomObjArgument(node.name, f"{kind.__module__}.{kind.__qualname__}"), target))
        return node

    def _constant_input(self, prefix: str, target: str, value: Any) -> torch.fx.Node:
        graph = self.recorder.graph
        before = self._first_user_input or next((node for node in graph.nodes if node.op != "placeholder"), None)
        with graph.inserting_before(before) if before is not None else graph.inserting_after():
            node = graph.placeholder(prefix + identifier(target.replace(".", "_")))
        node.target = node.name
        node.meta["val"] = value
        return node

    def _name_of_constant(self, tensor: Any) -> str:
        for prefix, part in self.module.named_modules():
            for name, value in vars(part).items():
                if value is tensor:
                    return f"{prefix}.{name}" if prefix else name
        number = sum(name.startswith("lifted_tensor_") for name in self.constants)
        return f"lifted_tensor_{number}"

    def input_specs(self) -> list[InputSpec]:
        """In the order of the placeholders: parameters, buffers, constants, arguments."""
        at = next((at for at, spec in enumerate(self.specs) if spec.kind is InputKind.USER_INPUT), len(self.specs))
        return [*self.specs[:at], *self._constant_specs, *self.specs[at:]]

    def all_constants(self) -> dict[str, Any]:
        """What the program holds besides its state_dict: constants and buffers that are not saved."""
        rest = {entry.name: entry.tensor for entry in self.state if entry.persistent is False}
        return {**self.constants, **rest}


def argument_of(node: torch.fx.Node, value: Any) -> ArgumentSpec:
    """How a signature names an input or output."""
    if isinstance(value, torch.Tensor):
        return TensorArgument(node.name)
    if isinstance(value, torch.SymInt):
        return SymIntArgument(node.name)
    if isinstance(value, torch.SymFloat):
        return SymFloatArgument(node.name)
    if isinstance(value, torch.SymBool):
        return SymBoolArgument(node.name)
    return ConstantArgument(node.name, value)


def modules_by_id(module: torch.nn.Module) -> Mapping[int, str]:
    """The first name of every submodule."""
    paths: dict[int, str] = {}
    for name, part in module.named_modules():
        paths.setdefault(id(part), name)
    return paths
