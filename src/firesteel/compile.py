"""`compile`: from a function, method, module or callable object to the same thing, compiled."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from . import config
from .capture.markers import COMPILED, DISABLED
from .errors import UserCodeError
from .runtime import stance
from .runtime.compiler import Compiler, bind
from .runtime.units import MISS, Resume, Unit, drive

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False,
            nopython: bool | None = None) -> Any:
    """Compile a function, method, nn.Module or callable object; also usable as a decorator, with or without arguments.

    Args:
        model: what to compile; left out, a decorator is returned.
        fullgraph: raise `GraphBreakError` at the first graph break instead of continuing in a new graph.
        dynamic: None makes numbers that change into inputs when they are seen to change, False never does.
        backend: a name from `list_backends()` or a callable ``(graph_module, example_inputs) -> callable``.
        mode: accepted for compatibility with torch.compile; kernels that it would tune come with a later release.
        options: passed to the backend's compiler; none are known to the eager backend.
        disable: return the argument unchanged.
        nopython: old name of `fullgraph`.

    >>> import torch
    >>> @compile
    ... def f(x, y):
    ...     return torch.sin(x) + y
    >>> bool((f(torch.ones(3), torch.ones(3)) == torch.sin(torch.ones(3)) + 1).all())
    True
    """
    if nopython is not None:
        fullgraph = nopython
    if mode not in MODES:
        raise UserCodeError(f"unknown mode {mode!r}", f"choose one of {', '.join(repr(m) for m in MODES)}")
    if model is None:
        return functools.partial(_compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, options=options, disable=disable)
    return _compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=backend, options=options, disable=disable)


def _compile(model: Any, *, fullgraph: bool, dynamic: bool | None, backend: Any, options: dict[str, Any] | None,
             disable: bool) -> Any:
    if disable:
        return model
    compiler = Compiler(backend if backend is not None else config.default_backend, fullgraph=fullgraph, dynamic=dynamic, options=options)
    return compile_with(compiler, model)


def compile_with(compiler: Compiler, model: Any) -> Any:
    """Compile under given options."""
    if isinstance(model, torch.nn.Module):
        from .module_wrapper import compile_module

        return compile_module(compiler, model)
    if isinstance(model, types.MethodType) and isinstance(model.__func__, types.FunctionType):
        return types.MethodType(wrap_function(compiler, model.__func__), model.__self__)
    if isinstance(model, functools.partial):
        return functools.partial(compile_with(compiler, model.func), *model.args, **model.keywords)
    original = getattr(model, "__dict__", {}).get(COMPILED)
    if original is not None:
        model = original
    if isinstance(model, types.FunctionType):
        return wrap_function(compiler, model)
    if isinstance(model, type):
        raise UserCodeError(f"{model.__name__} is a class", "compile an instance, or the functions that use it")
    if not callable(model):
        raise UserCodeError(f"a {type(model).__name__} object cannot be called", "pass a function, method or nn.Module")
    caller = type(model).__call__
    if isinstance(caller, types.FunctionType):
        return types.MethodType(wrap_function(compiler, caller), model)
    return wrap_function(compiler, _calling(model))


def _calling(target: Any) -> types.FunctionType:
    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    functools.update_wrapper(call, target, assigned=("__name__", "__doc__"), updated=())
    return call  # type: ignore[return-value]


WRAPPER = """
def {name}({signature}):
    for _fs_entry in _fs_unit.functions:
        _fs_result = _fs_entry({arguments})
        if _fs_result is not _fs_miss:
            if _fs_entry is not _fs_unit.functions[0]:
                _fs_unit.promote(_fs_entry)
            break
    else:
        _fs_result = _fs_unit.missed(({arguments},))
    if type(_fs_result) is _fs_resume:
        return _fs_drive(_fs_result)
    return _fs_result
"""


def wrap_function(compiler: Compiler, function: types.FunctionType) -> Callable[..., Any]:
    """A function of the same signature that dispatches to compiled entries."""
    unit = compiler.unit_of(function)
    made = _make_wrapper(unit, function)
    wrapped = functools.wraps(function)(made)
    setattr(wrapped, COMPILED, function)
    wrapped.__dict__.pop(DISABLED, None)
    wrapped._firesteel_unit = unit  # type: ignore[attr-defined]
    return wrapped


def _make_wrapper(unit: Unit, function: types.FunctionType) -> Callable[..., Any]:
    code = function.__code__
    flags, count, keyword_only = code.co_flags, code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    scope: dict[str, Any] = {"_fs_unit": unit, "_fs_miss": MISS, "_fs_resume": Resume, "_fs_drive": drive,
                             "_fs_closure": function.__closure__}
    if flags & 0x2A0 or any(name.startswith("_fs_") or not name.isidentifier() for name in names[: count + keyword_only]) \
            or function.__name__ in ("None",):
        return _generic_wrapper(unit, function)
    defaults, kwdefaults = function.__defaults__ or (), function.__kwdefaults__ or {}
    parts, arguments = [], ["_fs_closure"] if code.co_freevars else []
    for position, name in enumerate(names[:count]):
        index = position - (count - len(defaults))
        if index >= 0:
            scope[f"_fs_d{index}"] = defaults[index]
            parts.append(f"{name}=_fs_d{index}")
        else:
            parts.append(name)
        if position + 1 == code.co_posonlyargcount:
            parts.append("/")
        arguments.append(name)
    star = count + keyword_only
    if flags & 0x04:
        parts.append("*" + names[star])
    elif keyword_only:
        parts.append("*")
    for name in names[count: count + keyword_only]:
        if name in kwdefaults:
            scope[f"_fs_kw_{name}"] = kwdefaults[name]
            parts.append(f"{name}=_fs_kw_{name}")
        else:
            parts.append(name)
        arguments.append(name)
    if flags & 0x04:
        arguments.append(names[star])
        star += 1
    if flags & 0x08:
        parts.append("**" + names[star])
        arguments.append(names[star])
    text = WRAPPER.format(name="wrapper", signature=", ".join(parts), arguments=", ".join(arguments) or "")
    text = text.replace("missed((,))", "missed(())")
    exec(builtins_compile(text, f"<firesteel wrapper of {function.__qualname__}>"), scope)
    return scope["wrapper"]


def builtins_compile(text: str, filename: str) -> types.CodeType:
    import builtins

    return builtins.compile(text, filename, "exec", dont_inherit=True)


def _generic_wrapper(unit: Unit, function: types.FunctionType) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = bind(function, args, kwargs)
        if bound is None or stance.STATE.eager or function.__code__.co_flags & 0x2A0:
            return function(*args, **kwargs)
        result = unit.call(bound)
        return drive(result) if type(result) is Resume else result

    return wrapper
