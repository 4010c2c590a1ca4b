"""Compiled nn.Modules: an object of a generated subclass that shares the original's state."""

from __future__ import annotations

import types
from typing import Any

import torch

from .capture.modules import has_hooks
from .runtime import stance
from .runtime.compiler import Compiler, bind
from .runtime.units import Resume, drive

_ORIGINAL = "_firesteel_original"
_COMPILER = "_firesteel_compiler"


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """``compiled_module(*args, **kwargs)``."""
    original = object.__getattribute__(self, _ORIGINAL)
    compiler = object.__getattribute__(self, _COMPILER)
    if stance.STATE.eager:
        return original(*args, **kwargs)
    if has_hooks(original) or type(original).__call__ is not torch.nn.Module.__call__:
        function, receiver = _through_call, (original,)
        bound = bind(function, (original, args, kwargs), {})
    else:
        forward = original.forward
        if type(forward) is not types.MethodType or type(forward.__func__) is not types.FunctionType:
            function = _through_call
            bound = bind(function, (original, args, kwargs), {})
        else:
            function, receiver = forward.__func__, (forward.__self__,)
            bound = bind(function, (*receiver, *args), kwargs)
    if bound is None:
        return original(*args, **kwargs)
    result = compiler.unit_of(function).call(bound)
    return drive(result) if type(result) is Resume else result


def _through_call(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return module(*args, **kwargs)


def _reduce(self: Any, protocol: int) -> Any:
    original = object.__getattribute__(self, _ORIGINAL)
    compiler = object.__getattribute__(self, _COMPILER)
    return rebuild, (original, compiler.backend_name if isinstance(compiler.backend_name, str) else None, compiler.fullgraph,
                     compiler.dynamic)


def rebuild(original: torch.nn.Module, backend: str | None, fullgraph: bool, dynamic: bool | None) -> Any:
    """Unpickle a compiled module: it is compiled again on first use."""
    from .compile import compile

    return compile(original, backend=backend, fullgraph=fullgraph, dynamic=dynamic)


def compile_module(compiler: Compiler, module: torch.nn.Module) -> torch.nn.Module:
    """The compiled twin of a module. The original stays eager; both share parameters, buffers and attributes."""
    if hasattr(type(module), _ORIGINAL):
        module = object.__getattribute__(module, _ORIGINAL)
    cls = type(module)
    made = type(cls.__name__, (cls,), {
        "__call__": _call, "__reduce_ex__": _reduce, "__module__": cls.__module__, "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__, _ORIGINAL: module, _COMPILER: compiler, "__deepcopy__": _deepcopy, "_firesteel_compiled": module,
    })
    twin = object.__new__(made)
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    import copy

    compiler = object.__getattribute__(self, _COMPILER)
    return compile_module(Compiler(compiler.backend, fullgraph=compiler.fullgraph, dynamic=compiler.dynamic),
                          copy.deepcopy(object.__getattribute__(self, _ORIGINAL), memo))
