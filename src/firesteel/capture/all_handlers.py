"""Imports every module that registers how something is called (`call_handlers`), on the first capture."""

from __future__ import annotations

from . import (
    autograd_functions,
    builtin_calls,
    builtin_numbers,
    builtin_text,
    builtin_types,
    callable_objects,
    checkpointing,
    class_bodies,
    classes,
    gradients,
    modes,
    optimizers,
    parameters,
    profiler_regions,
    tensor_groups,
    torch_state,
)

__all__ = [
    "autograd_functions",
    "builtin_calls",
    "builtin_numbers",
    "builtin_text",
    "builtin_types",
    "callable_objects",
    "checkpointing",
    "class_bodies",
    "classes",
    "gradients",
    "modes",
    "optimizers",
    "parameters",
    "profiler_regions",
    "tensor_groups",
    "torch_state",
]
