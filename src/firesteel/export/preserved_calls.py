"""Calls of unflattened modules whose signature is preserved: with the arguments that they were exported with.

    block:  call = self._call_lin; lin = self.lin
            results = call_module(call, [lin], [x, 3], [])      # self.lin(x, 3)
            linear = results[0]

A module that the user puts there instead is called with the same arguments and its result is taken apart in the same
way. What the original used and gave besides (a tensor of another module, a size that others need) goes by another way,
which a replacement does not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from ..torch_compat.pytrees import TreeSpec, tree_flatten, tree_unflatten
from .errors import InputMismatchError


@dataclass(frozen=True)
class CallStructure:
    """How arguments and results of a module are nested, and what it gives besides."""

    in_spec: TreeSpec
    out_spec: TreeSpec
    more: tuple[str | None, ...]
    """For values that others use: the module's buffer that gets the value, if one does."""


class PreservedModule(torch.fx.GraphModule):
    """A part of an unflattened program, called as the original."""

    structure: CallStructure

    def flat_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any], further: Sequence[Any] | None,
                    count: int) -> list[Any]:
        """The values of the graph's inputs: the leaves of a call's arguments, and what comes besides."""
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self.structure.in_spec:
            raise InputMismatchError(
                f"the arguments are nested as {spec}, the module was exported for {self.structure.in_spec}")
        if len(further or ()) != count:
            raise InputMismatchError("the module uses values of modules around it, so that it cannot be called alone")
        return [*leaves, *(further or ())]

    def nested_results(self, results: tuple[Any, ...], more: tuple[Any, ...], inner: bool) -> Any:
        """The results as the original nests them; for the program itself with what others need besides."""
        nested = tree_unflatten(results, self.structure.out_spec)
        return (nested, more) if inner else nested


class PreservedCode(torch.fx.graph.CodeGen):
    """Writes the forward of a `PreservedModule`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        """The signature, and what becomes of the arguments."""
        names = [name.split(":")[0].strip() for name in free_vars if name != "self"]
        taken = f"{', '.join(names)}, = " if names else ""
        return (f"def forward(self, *args, _further=None, **kwargs){maybe_return_annotation}:\n"
                f"    {taken}self.flat_inputs(args, kwargs, _further, {len(names) - self.inputs})")

    def generate_output(self, output_args: Any, **options: Any) -> str:
        """The return statement."""
        shown = options.get("repr_fn") or repr
        items = [f"{shown(item)}, " for item in output_args]
        return (f"return self.nested_results(({''.join(items[:self.outputs])}), ({''.join(items[self.outputs:])}), "
                "_further is not None)")


def call_module(structure: CallStructure, modules: list[torch.nn.Module], leaves: list[Any], further: list[Any]) -> Any:
    """Call a module of an unflattened program; the leaves of its result, and what the original gives besides.

    ``modules``: the module under its own name, then the one that does what this call does, if that is another.
    """
    args, kwargs = tree_unflatten(leaves, structure.in_spec)
    module = modules[-1] if isinstance(modules[0], PreservedModule) else modules[0]
    if isinstance(module, PreservedModule):
        result, more = module(*args, _further=further, **kwargs)
    else:
        result = module(*args, **kwargs)
        more = tuple([getattr(module, name, None) if name is not None else None for name in structure.more])
    results, spec = tree_flatten(result)
    if spec != structure.out_spec:
        raise InputMismatchError(f"{type(module).__name__} returns {spec} where the exported program has "
                                 f"{structure.out_spec}")
    return (*results, *more)


def assign_buffer(module: torch.nn.Module, name: str, value: torch.Tensor | None) -> None:
    """Change a buffer; a module in the place of the original has no value for it."""
    if value is not None:
        getattr(module, name).copy_(value)
