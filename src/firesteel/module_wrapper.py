"""Compiled nn.Modules: an object of a generated subclass that shares the original's state."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from . import torch_compat
from .capture.modules import has_hooks
from .capture.tracebacks import leaving
from .module_twins import make_twin, methods, original_of
from .own_frames import passed_over
from .runtime import stance
from .runtime.compiler import Compiler
from .runtime.nested_calls import bind, takes_as_given
from .runtime.ranges import call_range
from .runtime.units import Resume, drive

_COMPILER = "_firesteel_compiler"


@passed_over
def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module(*args, **kwargs)``."""
    if stance.STATE.special:
        return _call_specially(self, args, kwargs)
    cls = type(self)
    original = cls._firesteel_original
    if has_hooks(original) or not torch_compat.calls_forward(original):
        return _through(self, args, kwargs)
    forward = original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
        return _through(self, args, kwargs)
    function: Any = forward.__func__
    if not kwargs and takes_as_given(function.__code__, len(args) + 1):
        return _run(cls._firesteel_compiler, function, (forward.__self__, *args))
    return _dispatch(self, original, forward, args, kwargs)


@passed_over
def _call_specially(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same where nothing compiled is to run, or a profiler is to see it."""
    original = type(self)._firesteel_original
    if stance.STATE.eager:
        return original(*args, **kwargs)
    forward = original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
        return _through(self, args, kwargs)
    function = forward.__func__
    with call_range(type(self)._firesteel_compiler.unit_of(function), function, type(original).__name__):
        if has_hooks(original) or not torch_compat.calls_forward(original):
            return _through(self, args, kwargs)
        return _dispatch(self, original, forward, args, kwargs)


@passed_over
def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module.forward(*args, **kwargs)``: compiled too, without hooks."""
    forward = type(self)._firesteel_original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
        return forward(*args, **kwargs)
    return _dispatch(self, forward, forward, args, kwargs)


@passed_over
def _dispatch(self: Any, plain: Any, forward: types.MethodType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `forward` through its compiled entries, or `plain` uncompiled where that cannot be."""
    function: Any = forward.__func__
    bound = None if stance.STATE.eager else bind(function, (forward.__self__, *args), kwargs)
    if bound is None:
        return plain(*args, **kwargs)
    return _run(type(self)._firesteel_compiler, function, bound)


@passed_over
def _run(compiler: Compiler, function: Any, bound: tuple[Any, ...]) -> Any:
    try:
        result = compiler.unit_of(function).call(bound)
        return drive(result) if type(result) is Resume else result
    except BaseException as error:
        leaving(error)
        raise


@passed_over
def _through(self: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The module's own ``__call__`` with all it does, compiled."""
    cls = type(self)
    original, compiler = cls._firesteel_original, cls._firesteel_compiler
    if stance.STATE.eager:
        return original(*args, **kwargs)
    # it is this twin that was sharded, if it was compiled before
    sharded = compiler.sharded_call(self if torch_compat.is_sharded(self) else original)
    if sharded is None:
        return _run(compiler, _through_call, (original, args, kwargs))
    try:
        return sharded(*args, **kwargs)
    except BaseException as error:
        leaving(error)
        raise


def _through_call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module(*args, **kwargs)


def compile_module(compiler: Compiler, module: torch.nn.Module,
                   again: Callable[[torch.nn.Module], Any]) -> torch.nn.Module:
    """The compiled twin of a module. The original stays eager; both share parameters, buffers and attributes.

    `again` compiles copies of it, and what was pickled.
    """
    module = original_of(module)
    twin = make_twin(module, again, members_of(compiler, module))
    torch_compat.share_state(module, twin)
    return twin


def members_of(compiler: Compiler, module: torch.nn.Module) -> dict[str, Any]:
    """What the class of a module's compiled twin has of its own."""
    return {**methods(module, _call, _forward), _COMPILER: compiler}
