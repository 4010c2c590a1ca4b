"""Compiled nn.Modules: an object of a generated subclass that shares the original's state."""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

import torch

from .capture.modules import has_hooks
from .errors import UserCodeError
from .runtime import stance
from .runtime.compiler import Compiler, bind
from .runtime.tracebacks import leaving
from .runtime.units import Resume, drive

_ORIGINAL = "_firesteel_original"
_COMPILER = "_firesteel_compiler"


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module(*args, **kwargs)``."""
    cls = type(self)
    original = cls._firesteel_original
    if has_hooks(original) or type(original).__call__ is not torch.nn.Module.__call__:
        return _dispatch(cls._firesteel_compiler, original, _through_call, (original, args, kwargs), {}, args, kwargs)
    forward = original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
        return _dispatch(cls._firesteel_compiler, original, _through_call, (original, args, kwargs), {}, args, kwargs)
    return _dispatch(cls._firesteel_compiler, original, forward.__func__, (forward.__self__, *args), kwargs, args, kwargs)


def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module.forward(*args, **kwargs)``: compiled too, without hooks."""
    cls = type(self)
    original = cls._firesteel_original
    forward = original.forward
    if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
        return forward(*args, **kwargs)
    return _dispatch(cls._firesteel_compiler, forward, forward.__func__, (forward.__self__, *args), kwargs, args, kwargs)


def _dispatch(compiler: Compiler, plain: Any, function: Any, positional: tuple[Any, ...], named: dict[str, Any],
              args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `function` through its compiled entries, or `plain` uncompiled where that cannot be."""
    bound = None if stance.STATE.eager else bind(function, positional, named)
    if bound is None:
        return plain(*args, **kwargs)
    try:
        result = compiler.unit_of(function).call(bound)
        return drive(result) if type(result) is Resume else result
    except BaseException as error:
        leaving(error)
        raise


def _through_call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module(*args, **kwargs)


def _reduce(self: Any, protocol: int) -> Any:
    cls = type(self)
    compiler = cls._firesteel_compiler
    return rebuild, (cls._firesteel_original, compiler.backend, compiler.fullgraph, compiler.dynamic)


def rebuild(original: torch.nn.Module, backend: Any, fullgraph: bool, dynamic: bool | None) -> Any:
    """Unpickle a compiled module: it is compiled again on first use."""
    from .compiling import compile

    return compile(original, backend=backend, fullgraph=fullgraph, dynamic=dynamic)


def _copy(self: Any) -> Any:
    cls = type(self)
    return compile_module(cls._firesteel_compiler.again(), copy.copy(cls._firesteel_original))


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    cls = type(self)
    made = compile_module(cls._firesteel_compiler.again(), copy.deepcopy(cls._firesteel_original, memo))
    memo[id(self)] = made
    return made


def compile_module(compiler: Compiler, module: torch.nn.Module) -> torch.nn.Module:
    """The compiled twin of a module. The original stays eager; both share parameters, buffers and attributes."""
    module = getattr(type(module), _ORIGINAL, module)
    cls = type(module)
    members = {
        "__call__": _call, "forward": functools.wraps(cls.forward)(_method(_forward)), "__reduce_ex__": _reduce,
        "__copy__": _copy, "__deepcopy__": _deepcopy, "__module__": cls.__module__, "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__, _ORIGINAL: module, _COMPILER: compiler,
    }
    try:
        made = types.new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(members))
    except TypeError as error:
        raise UserCodeError(f"{cls.__name__} does not allow subclasses: {error}",
                            "compile its forward: fs.compile(module.forward)") from error
    twin = object.__new__(made)
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


def _method(function: types.FunctionType) -> types.FunctionType:
    """A new function object, so that each class can have its own name and signature for it."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
