"""Dataclasses that cost little to define: for modules that are loaded while someone waits for a first call.

    from ..records import dataclass

The standard decorator writes and compiles the text of up to six methods for each class. This one compiles the
constructor when it is called for the first time, and everything else is made of functions that exist already. Classes
behave the same: fields, `replace`, equality, hashes, text, frozen instances, slots. What is not known here (fields by
keyword only, ordering, fields that are no attributes) is an error where the class is defined.

A class with this decorator and one with the standard one must not inherit from each other when they are frozen.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, slots: bool = False) -> Any:
        """Like `dataclasses.dataclass`.

        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1) == Point(1, 0), hash(Point(1)) == hash(Point(1)), Point(2)
        (True, True, Point(x=2, y=0))
        """
        if cls is None:
            return lambda cls: _made(cls, frozen, eq, slots)
        return _made(cls, frozen, eq, slots)


def _made(cls: Any, frozen: bool, eq: bool, slots: bool) -> Any:
    own = set(cls.__dict__)
    if not cls.__doc__:
        cls.__doc__ = cls.__name__  # otherwise the signature is computed, to be the documentation
    cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(cls)
    if any(f.kw_only for f in fields) or any("InitVar" in str(kind) for kind in cls.__annotations__.values()):
        raise TypeError(f"{cls.__qualname__} has fields that only the standard decorator knows")
    methods: dict[str, Any] = {}
    if "__init__" not in own:
        cls.__init__ = _first_constructor(cls, frozen)
    methods["__repr__"] = _text(tuple([f.name for f in fields if f.repr]))
    compared = tuple([f.name for f in fields if f.compare])
    if eq:
        methods["__eq__"] = _equality(compared)
        if "__hash__" not in own or "__eq__" in own and cls.__hash__ is None:
            hashed = tuple([f.name for f in fields if (f.compare if f.hash is None else f.hash)])
            cls.__hash__ = _hash(hashed) if frozen else None
    if frozen:
        cls.__setattr__, cls.__delattr__ = _refused(cls, "assign to"), _refused(cls, "delete")
        if slots and "__getstate__" not in own:
            names = tuple([f.name for f in fields])
            cls.__getstate__, cls.__setstate__ = _state(names), _restored(names)
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    return cls


def _first_constructor(cls: type, frozen: bool) -> Callable[..., None]:
    """A constructor that puts the real one into its place."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__ = constructor = _constructor(cls, frozen)  # type: ignore[misc]
        constructor(self, *args, **kwargs)

    return __init__


def _constructor(cls: type, frozen: bool) -> Callable[..., None]:
    namespace: dict[str, Any] = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, lines = ["self"], []
    for number, field in enumerate(dataclasses.fields(cls)):  # type: ignore[arg-type]
        name = value = field.name
        if field.default_factory is not dataclasses.MISSING:
            namespace[f"_make{number}"] = field.default_factory
            value = f"_make{number}() if {name} is _missing else {name}" if field.init else f"_make{number}()"
            parameters += [f"{name}=_missing"] * field.init
        elif field.default is not dataclasses.MISSING:
            namespace[f"_default{number}"] = field.default
            parameters += [f"{name}=_default{number}"] * field.init
        else:
            parameters += [name] * field.init
        if field.init or value is not name:
            lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):\n {body}", namespace)
    constructor: Callable[..., None] = namespace["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    return constructor


def _values(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda self: ()
    only = attrgetter(names[0])
    return lambda self: (only(self),)


def _equality(names: Sequence[str]) -> Callable[[Any, Any], Any]:
    values = _values(names)

    def __eq__(self: Any, other: Any) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: Sequence[str]) -> Callable[[Any], int]:
    values = _values(names)
    return lambda self: hash(values(self))


def _text(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:
        return f"{self.__class__.__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _refused(cls: type, what: str) -> Callable[..., None]:
    known = frozenset([field.name for field in dataclasses.fields(cls)])  # type: ignore[arg-type]
    usual = "__setattr__" if what == "assign to" else "__delattr__"

    def refuse(self: Any, name: str, *value: Any) -> None:
        if type(self) is cls or name in known:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
        getattr(super(cls, self), usual)(name, *value)

    return refuse


def _state(names: Sequence[str]) -> Callable[[Any], list[Any]]:
    return lambda self: [getattr(self, name) for name in names]


def _restored(names: Sequence[str]) -> Callable[[Any, Sequence[Any]], None]:
    def __setstate__(self: Any, state: Sequence[Any]) -> None:
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return __setstate__


__all__ = ["dataclass"]
