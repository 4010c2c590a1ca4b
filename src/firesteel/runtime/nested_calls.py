"""What compiled code calls between two graphs: Python functions, dispatched to their own compiled entries.

    g(x)                  ->  NestedCall(g)(x)
    module(x)             ->  NestedCall(type(module).forward, module)(x)
    no_grad()(g)(x)       ->  the decorator's own frame as plain Python, which calls NestedCall(g)(x)
    sorted(xs, key=g)     ->  sorted(xs, key=NestedCall(g)), see `callbacks`
    generator(x)          ->  a generator that runs the units between its yields, see `generators`

A break inside a callee leads here: the caller's graph ends at the call, and the callee's begin. Functions of torch and
of the standard library that do something around a call of the program's own (`PASSING_ON`) are no programs to compile,
so their frames run as they are, with what they call dispatched in turn.
"""

from __future__ import annotations

import functools
import operator
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..capture.graph_functions import is_graph_function
from ..capture.markers import is_disallowed, own_control_flow
from ..capture.modules import has_hooks
from ..capture.user_frames import INSTEAD, frame_at
from ..function_marks import is_disabled
from ..own_frames import passed_over
from ..torch_compat.autograd_functions import function_applied_by
from . import stance
from .callbacks import AROUND, calling_back
from .generators import GENERATOR, compiled_generator
from .nesting import MAX_NESTING, NESTING
from .units import MISS, Resume, drive

if TYPE_CHECKING:
    from .compiler import Compiler

PASSING_ON = frozenset({
    "contextlib", "functools", "torch.utils._contextlib", "torch.utils._pytree", "torch.amp.autocast_mode",
    "torch.nn.modules.module", "torch.nn.parallel.distributed", "torch.distributed.fsdp.fully_sharded_data_parallel",
})
"""Modules whose functions call what they were given, in a frame of their own."""


def callee(compiler: Compiler, target: Any) -> Any:
    """What is called in place of `target`: the same, compiled for itself if possible."""
    if compiler.fullgraph:
        return target  # the graph ends where the program raises
    kind = type(target)
    if kind is types.BuiltinFunctionType or kind is type:
        if target is sys._getframe:
            return frame_at
        return calling_back(compiler, target)
    if kind is types.FunctionType:
        if target in INSTEAD:
            return INSTEAD[target]
        own = own_control_flow(target)
        if own is not None:
            return own
        return calling_back(compiler, target) if target in AROUND else _function(compiler, target)
    if kind is types.MethodType:
        return _method(compiler, target)
    if torch_compat.is_torchscript_class(kind):
        return target  # compiled already, by another compiler
    if isinstance(target, torch.nn.Module):
        return _module(compiler, target)
    if kind is functools.partial:
        inner = callee(compiler, target.func)
        return target if inner is target.func else functools.partial(inner, *target.args, **target.keywords)
    if isinstance(target, type):
        return calling_back(compiler, target)
    if kind is operator.methodcaller or kind is operator.attrgetter or kind is types.MethodDescriptorType or \
            kind is types.ClassMethodDescriptorType:
        return calling_back(compiler, target)
    call = kind.__call__
    if type(call) is types.FunctionType and compiler.compiles(call) and not is_disabled(target):
        return NestedCall(compiler, call, target)
    return target


def why_plain(target: Any) -> str:
    """Why something that is called between two graphs is not compiled for itself."""
    function = getattr(target, "__func__", target)
    if is_disabled(function) or isinstance(target, torch.nn.Module) and is_disabled(target.forward):
        return "it is marked as one that is not compiled"
    if is_disallowed(function):
        return "it is marked with disallow_in_graph"
    if type(function) is not types.FunctionType:
        return "it is not a function written in Python"
    if is_graph_function(function):
        return "it is an operation of torch's"
    return f"functions of {function.__module__} are not compiled"


def _function(compiler: Compiler, function: types.FunctionType) -> Any:
    if compiler.compiles(function):
        return NestedCall(compiler, function)
    return _passing_on(compiler, function) or compiler.uncompiled(function)


def _passing_on(compiler: Compiler, function: Any) -> Any:
    """A function of `PASSING_ON` with what it calls dispatched; None for all others."""
    if function.__globals__.get("__name__") not in PASSING_ON or is_disabled(function) or \
            stance.STATE.eager:
        return None
    return compiler.plain_frame(function, with_inner=True)


