"""`compile`: from a function, method, module or callable object to the same thing, compiled."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import config, torch_compat
from .backends.native import native
from .backends.registry import lookup_backend
from .capture.markers import COMPILED, disabled_frame, is_disabled
from .capture.tracebacks import leaving
from .capture.user_frames import own_file, passed_over
from .errors import GraphBreakError, UserCodeError, with_article
from .importing import imports_uncollected
from .interruptions import uninterrupted
from .logs import log
from .runtime import stance
from .runtime.compiler import Compiler
from .runtime.nested_calls import bind
from .runtime.units import MISS, UNCAPTURED_FLAGS, Resume, Unit, drive
from .support import usable_backend

MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None,
            mode: str | None = None, options: dict[str, Any] | None = None, name: str | None = None,
            disable: bool = False, recompile_limit: int | None = None, isolate_recompiles: bool = True,
            dynamic_shapes: Any = None, shapes_spec: Any = None, nopython: bool | None = None) -> Any:
    """Compile a function, method, nn.Module or callable object; also usable as a decorator, with or without arguments.

    Args:
        model: what to compile; left out, a decorator is returned.
        fullgraph: raise `GraphBreakError` at the first graph break instead of continuing in a new graph.
        dynamic: None makes sizes and numbers symbols once they are seen to change, True all at once, False none.
        backend: a name from `list_backends()` or a callable ``(graph_module, example_inputs) -> callable``.
        mode: "default", "reduce-overhead", "max-autotune": a set of options of the native backend.
        options: of the native backend, see `firesteel.kernels.options.Options`; a callable backend gets them if it has
            a parameter `options`.
        name: stands before the names of functions in logs, warnings and compile times; a callable backend gets it if it
            has a parameter `name`.
        disable: return the argument unchanged.
        recompile_limit: how many compiled versions each function may have, in place of ``config.recompile_limit``.
        isolate_recompiles: every call of compile has compiled versions, and a count of them, of its own; it takes over
            those of others that fit. With False it shares all with other calls that say False and the same options.
        dynamic_shapes: which sizes and numbers of the arguments vary, within which bounds, and how they are related;
            everything else is constant. See `size_declarations`.
        shapes_spec: other name of `dynamic_shapes`.
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
    if shapes_spec is not None:
        if dynamic_shapes is not None:
            raise UserCodeError("both dynamic_shapes= and shapes_spec= are given", "they are names of the same")
        dynamic_shapes = shapes_spec
    check_arguments(fullgraph, dynamic, mode, options)
    _check_names(name, recompile_limit)

    def apply(target: Any) -> Any:
        if disable:
            return target
        with uninterrupted(), imports_uncollected():  # much is imported when first needed
            chosen = usable_backend(config.default_backend if backend is None else backend)
            make = Compiler if isolate_recompiles else shared_compiler
            compiler = make(chosen, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options, name=name,
                            recompile_limit=recompile_limit, dynamic_shapes=dynamic_shapes)
            # other options keep something of the parameters: packed weights, recorded launches
            compiler.shares = compiler.backend is native and not options and mode in (None, "default")
            return compile_with(compiler, target)

    return apply if model is None else apply(model)


def check_arguments(fullgraph: Any, dynamic: Any, mode: Any, options: Any) -> None:
    """Refuse values that `compile` does not take."""
    if not isinstance(fullgraph, bool):
        raise UserCodeError(f"fullgraph={fullgraph!r}", "fullgraph takes True or False")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise UserCodeError(f"dynamic={dynamic!r}", "dynamic takes True, False or None")
    if mode not in MODES:
        raise UserCodeError(f"unknown mode {mode!r}", f"choose one of {', '.join(repr(m) for m in MODES)}")
    if options is not None and not isinstance(options, dict):
        raise UserCodeError(f"options={options!r}", "options takes a dict from names to values")
    if options is not None and mode is not None:
        raise UserCodeError("both mode= and options= are given", "a mode is a set of options: give one of them")


def _check_names(name: Any, recompile_limit: Any) -> None:
    if name is not None and not isinstance(name, str):
        raise UserCodeError(f"name={name!r}", "name takes a string")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise UserCodeError(f"recompile_limit={recompile_limit!r}", "it takes a number of versions, 1 or more")


_SHARED: weakref.WeakSet[Compiler] = weakref.WeakSet()


def shared_compiler(backend: Any, **given: Any) -> Compiler:
    """The compiler of all calls that want to share one and have these options."""
    for known in list(_SHARED):
        if known.backend is lookup_backend(backend) and known.given == given:
            return known
    compiler = Compiler(backend, **given)
    _SHARED.add(compiler)
    return compiler


