"""From a function, method, module or callable object to the same thing, which dispatches to compiled entries."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import torch_compat
from .backends.native import native
from .backends.registry import lookup_backend
from .capture.markers import disabled_frame
from .capture.tracebacks import leaving
from .errors import GraphBreakError, UserCodeError, with_article
from .function_marks import COMPILED, UNIT, is_disabled, set_own_attributes, trace_instead
from .logs import log
from .own_frames import own_file, passed_over
from .runtime import stance
from .runtime.compiler import Compiler
from .runtime.nested_calls import bind
from .runtime.ranges import in_range
from .runtime.units import MISS, UNCAPTURED_FLAGS, Resume, Unit, drive
from .signatures import Signature, define, scope_of

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


def compile_with(compiler: Compiler, model: Any, again: Callable[[Any], Any] | None = None) -> Any:
    """Compile under given options; `again` compiles copies of modules, and what was pickled."""
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

        expect(compiler, model)
        if is_disabled(model):
            return model
        again = again or functools.partial(_compile_again, compiler.backend, compiler.given)
        return compile_module(compiler, model, again)
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile_with(compiler, model.__func__, again))
    if isinstance(model, types.MethodType) and isinstance(model.__func__, types.FunctionType):
        if model.__func__ is torch_compat.MODULE_CALL and isinstance(model.__self__, torch.nn.Module):
            return _compile_module_call(compiler, model.__self__)
        return types.MethodType(compile_with(compiler, model.__func__, again), model.__self__)
    if isinstance(model, functools.partial):
        return functools.partial(compile_with(compiler, model.func, again), *model.args, **model.keywords)
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


def _compile_module_call(compiler: Compiler, module: torch.nn.Module) -> Any:
    """Calls of a module with its hooks, as ``module.compile()`` compiles them. It may be sharded later."""
    compiled = _compile_function(compiler, torch_compat.MODULE_CALL)

    @passed_over
    def call(self: torch.nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        sharded = None if stance.STATE.eager else compiler.sharded_call(self)
        return compiled(self, *args, **kwargs) if sharded is None else sharded(*args, **kwargs)

    return types.MethodType(functools.wraps(torch_compat.MODULE_CALL)(call), module)


def expect(compiler: Compiler, module: torch.nn.Module) -> None:
    """Before a module is captured: start what will compile it."""
    if compiler.backend is native:
        from .pipeline.compile import expect_model

        expect_model(module)


def _compile_again(backend: Any, given: dict[str, Any], model: Any) -> Any:
    return compile_with(Compiler(backend, **given), model)


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
    if _fs_stance.special or {changed}:
        return _fs_otherwise(({arguments}), {changed})
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
    signature = Signature.of(function)
    if signature is None:
        wrapper = _generic_wrapper(unit, function)
    else:
        scope = scope_of(function)
        wrapper = _define_wrapper(unit, function, signature, scope, of_object)
        _be_told_of_changes(unit, function, wrapper, scope)
    wrapped = functools.wraps(function)(wrapper)
    set_own_attributes(wrapped, **{COMPILED: function, UNIT: unit})
    trace_instead(wrapped, function)
    return wrapped


def dispatch_from_now_on(wrapper: types.FunctionType, unit: Unit, function: types.FunctionType,
                         signature: Signature) -> None:
    """Have a function that has called `function` so far dispatch to compiled entries: the same object, with other
    code."""
    scope = wrapper.__globals__
    wrapper.__code__ = _define_wrapper(unit, function, signature, scope, False).__code__
    _be_told_of_changes(unit, function, wrapper, scope)
    set_own_attributes(wrapper, **{UNIT: unit})


def _define_wrapper(unit: Unit, function: types.FunctionType, signature: Signature, scope: dict[str, Any],
                    of_object: bool) -> types.FunctionType:
    scope |= {"_fs_unit": unit, "_fs_miss": MISS, "_fs_resume": Resume, "_fs_drive": drive,
              "_fs_leaving": leaving, "_fs_type": type, "_fs_any_error": BaseException,
              "_fs_closure": function.__closure__, "_fs_stance": stance.STATE, "_fs_of_object": of_object}
    changed = signature.changed
    if of_object:
        changed += f" or _fs_type({signature.names[0]}).__call__ is not _fs_function"
    arguments = [*(["_fs_closure"] if unit.code.co_freevars else []), *signature.names]
    # the program may delete what it was given
    dropped = " = ".join(signature.names)
    text = WRAPPER.format(signature=signature.parameters, changed=changed,
                          dropped=f"{dropped} = None; " if dropped else "",
                          arguments="".join(f"{argument}, " for argument in arguments))
    return define(text, own_file(f"call of {function.__qualname__}"), scope, function)


def _be_told_of_changes(unit: Unit, function: types.FunctionType, wrapper: types.FunctionType,
                        scope: dict[str, Any]) -> None:
    scope["_fs_otherwise"] = functools.partial(_otherwise, unit, function, wrapper, scope)


@passed_over
def _otherwise(unit: Unit, function: types.FunctionType, wrapper: types.FunctionType, scope: dict[str, Any],
               arguments: tuple[Any, ...], changed: bool) -> Any:
    """The call when compiled entries must not be used: everything runs uncompiled, or the function got other code or
    other defaults. Or when a profiler is to see it.

    In the call that notices new defaults, an argument that is the old default counts as not given.
    """
    if not changed and not stance.STATE.eager:
        return in_range(unit, function, arguments)
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


@passed_over
def _generic_wrapper(unit: Unit, function: types.FunctionType) -> Callable[..., Any]:
    """For parameters that cannot be written down: those of comprehensions, or names that the wrapper uses itself."""
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        bound = bind(function, args, kwargs)
        if bound is None or stance.STATE.eager:
            return function(*args, **kwargs)
        if stance.STATE.profiled:
            return in_range(unit.compiler.unit_of(function), function, bound)
        result = unit.compiler.unit_of(function).call(bound)
        return drive(result) if type(result) is Resume else result

    return wrapper
