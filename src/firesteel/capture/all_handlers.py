"""Imports every module that registers how something is called (`call_handlers`), on the first capture."""

from __future__ import annotations

from . import (  # noqa: F401
    autograd_functions,
    builtin_calls,
    builtin_numbers,
    builtin_text,
    builtin_types,
    callable_objects,
    checkpointing,
    class_bodies,
    classes,
    distributions,
    gradients,
    issued_warnings,
    jagged_tensors,
    modes,
    numpy_errors,
    optimizers,
    parameters,
    profiler_regions,
    saved_tensor_hooks,
    stated_ranges,
    tensor_copies,
    tensor_groups,
    tensors_of_arrays,
    torch_functions,
    torch_generators,
    torch_state,
    widened_operators,
)