def _method(compiler: Compiler, method: types.MethodType) -> Any:
    function, receiver = method.__func__, method.__self__
    if type(function) is not types.FunctionType:
        return method
    if function_applied_by(method) is not None:
        return calling_back(compiler, method)
    if function is torch.nn.Module.__call__ and isinstance(receiver, torch.nn.Module):  # as in super().__call__()
        return _module_call(compiler, receiver, method)
    if compiler.compiles(function):
        return NestedCall(compiler, function, receiver)
    plain = _passing_on(compiler, function) or compiler.uncompiled(function)
    return types.MethodType(plain, receiver) if plain is not function else method


def _module(compiler: Compiler, module: torch.nn.Module) -> Any:
    if is_disabled(module):
        return module
    call = type(module).__call__
    if call is torch.nn.Module.__call__:
        return _module_call(compiler, module, module)
    if type(call) is types.FunctionType and compiler.compiles(call):
        return NestedCall(compiler, call, module)
    return module


def _module_call(compiler: Compiler, module: torch.nn.Module, plain: Any) -> Any:
    """What calls a module as torch does; `plain` where that is not compiled."""
    if not torch_compat.MODULE_METHODS.quick() or is_disabled(module):
        return plain
    if has_hooks(module):
        sharded = compiler.sharded_call(module)
        if sharded is not None:
            return sharded
        around = _passing_on(compiler, torch.nn.Module.__call__)
        return types.MethodType(around, module) if around is not None else plain
    forward = module.forward
    if type(forward) is types.MethodType and type(forward.__func__) is types.FunctionType and \
            compiler.compiles(forward.__func__):
        return NestedCall(compiler, forward.__func__, forward.__self__)
    inner = callee(compiler, forward)
    return plain if inner is forward else inner


class NestedCall:
    """A Python function called from compiled code, dispatched to its own compiled entries."""

    __slots__ = ("compiler", "function", "receiver")

    def __init__(self, compiler: Compiler, function: types.FunctionType, receiver: Any = MISS) -> None:
        self.compiler = compiler
        self.function = function
        self.receiver = receiver

    def __str__(self) -> str:
        """What Python calls it when it refuses what stands behind a star."""
        function, receiver = self.function, self.receiver
        if receiver is not MISS and (function.__name__ == "__call__" or isinstance(receiver, torch.nn.Module)):
            return str(receiver)
        return f"{function.__module__}.{function.__qualname__}()"

    @passed_over
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.receiver is not MISS:
            args = (self.receiver, *args)
        function = self.function
        bound = bind(function, args, kwargs)
        if bound is None:
            return function(*args, **kwargs)  # Python raises the right TypeError
        if NESTING.depth >= MAX_NESTING:
            return function(*args, **kwargs)
        if function.__code__.co_flags & GENERATOR:
            unit = self.compiler.unit_of_code(function.__code__, function.__globals__, driven=True)
            return compiled_generator(unit, bound)
        unit = self.compiler.unit_of(function)
        NESTING.depth += 1
        try:
            result = unit.call(bound)
            del args, kwargs, bound  # the program may delete what it was given
            return drive(result) if type(result) is Resume else result
        finally:
            NESTING.depth -= 1


def takes_as_given(code: types.CodeType, count: int) -> bool:
    """Whether so many arguments by position are what a unit of the code is called with."""
    return code.co_argcount == count and not (code.co_flags & 0x0C or code.co_kwonlyargcount or code.co_freevars)


def bind(function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """A unit's arguments for a call; None when Python would refuse the call."""
    code = function.__code__
    count, keyword_only, flags = code.co_argcount, code.co_kwonlyargcount, code.co_flags
    prefix = (function.__closure__,) if code.co_freevars else ()
    if not kwargs and len(args) == count and not keyword_only and not flags & 0x0C:
        return (*prefix, *args)
    if len(args) > count and not flags & 0x04:
        return None
    names = code.co_varnames
    values: list[Any] = list(args[:count])
    rest = dict(kwargs)
    defaults = function.__defaults__ or ()
    for position in range(len(values)):
        if names[position] in rest and position >= code.co_posonlyargcount:
            return None
    for position in range(len(values), count):
        name = names[position]
        if name in rest and position >= code.co_posonlyargcount:
            values.append(rest.pop(name))
        else:
            index = position - (count - len(defaults))
            if index < 0:
                return None
            values.append(defaults[index])
    for name in names[count: count + keyword_only]:
        if name in rest:
            values.append(rest.pop(name))
        elif function.__kwdefaults__ and name in function.__kwdefaults__:
            values.append(function.__kwdefaults__[name])
        else:
            return None
    if flags & 0x04:
        values.append(tuple(args[count:]))
    if flags & 0x08:
        values.append(rest)
    elif rest:
        return None
    return (*prefix, *values)