def why_uncompiled(model: Any) -> str | None:
    """Why something stays what it is instead of being compiled; None where that is not so."""
    if torch_compat.is_torchscript(model):
        return "TorchScript is compiled already, by another compiler: its Python cannot be read"
    function = getattr(model, "__func__", model)
    if isinstance(function, types.FunctionType) and function.__code__.co_flags & UNCAPTURED_FLAGS:
        return "generator and coroutine functions run as plain Python"
    return None


def rebuild(original: torch.nn.Module, backend: Any, given: dict[str, Any]) -> Any:
    """Unpickle a compiled module: it is compiled again on first use."""
    return compile(original, backend=backend, **given)


def compile_with(compiler: Compiler, model: Any) -> Any:
    """Compile under given options."""
    if torch_compat.is_torchscript(model):
        reason = why_uncompiled(model) or ""
        if compiler.fullgraph:
            raise GraphBreakError(reason, "Compile the module or function that it was made from.")
        log("fallbacks", "%s runs as it is: %s", type(model).__name__, reason)
        return model
    if isinstance(model, (torch.nn.Module, types.FunctionType)) and \
            (compiler.given["dynamic_shapes"] is not None or torch_compat.attached_spec(model) is not None):
        from .size_declarations import declare_for

        declare_for(compiler, model)
    if isinstance(model, torch.nn.Module):
        from .module_wrapper import compile_module

        if compiler.backend is native:
            from .pipeline.compile import expect_model

            expect_model(model)
        return model if is_disabled(model) else compile_module(compiler, model, rebuild)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile_with(compiler, model.__func__))
    if isinstance(model, types.MethodType) and isinstance(model.__func__, types.FunctionType):
        return types.MethodType(compile_with(compiler, model.__func__), model.__self__)
    if isinstance(model, functools.partial):
        return functools.partial(compile_with(compiler, model.func), *model.args, **model.keywords)
    original = getattr(model, "__dict__", {}).get(COMPILED)
    if original is not None:
        model = original
    if isinstance(model, types.FunctionType):
        return _compile_function(compiler, model)
    if isinstance(model, type):
        raise UserCodeError(f"{model.__name__} is a class", "compile an instance, or the functions that use it")
    if not callable(model):
        raise UserCodeError(f"{with_article(type(model).__name__)} object cannot be called",
                            "pass a function, method or nn.Module")
    caller = type(model).__call__
    if isinstance(caller, types.FunctionType) and caller.__code__.co_argcount:
        return types.MethodType(_compile_function(compiler, caller, of_object=True), model)
    return wrap_function(compiler, _calling(model))


def _compile_function(compiler: Compiler, function: types.FunctionType, of_object: bool = False) -> Any:
    if function.__code__.co_flags & UNCAPTURED_FLAGS:
        return function  # generators and coroutines run as plain Python; compiled code that consumes them inlines them
    if is_disabled(function):
        return _uncompiled(compiler, function)
    return wrap_function(compiler, function, of_object)


def _uncompiled(compiler: Compiler, function: types.FunctionType) -> Any:
    """A disabled function: as it is, or with compiled callees if only its frame is disabled."""
    if disabled_frame(function) is None:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiler.uncompiled(function)(*args, **kwargs)

    return call


def _calling(target: Any) -> types.FunctionType:
    """A function that calls an object; what its class says of calls may change, so it is looked up in each call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    call.__name__ = call.__qualname__ = type(target).__qualname__
    functools.update_wrapper(call, target, assigned=("__name__", "__qualname__", "__doc__"), updated=())
    return call  # type: ignore[return-value]


WRAPPER = """
def wrapper({signature}):
    if _fs_stance.eager or _fs_function.__code__ is not _fs_code{changed}:
        return _fs_otherwise(({arguments}))
    try:
        for _fs_entry in (_fs_functions := _fs_unit.functions):
            _fs_result = _fs_entry({arguments})
            if _fs_result is not _fs_miss:
                if _fs_entry is not _fs_functions[0]:
                    _fs_unit.promote(_fs_entry)
                break
        else:
            _fs_result = _fs_unit.missed(({arguments}))
        if _fs_type(_fs_result) is _fs_resume:
            {dropped}return _fs_drive(_fs_result)
        return _fs_result
    except _fs_any_error as _fs_error:
        _fs_leaving(_fs_error)
        raise
