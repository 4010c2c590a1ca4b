"""How objects describe themselves for copying: __reduce_ex__ and __getstate__ of object, __reduce__ of containers."""

from __future__ import annotations

import copyreg
import types
from collections import OrderedDict, defaultdict, deque
from typing import Any

from firesteel.capture.call_handlers import MISSING, equivalent_of

_POINTER_BYTES = 8


@equivalent_of(object.__reduce_ex__)
def object_reduce_ex(self: Any, protocol: int, /) -> Any:
    cls: Any = type(self)
    if cls.__reduce__ is not object.__reduce__:
        return self.__reduce__()
    if protocol < 2:
        return copyreg._reduce_ex(self, protocol)  # type: ignore[attr-defined]

    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = {}
    has_arguments = True
    if hasattr(cls, "__getnewargs_ex__"):
        arguments, keywords = self.__getnewargs_ex__()
    elif hasattr(cls, "__getnewargs__"):
        arguments = self.__getnewargs__()
    else:
        has_arguments = False

    if cls.__getstate__ is object.__getstate__:
        must_be_complete = not has_arguments and not isinstance(self, (list, dict))
        state = _default_state(self, cls, must_be_complete)
    else:
        state = self.__getstate__()
    list_items = iter(self) if isinstance(self, list) else None
    dict_items = iter(self.items()) if isinstance(self, dict) else None
    if keywords:
        return copyreg.__newobj_ex__, (cls, arguments, keywords), state, list_items, dict_items  # type: ignore[attr-defined]
    return copyreg.__newobj__, (cls, *arguments), state, list_items, dict_items  # type: ignore[attr-defined]


@equivalent_of(object.__getstate__)
def object_getstate(self: Any, /) -> Any:
    return _default_state(self, type(self), False)


def _default_state(x: Any, cls: type, must_be_complete: bool) -> Any:
    names = _slot_names(cls)
    if must_be_complete and _has_hidden_state(cls, len(names)):
        raise TypeError(f"cannot pickle {cls.__name__!r} object")
    state = getattr(x, "__dict__", None)
    if state is not None and len(state) == 0:
        state = None
    slots = {}
    for name in names:
        value = getattr(x, name, MISSING)
        if value is not MISSING:
            slots[name] = value
    return (state, slots) if slots else state


def _slot_names(cls: type) -> list[str]:
    """Names of the slots of `cls`, as attributes. copyreg has this too, but stores its answer on the class."""
    names = []
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        if isinstance(slots, str):
            slots = (slots,)
        for name in slots:
            if name in ("__dict__", "__weakref__"):
                continue
            owner = base.__name__.lstrip("_")
            if name.startswith("__") and not name.endswith("__") and owner:
                name = f"_{owner}{name}"
            names.append(name)
    return names


def _has_hidden_state(cls: type, slots: int) -> bool:
    """Whether instances hold C data that neither `__dict__` nor slots show, as those of locks and generators do."""
    visible = object.__basicsize__ + slots * _POINTER_BYTES
    if cls.__dictoffset__ > 0:
        visible += _POINTER_BYTES
    if cls.__weakrefoffset__ > 0:
        visible += _POINTER_BYTES
    return cls.__itemsize__ > 0 or cls.__basicsize__ > visible


@equivalent_of(tuple.__getnewargs__)  # type: ignore[attr-defined]
def tuple_getnewargs(self: tuple[Any, ...], /) -> tuple[tuple[Any, ...]]:
    return (tuple(self),)


@equivalent_of(set.__reduce__, frozenset.__reduce__)
def set_reduce(self: Any, /) -> Any:
    return type(self), (list(self),), self.__getstate__()


@equivalent_of(deque.__reduce__)
def deque_reduce(self: Any, /) -> Any:
    arguments: tuple[Any, ...] = () if self.maxlen is None else ((), self.maxlen)
    return type(self), arguments, self.__getstate__(), iter(self)


@equivalent_of(OrderedDict.__reduce__)
def ordered_dict_reduce(self: Any, /) -> Any:
    return type(self), (), self.__getstate__(), None, iter(self.items())


@equivalent_of(defaultdict.__reduce__)
def defaultdict_reduce(self: Any, /) -> Any:
    arguments = () if self.default_factory is None else (self.default_factory,)
    return type(self), arguments, None, None, iter(self.items())


@equivalent_of(defaultdict.__copy__, defaultdict.copy)
def defaultdict_copy(self: Any, /) -> Any:
    return type(self)(self.default_factory, self)


@equivalent_of(types.SimpleNamespace.__reduce__)
def namespace_reduce(self: Any, /) -> Any:
    return type(self), (), self.__dict__
