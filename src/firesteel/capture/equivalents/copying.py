"""copy.copy and copy.deepcopy without their tables of functions by type.

Entries that a program adds to the private tables `copy._copy_dispatch` and `copy._deepcopy_dispatch` are not seen;
those it adds to the public `copyreg.dispatch_table` are.
"""

from __future__ import annotations

import collections
import copy as copy_module
import copyreg
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from firesteel.capture.call_handlers import MISSING, equivalent_of

_IMMUTABLE_TYPES = (
    type(None),
    int,
    float,
    bool,
    complex,
    str,
    bytes,
    type,
    range,
    property,
    type(Ellipsis),
    type(NotImplemented),
    types.BuiltinFunctionType,
    types.FunctionType,
    types.CodeType,
    weakref.ref,
)
_SHALLOW_IMMUTABLE_TYPES = (*_IMMUTABLE_TYPES, tuple, frozenset, slice)


def has_attributes(x: Any) -> bool:
    """Whether attributes were set on a dictionary; stands for what `tensor_copies` captures."""
    return bool(x.__dict__)


def stay_compiled(x: torch.nn.Module) -> None:
    """Stands for what `tensor_copies` captures."""


def shallow_tensor_copy(x: torch.Tensor) -> torch.Tensor:
    """Stands for what `tensor_copies` captures."""
    return copy_module.copy(x)


@equivalent_of(copy_module.copy)
def copy(x: Any) -> Any:
    cls = type(x)
    if cls in _SHALLOW_IMMUTABLE_TYPES:
        return x
    if cls in (list, dict, set, bytearray):
        return x.copy()
    if issubclass(cls, type):
        return x
    if cls is torch.Tensor:
        return shallow_tensor_copy(x)
    if issubclass(cls, torch.nn.Module):
        stay_compiled(x)
    copier = getattr(cls, "__copy__", None)
    if copier is not None:
        return copier(x)
    reduced = _reduce(x, cls, "un(shallow)copyable")
    if isinstance(reduced, str):
        return x
    return _reconstruct(x, None, *reduced)


@equivalent_of(copy_module.deepcopy)
def deepcopy(x: Any, memo: dict[int, Any] | None = None) -> Any:
    if memo is None:
        memo = {}
    known = memo.get(id(x), MISSING)
    if known is not MISSING:
        return known
    result = _deep_copied(x, memo)
    if result is not x:
        memo[id(x)] = result
        _keep_alive(x, memo)
    return result


def _keep_alive(x: Any, memo: dict[int, Any]) -> None:
    """Let `x` live as long as the memo, so that no other object gets its id meanwhile."""
    if id(memo) in memo:
        memo[id(memo)].append(x)
    else:
        memo[id(memo)] = [x]


def _deep_copied(x: Any, memo: dict[int, Any]) -> Any:
    cls = type(x)
    if cls in _IMMUTABLE_TYPES:
        return x
    if cls is list:
        return _deepcopy_list(x, memo)
    if cls is tuple:
        return _deepcopy_tuple(x, memo)
    if cls is dict or cls is collections.OrderedDict and not has_attributes(x):
        return _deepcopy_dict(x, memo)
    if cls is set or cls is frozenset:
        elements = []
        for element in x:
            elements.append(deepcopy(element, memo))
        return cls(elements)
    if cls is types.MethodType:
        return types.MethodType(x.__func__, deepcopy(x.__self__, memo))
    if issubclass(cls, type):
        return x
    if issubclass(cls, torch.nn.Module):
        stay_compiled(x)
    copier = getattr(x, "__deepcopy__", None)
    if copier is not None:
        return copier(memo)
    reduced = _reduce(x, cls, "un(deep)copyable")
    if isinstance(reduced, str):
        return x
    return _reconstruct(x, memo, *reduced)


def _deepcopy_list(x: list[Any], memo: dict[int, Any]) -> list[Any]:
    result: list[Any] = []
    memo[id(x)] = result  # before the elements, one of which may contain the list
    for element in x:
        result.append(deepcopy(element, memo))
    return result


def _deepcopy_tuple(x: tuple[Any, ...], memo: dict[int, Any]) -> Any:
    elements = []
    changed = False
    for element in x:
        copied = deepcopy(element, memo)
        elements.append(copied)
        if copied is not element:
            changed = True
    if id(x) in memo:  # an element contained the tuple and copied it
        return memo[id(x)]
    return tuple(elements) if changed else x


def _deepcopy_dict(x: dict[Any, Any], memo: dict[int, Any]) -> dict[Any, Any]:
    result: dict[Any, Any] = type(x)()
    memo[id(x)] = result
    for key, value in x.items():
        copied = deepcopy(key, memo)
        result[copied] = deepcopy(value, memo)
    return result


def _reduce(x: Any, cls: type, refusal: str) -> Any:
    reductor = copyreg.dispatch_table.get(cls)
    if reductor is not None:
        return reductor(x)
    reduce_ex = getattr(x, "__reduce_ex__", None)
    if reduce_ex is not None:
        return reduce_ex(4)
    reduce = getattr(x, "__reduce__", None)
    if reduce:
        return reduce()
    raise copy_module.Error(f"{refusal} object of type {cls}")


def _reconstruct(
    x: Any,
    memo: dict[int, Any] | None,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    state: Any = None,
    list_items: Any = None,
    dict_items: Any = None,
) -> Any:
    """The object that the answer of `x.__reduce_ex__` describes; its parts are copied too where there is a memo."""
    if memo is None:
        result = function(*arguments)
    else:
        copied_arguments = []
        for argument in arguments:
            copied_arguments.append(deepcopy(argument, memo))
        result = function(*copied_arguments)
        memo[id(x)] = result
    if state is not None:
        _set_state(result, state if memo is None else deepcopy(state, memo))
    if list_items is not None:
        for element in list_items:
            result.append(element if memo is None else deepcopy(element, memo))
    if dict_items is not None:
        for key, value in dict_items:
            if memo is not None:
                key = deepcopy(key, memo)
                value = deepcopy(value, memo)
            result[key] = value
    return result


def _set_state(result: Any, state: Any) -> None:
    if hasattr(result, "__setstate__"):
        result.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state is not None:
        result.__dict__.update(state)
    if slots is not None:
        for name, value in slots.items():
            setattr(result, name, value)
