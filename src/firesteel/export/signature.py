"""The signature of an exported program: what each input and output of its graph stands for.

The graph takes everything as arguments: parameters, buffers and constants first, then what the user passes. Its
outputs are the new contents of what it changes, if it is functional, and then the user's results.

>>> spec = InputSpec(InputKind.PARAMETER, TensorArgument("p_lin_weight"), "lin.weight")
>>> spec
InputSpec(kind=<InputKind.PARAMETER: 2>, arg=TensorArgument(name='p_lin_weight'), target='lin.weight', persistent=None)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


@dataclass(frozen=True)
class TensorArgument:
    """A tensor: the name of its node.

    >>> TensorArgument("x")
    TensorArgument(name='x')
    """

    name: str


@dataclass(frozen=True)
class TokenArgument:
    """A token that keeps calls with effects in order."""

    name: str


@dataclass(frozen=True)
class SymIntArgument:
    """An integer that is not known when exporting.

    >>> SymIntArgument("size")
    SymIntArgument(name='size')
    """

    name: str


@dataclass(frozen=True)
class SymFloatArgument:
    """A float that is not known when exporting.

    >>> SymFloatArgument("rate")
    SymFloatArgument(name='rate')
    """

    name: str


@dataclass(frozen=True)
class SymBoolArgument:
    """A bool that is not known when exporting.

    >>> SymBoolArgument("flag")
    SymBoolArgument(name='flag')
    """

    name: str


@dataclass(frozen=True)
class CustomObjArgument:
    """An object of a class that was registered with torch.library."""

    name: str
    class_fqn: str


@dataclass(frozen=True)
class ConstantArgument:
    """A value that is the same in every call: None, a number, a string.

    >>> ConstantArgument("scale", 2.0)
    ConstantArgument(name='scale', value=2.0)
    """

    name: str
    value: Any


ArgumentSpec = (TensorArgument | SymIntArgument | SymFloatArgument | SymBoolArgument | ConstantArgument
                | CustomObjArgument | TokenArgument)


class InputKind(Enum):
    """What an input of the graph is.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> [spec.kind.name for spec in program.graph_signature.input_specs]
    ['PARAMETER', 'PARAMETER', 'USER_INPUT']
    """

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of the graph is.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.BatchNorm1d(2), (torch.ones(3, 2),)).run_decompositions()
    >>> [spec.kind.name for spec in program.graph_signature.output_specs]
    ['BUFFER_MUTATION', 'BUFFER_MUTATION', 'BUFFER_MUTATION', 'USER_OUTPUT']
    """

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclass
class InputSpec:
    """One input: ``target`` is the name in the module's state of what it stands for.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> [(spec.arg.name, spec.target) for spec in program.graph_signature.input_specs]
    [('p_weight', 'weight'), ('p_bias', 'bias'), ('input_1', None)]
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None
    """Of buffers: whether they are in the state_dict."""


@dataclass
class OutputSpec:
    """One output: ``target`` is the name of the buffer, parameter or user input that it is the new value of.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export(torch.nn.ReLU(), (torch.ones(3),))
    >>> [(spec.kind.name, spec.arg.name) for spec in program.graph_signature.output_specs]
    [('USER_OUTPUT', 'relu')]
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None


@dataclass
class ExportGraphSignature:
    """All inputs and outputs in order.

    >>> signature = ExportGraphSignature(
    ...     [InputSpec(InputKind.PARAMETER, TensorArgument("p_w"), "w"),
    ...      InputSpec(InputKind.USER_INPUT, TensorArgument("x"), None)],
    ...     [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument("mul"), None)])
    >>> signature.parameters, signature.user_inputs, signature.user_outputs
    (('w',), ('x',), ('mul',))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {spec.arg.name: spec.target for spec in self.input_specs
                if spec.kind is kind and spec.target is not None}

    def _changed(self, kind: OutputKind) -> Mapping[str, str]:
        return {spec.arg.name: spec.target for spec in self.output_specs
                if spec.kind is kind and spec.target is not None}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the module's parameters that the graph takes."""
        return tuple(self._targets(InputKind.PARAMETER).values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the module's buffers that the graph takes."""
        return tuple(self._targets(InputKind.BUFFER).values())

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Names of those buffers that are not in the state_dict."""
        return tuple([spec.target for spec in self.input_specs
                      if spec.kind is InputKind.BUFFER and spec.persistent is False and spec.target is not None])

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Names of the constants that the graph takes."""
        return tuple(self._targets(InputKind.CONSTANT_TENSOR).values())

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Names of the custom objects that the graph takes."""
        return tuple(self._targets(InputKind.CUSTOM_OBJ).values())

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """What the user passes: names of nodes, and the values of constants."""
        return tuple([_user_value(spec.arg) for spec in self.input_specs if spec.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """What the user gets: names of nodes, and the values of constants."""
        return tuple([_user_value(spec.arg) for spec in self.output_specs
                      if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)])

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """From the names of nodes to the names of parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """From the names of nodes to the names of buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """From the names of nodes to the names of constants."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """From the names of nodes to the names of custom objects."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """From the names of outputs to the names of the buffers that they are the new contents of."""
        return self._changed(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """From the names of outputs to the names of the parameters that they are the new contents of."""
        return self._changed(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """From the names of outputs to the names of the user inputs that they are the new contents of."""
        return self._changed(OutputKind.USER_INPUT_MUTATION)

    def renamed(self, names: Mapping[str, str]) -> ExportGraphSignature:
        """The same for a graph in which nodes have got other names."""
        inputs = [dataclasses.replace(spec, arg=_renamed(spec.arg, names)) for spec in self.input_specs]
        outputs = [dataclasses.replace(spec, arg=_renamed(spec.arg, names)) for spec in self.output_specs]
        return ExportGraphSignature(inputs, outputs)


def _user_value(argument: ArgumentSpec) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name


def _renamed(argument: ArgumentSpec, names: Mapping[str, str]) -> ArgumentSpec:
    return dataclasses.replace(argument, name=names.get(argument.name, argument.name))
