"""Twins of nn.Modules: objects of a generated subclass that share the state of the original."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .function_marks import trace_instead

if TYPE_CHECKING:
    import torch

ORIGINAL, _AGAIN = "_firesteel_original", "_firesteel_again"


def original_of(module: torch.nn.Module) -> torch.nn.Module:
    """The module behind a twin; any other as it is."""
    original: torch.nn.Module = getattr(type(module), ORIGINAL, module)
    return original


def make_twin(module: torch.nn.Module, again: Callable[[torch.nn.Module], Any],
              members: dict[str, Any]) -> torch.nn.Module:
    """An object of a subclass of the module's class with these members. Both share parameters, buffers, attributes.

    `again` makes a twin of a copy, and of a module that was pickled.
    """
    cls = type(module)
    members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
               "__reduce_ex__": _reduce, "__copy__": _copy, "__deepcopy__": _deepcopy,
               ORIGINAL: module, _AGAIN: staticmethod(again), **members}
    try:
        twin_class = types.new_class(cls.__name__, (cls,), exec_body=lambda namespace: namespace.update(members))
    except TypeError as error:
        from .errors import UserCodeError

        raise UserCodeError(f"{cls.__name__} does not allow subclasses: {error}",
                            "compile its forward: fs.compile(module.forward)") from error
    twin: torch.nn.Module = object.__new__(twin_class)
    object.__setattr__(twin, "__dict__", module.__dict__)
    return twin


def methods(module: torch.nn.Module, call: Any, forward: Any) -> dict[str, Any]:
    """``__call__`` and ``forward`` of a twin. torch.compile traces those of the original."""
    own_forward = functools.wraps(type(module).forward)(_copied(forward))
    trace_instead(own_forward, _plain_forward)
    own_call = _copied(call)
    trace_instead(own_call, _plain_call)
    return {"__call__": own_call, "forward": own_forward}


def _plain_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch.compile sees of ``twin(*args, **kwargs)``."""
    return type(self)._firesteel_original(*args, **kwargs)


def _plain_forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """What torch.compile sees of ``twin.forward(*args, **kwargs)``."""
    return type(self)._firesteel_original.forward(*args, **kwargs)


def _reduce(self: Any, protocol: int) -> Any:
    return type(self)._firesteel_again, (type(self)._firesteel_original,)


def _copy(self: Any) -> Any:
    return type(self)._firesteel_again(copy.copy(type(self)._firesteel_original))


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    copied = type(self)._firesteel_again(copy.deepcopy(type(self)._firesteel_original, memo))
    memo[id(self)] = copied
    return copied


def _copied(function: Any) -> types.FunctionType:
    """A new function object, so that each class can have its own name and signature for it."""
    return types.FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
