"""`ExportedProgram`: one graph, its signature, its weights and its shape contract."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from ..shapes import ShapeGuard
from ..torch_compat.pytrees import TreeSpec
from .module_calls import ModuleCallEntry
from .ranges import ValueRanges
from .signature import ExportGraphSignature, InputKind

if TYPE_CHECKING:
    from .draft import DraftReport


class ExportedProgram:
    """A program without Python: made by `export`, to be inspected, transformed, saved, compiled and run.

    >>> import torch
    >>> from firesteel.export import export
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x * 2
    >>> program = export(Scale(), (torch.ones(3),))
    >>> [node.name for node in program.graph.nodes]
    ['x', 'mul', 'output']
    >>> program.module()(torch.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 6.])
    """

    def __init__(self, *, graph_module: torch.fx.GraphModule, graph_signature: ExportGraphSignature,
                 state_dict: dict[str, torch.Tensor], constants: dict[str, torch.Tensor],
                 range_constraints: dict[Any, ValueRanges], module_call_graph: list[ModuleCallEntry],
                 example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
                 guards: Sequence[ShapeGuard] = ()) -> None:
        self.graph_module = graph_module
        self.graph_signature = graph_signature
        self.state_dict = state_dict
        self.constants = constants
        self.range_constraints = range_constraints
        self.module_call_graph = module_call_graph
        self.example_inputs = example_inputs
        self.guards = list(guards)
        """Conditions on sizes that the ranges do not say; calls are checked against them."""
        self.report: DraftReport | None = None
        """What stands in the way of a full export, where this is a draft."""

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph of ATen operators."""
        return self.graph_module.graph

    @property
    def in_spec(self) -> TreeSpec:
        """How ``(args, kwargs)`` of a call are nested."""
        return self._call.in_spec

    @property
    def out_spec(self) -> TreeSpec:
        """How the results are nested."""
        return self._call.out_spec

    @property
    def _call(self) -> Any:
        return self.module_call_graph[0].signature

    @property
    def tensor_constants(self) -> dict[str, torch.Tensor]:
        """Another name of `constants`."""
        return self.constants

    # State

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Names and parameters."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]  # type: ignore[misc]

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters, as an optimizer takes them."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and buffers, those that are not saved included."""
        for name in self.graph_signature.buffers:
            yield name, self.state_dict[name] if name in self.state_dict else self.constants[name]

    def buffers(self) -> Iterator[torch.Tensor]:
        """The buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def lifted_values(self) -> list[torch.Tensor]:
        """The tensors that the graph takes ahead of the user's inputs, in order."""
        values = []
        for spec in self.graph_signature.input_specs:
            if spec.kind is not InputKind.USER_INPUT:
                assert spec.target is not None
                values.append(self.state_dict[spec.target] if spec.target in self.state_dict
                              else self.constants[spec.target])
        return values

    # What can be done with it

    def module(self, check_guards: bool = True) -> torch.fx.GraphModule:
        """A module that runs the program: callable like the original, with its parameters and buffers.

        Calls are checked against the shape contract; with ``check_guards=False`` they are not, and it is for the
        caller to know that the program is valid on other inputs. Parameters are shared with this program, so that
        training the module trains them; buffers that the program changes are changed in place.
        """
        from .callable_module import make_module

        return make_module(self, check_guards)

    def run_decompositions(self, decomp_table: dict[Any, Any] | None = None) -> ExportedProgram:
        """The program in functional ATen operators, with those of the table written in simpler ones.

        An empty table only removes mutation; without a table `default_decompositions` are used.
        """
        from .decompositions import default_decompositions, run_decompositions

        return run_decompositions(self, default_decompositions() if decomp_table is None else decomp_table)

    def validate(self) -> None:
        """Check that graph, signature and state fit together; raises `VerificationError`."""
        from .verify import verify

        verify(self)

    def replace(self, graph_module: torch.fx.GraphModule, graph_signature: ExportGraphSignature) -> ExportedProgram:
        """The same program with another graph."""
        return ExportedProgram(
            graph_module=graph_module, graph_signature=graph_signature, state_dict=self.state_dict,
            constants=self.constants, range_constraints=dict(self.range_constraints),
            module_call_graph=copy.copy(self.module_call_graph), example_inputs=self.example_inputs, guards=self.guards)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("an ExportedProgram is not called itself; call program.module()(*args)")

    def __str__(self) -> str:
        from .printing import print_program

        return print_program(self)

    __repr__ = __str__
