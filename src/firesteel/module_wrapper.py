"""Compiled nn.Modules: an object of a generated subclass that shares the original's state."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from . import torch_compat
from .capture.modules import has_hooks
from .capture.tracebacks import leaving
from .capture.user_frames import passed_over
from .errors import UserCodeError
from .runtime import stance
from .runtime.compiler import Compiler
from .runtime.nested_calls import bind
from .runtime.units import Resume, drive

_ORIGINAL = "_firesteel_original"
_COMPILER = "_firesteel_compiler"
_REBUILD = "_firesteel_rebuild"


def _plain_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch.compile sees of ``compiled_module(*args, **kwargs)``."""
    return type(self)._firesteel_original(*args, **kwargs)


def _plain_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch.compile sees of ``compiled_module.forward(*args, **kwargs)``."""
    return type(self)._firesteel_original.forward(*args, **kwargs)


@passed_over
def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module(*args, **kwargs)``."""
    original = type(self)._firesteel_original
    if has_hooks(original) or not torch_compat.calls_forward(original):
        return _through(self, args, kwargs)
    forward = original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
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
    if stance.STATE.eager:
        return cls._firesteel_original(*args, **kwargs)
    return _run(cls._firesteel_compiler, _through_call, (cls._firesteel_original, args, kwargs))


def _through_call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module(*args, **kwargs)


def _reduce(self: Any, protocol: int) -> Any:
    cls = type(self)
    compiler = cls._firesteel_compiler
    return cls._firesteel_rebuild, (cls._firesteel_original, compiler.backend, compiler.given)


def _copy(self: Any) -> Any:
    cls = type(self)
    return compile_module(cls._firesteel_compiler.again(), copy.copy(cls._firesteel_original), cls._firesteel_rebuild)


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    cls = type(self)
    copied = compile_module(cls._firesteel_compiler.again(), copy.deepcopy(cls._firesteel_original, memo),
                            cls._firesteel_rebuild)
    memo[id(self)] = copied
    return copied


def compile_module(compiler: Compiler, module: torch.nn.Module, rebuild: Callable[..., Any]) -> torch.nn.Module:
    """The compiled twin of a module. The original stays eager; both share parameters, buffers and attributes.

    ``rebuild`` is called with the module, the backend and the other options where the twin is unpickled.
    """
    module = getattr(type(module), _ORIGINAL, module)
    cls = type(module)
    forward = functools.wraps(cls.forward)(_method(_forward))
    torch_compat.trace_instead(forward, _plain_forward)
    members = {
        "__call__": _call, "forward": forward, "__reduce_ex__": _reduce,
        "__copy__": _copy, "__deepcopy__": _deepcopy, "__module__": cls.__module__, "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__, _ORIGINAL: module, _COMPILER: compiler, _REBUILD: staticmethod(rebuild),
    }
    try:
        compiled_class = types.new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(members))
    except TypeError as error:
        raise UserCodeError(f"{cls.__name__} does not allow subclasses: {error}",
                            "compile its forward: fs.compile(module.forward)") from error
    twin: torch.nn.Module = object.__new__(compiled_class)
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


torch_compat.trace_instead(_call, _plain_call)


def _method(function: Any) -> types.FunctionType:
    """A new function object, so that each class can have its own name and signature for it."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
