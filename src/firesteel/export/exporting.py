"""`export`: from a module and example inputs to an `ExportedProgram`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import torch_compat
from ..errors import UserCodeError
from ..support import require
from .assembly import Traced, assemble
from .dynamic_shapes import AdditionalInputs, as_structure, declare
from .errors import ExportError
from .lifting import distinct_tensors, flat_arguments
from .module_calls import ModuleCallSignature
from .program import ExportedProgram
from .wrappers import StandIns


def export(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
           dynamic_shapes: Any = None, strict: bool = True, preserve_module_call_signature: Sequence[str] = (),
           prefer_deferred_runtime_asserts_over_guards: bool = False, capture_branches: bool = True) -> ExportedProgram:
    """Trace a module's forward into one graph of ATen operators, with its signature, weights and shape contract.

    Args:
        mod: the module; its parameters and buffers become inputs of the graph.
        args: positional example inputs: tensors, numbers, strings, None and containers of these.
        kwargs: keyword example inputs.
        dynamic_shapes: which sizes may vary, and how: see `Dim`. Everything else keeps the sizes of the examples.
        strict: True reads the bytecode of forward, so that everything the result depends on is in the graph or an
            error; False runs forward once and writes down the tensor operations.
        preserve_module_call_signature: names of submodules whose calls `unflatten` is to give back as they are.
        prefer_deferred_runtime_asserts_over_guards: whether calls check what the program needs of named dims beyond
            what was declared, where it is an error otherwise.
        capture_branches: whether a Python ``if`` on the value of a tensor becomes a `cond` where neither way has side
            effects; only with strict=True, for running Python does not show the other way.

    >>> class Double(torch.nn.Module):
    ...     def forward(self, x):
    ...         return {"twice": x + x}
    >>> export(Double(), (torch.ones(2),)).module()(torch.ones(2))
    {'twice': tensor([2., 2.])}
    """
    require()
    if not isinstance(mod, torch.nn.Module):
        raise UserCodeError(f"export takes an nn.Module, not a {type(mod).__qualname__}",
                            "Write a small module whose forward calls the function.")
    if torch_compat.is_torchscript(mod):
        raise UserCodeError(f"{type(mod).__qualname__} is TorchScript, which is compiled already, by another compiler",
                            "Export the module that it was made from.")
    if not isinstance(args, tuple):
        raise UserCodeError(f"the example inputs of export are a tuple, not a {type(args).__qualname__}",
                            "Write export(mod, (x,)).")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise UserCodeError(f"the keyword inputs of export are a dict, not a {type(kwargs).__qualname__}")
    examples = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    dynamic_shapes = as_structure(mod, args, kwargs, dynamic_shapes)
    args, kwargs = distinct_tensors(mod, tuple(args), dict(kwargs or {}))  # containers of these classes, not of others
    stand_ins = StandIns()
    args, kwargs = stand_ins.arguments(args, kwargs)
    with stand_ins.in_module(mod):
        program = _exported(mod, args, kwargs, dynamic_shapes, strict, preserve_module_call_signature, capture_branches,
                            prefer_deferred_runtime_asserts_over_guards)
    stand_ins.restore(program)
    program.validate()
    if examples is not None:
        examples.check_fit(program)
    return program


def _exported(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any, strict: bool,
              preserve_module_call_signature: Sequence[str], capture_branches: bool,
              deferred: bool) -> ExportedProgram:
    arguments = flat_arguments(mod, args, kwargs)
    declared = declare(mod, args, arguments.kwargs, dynamic_shapes)
    if strict:
        from .tracing import trace_strict

        traced = trace_strict(mod, arguments, declared, capture_branches)
        if preserve_module_call_signature:
            traced.calls = _calls(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature, traced)
    else:
        from .nonstrict import trace_nonstrict

        traced = trace_nonstrict(mod, arguments, declared, preserve_module_call_signature)
    return assemble(traced, declared, deferred)


def _calls(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any,
           names: Sequence[str], traced: Traced) -> dict[str, ModuleCallSignature]:
    """How submodules are called. Bytecode inlines them, so the program is run as well; the graph must be the same."""
    from .nonstrict import trace_nonstrict

    run = trace_nonstrict(mod, flat_arguments(mod, args, kwargs), declare(mod, args, kwargs, dynamic_shapes), names)
    if [node.name for node in run.recorder.graph.nodes] != [node.name for node in traced.recorder.graph.nodes]:
        raise ExportError("preserve_module_call_signature: the program has another graph when it is run",
                          "Use strict=False.")
    for node, other in zip(traced.recorder.graph.nodes, run.recorder.graph.nodes, strict=True):
        if "nn_module_stack" in other.meta:
            node.meta["nn_module_stack"] = other.meta["nn_module_stack"]  # with the numbers of the calls
    return run.calls


def export_for_training(mod: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *,
                        dynamic_shapes: Any = None, strict: bool = True,
                        preserve_module_call_signature: Sequence[str] = ()) -> ExportedProgram:
    """The same as `export`, whose programs can be trained.

    >>> import torch, firesteel as fs
    >>> program = fs.export.export_for_training(torch.nn.Linear(2, 1), (torch.ones(3, 2),))
    >>> program.module()(torch.ones(3, 2)).requires_grad
    True
    """
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature)