"""


def wrap_function(compiler: Compiler, function: types.FunctionType, of_object: bool = False) -> Callable[..., Any]:
    """A function of the same signature that dispatches to compiled entries.

    With `of_object` it is what calling its first argument means: the object's class may come to say otherwise.
    """
    unit = compiler.unit_of(function)
    wrapper = _make_wrapper(unit, function, of_object)
    wrapped = functools.wraps(function)(wrapper)
    torch_compat.set_own_attributes(wrapped, **{COMPILED: function, "_firesteel_unit": unit})
    torch_compat.trace_instead(wrapped, function)
    return wrapped


def _make_wrapper(unit: Unit, function: types.FunctionType, of_object: bool) -> Callable[..., Any]:
    code = function.__code__
    flags, count, keyword_only = code.co_flags, code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    if any(name.startswith("_fs_") or not name.isidentifier() for name in names[: count + keyword_only + 2]):
        return _generic_wrapper(unit, function)
    scope: dict[str, Any] = {
        "_fs_unit": unit, "_fs_miss": MISS, "_fs_resume": Resume, "_fs_drive": drive,
        "_fs_leaving": leaving, "_fs_type": type, "_fs_any_error": BaseException,
        "_fs_closure": function.__closure__, "_fs_stance": stance.STATE, "_fs_function": function, "_fs_code": code}
    given, by_name = function.__defaults__, function.__kwdefaults__
    with_default = len(given or ())
    # The wrapper has the function's own defaults. They can be changed: noticed at the call.
    changed = ""
    if given:
        changed += " or _fs_function.__defaults__ is not _fs_given"
    if by_name:
        changed += " or _fs_function.__kwdefaults__ is not _fs_by_name"
    if of_object:
        changed += f" or _fs_type({names[0]}).__call__ is not _fs_function"
    scope["_fs_given"], scope["_fs_by_name"], scope["_fs_of_object"] = given, by_name, of_object
    parts = []
    arguments = ["_fs_closure"] if code.co_freevars else []
    for position, name in enumerate(names[:count]):
        if position >= count - with_default:
            parts.append(f"{name}=None")
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
        if name in (function.__kwdefaults__ or {}):
            parts.append(f"{name}=None")
        else:
            parts.append(name)
        arguments.append(name)
    if flags & 0x04:
        arguments.append(names[star])
        star += 1
    if flags & 0x08:
        parts.append("**" + names[star])
        arguments.append(names[star])
    # the program may delete what it was given
    dropped = " = ".join(name for name in arguments if name != "_fs_closure")
    text = WRAPPER.format(signature=", ".join(parts), changed=changed, dropped=f"{dropped} = None; " if dropped else "",
                          arguments="".join(f"{argument}, " for argument in arguments))
    exec(builtins_compile(text, own_file(f"call of {function.__qualname__}")), scope)
    wrapper = scope["wrapper"]
    wrapper.__defaults__, wrapper.__kwdefaults__ = given, by_name
    scope["_fs_otherwise"] = functools.partial(_otherwise, unit, function, wrapper, scope)
    return wrapper


@passed_over
def _otherwise(unit: Unit, function: types.FunctionType, wrapper: types.FunctionType, scope: dict[str, Any],
               arguments: tuple[Any, ...]) -> Any:
    """The call when compiled entries must not be used: everything runs uncompiled, or the function got other code or
    other defaults.

    In the call that notices new defaults, an argument that is the old default counts as not given.
    """
    code = unit.code
    values = list(arguments[1:] if code.co_freevars else arguments)
    names = code.co_varnames
    positional = values[: code.co_argcount]
    rest = values[code.co_argcount:]
    keywords = {}
    for name in names[code.co_argcount: code.co_argcount + code.co_kwonlyargcount]:
        keywords[name] = rest.pop(0)
    several = rest.pop(0) if code.co_flags & 0x04 else ()
    by_name = scope["_fs_by_name"] or {}
    called = type(values[0]).__call__ if scope["_fs_of_object"] else function
    other = called is not function or function.__code__ is not code
    if other or function.__defaults__ is not scope["_fs_given"]:
        old = list(scope["_fs_given"] or ())
        while old and not several and positional[-1] is old[-1]:
            positional.pop()
            old.pop()
    if other or function.__kwdefaults__ is not scope["_fs_by_name"]:
        keywords = {name: value for name, value in keywords.items()
                    if name not in by_name or value is not by_name[name]}
    positional.extend(several)
    if code.co_flags & 0x08:
        keywords.update(rest.pop(0))
    if not other and len(function.__defaults__ or ()) >= len(scope["_fs_given"] or ()) and \
            (function.__kwdefaults__ or {}).keys() >= by_name.keys():
        scope["_fs_given"] = wrapper.__defaults__ = function.__defaults__
        scope["_fs_by_name"] = wrapper.__kwdefaults__ = function.__kwdefaults__
    target = called if stance.STATE.eager else unit.compiler.nested(called)
    return target(*positional, **keywords)


def builtins_compile(text: str, filename: str) -> types.CodeType:
    import builtins

    return builtins.compile(text, filename, "exec", dont_inherit=True)


@passed_over
def _generic_wrapper(unit: Unit, function: types.FunctionType) -> Callable[..., Any]:
    """For parameters that cannot be written down: those of comprehensions, or names that the wrapper uses itself."""
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = bind(function, args, kwargs)
        if bound is None or stance.STATE.eager:
            return function(*args, **kwargs)
        result = unit.compiler.unit_of(function).call(bound)
        return drive(result) if type(result) is Resume else result

    return wrapper
