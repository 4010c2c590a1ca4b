"""Calls of modules that `fully_shard` was applied to: their hooks as plain Python, around the compiled forward.

    block(x)    ->  before forward: gather the parameters; hook the arguments, to reduce gradients behind backward
                    NestedCall(Block.forward, block)(x)
                    behind forward: free the parameters; hook the results, to gather them again before backward

The hooks give the module other parameters, and memory that was freed is allocated again, in every step. Compiled code
takes parameters as they are when forward is called, and saves the same tensors for backward that eager saves.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..function_marks import is_disabled
from .nested_calls import NestedCall

if TYPE_CHECKING:
    from .compiler import Compiler

_HOOKS = ("torch.", "firesteel.")


def sharded_call(compiler: Compiler, module: torch.nn.Module) -> Any:
    """What calls a module that `fully_shard` was applied to; None for other modules."""
    if not torch_compat.is_sharded(module) or is_disabled(module) or not torch_compat.MODULE_METHODS.quick():
        return None

    def chosen(target: Any) -> Any:
        return _chosen(compiler, target)

    return types.MethodType(compiler.plain_frame(torch_compat.MODULE_CALL, with_inner=True, choose=chosen), module)


def _chosen(compiler: Compiler, target: Any) -> Any:
    """What torch's function that calls hooks and forward calls in place of `target`."""
    function = getattr(target, "__func__", target)
    receiver = getattr(target, "__self__", None)
    if type(target) is types.MethodType and isinstance(receiver, torch.nn.Module) and \
            type(function) is types.FunctionType and getattr(receiver, "forward", None) == target:
        # also where breaks are errors: this is the whole program
        return NestedCall(compiler, function, receiver) if compiler.compiles(function) else compiler.nested(target)
    if not isinstance(function, types.FunctionType) or str(function.__module__).startswith(_HOOKS):
        return target
    return compiler.nested(target)
