"""The callable objects of the operator module: attrgetter, itemgetter, methodcaller."""

from __future__ import annotations

import operator
from typing import Any

from firesteel.capture.call_handlers import equivalent_of


def _only_argument(name: str, arguments: tuple[Any, ...]) -> Any:
    if len(arguments) != 1:
        raise TypeError(f"{name} expected 1 argument, got {len(arguments)}")
    return arguments[0]


class AttributeGetter:
    """What `operator.attrgetter` returns."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def __call__(self, *arguments: Any) -> Any:
        obj = _only_argument("attrgetter", arguments)
        if len(self.names) == 1:
            return _dotted_attribute(obj, self.names[0])
        values = []
        for name in self.names:
            values.append(_dotted_attribute(obj, name))
        return tuple(values)

    def __repr__(self) -> str:
        return f"operator.attrgetter({', '.join([repr(name) for name in self.names])})"


def _dotted_attribute(obj: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        obj = getattr(obj, name)
    return obj


@equivalent_of(operator.attrgetter)
def attrgetter(*names: Any) -> AttributeGetter:
    if not names:
        raise TypeError("attrgetter expected 1 argument, got 0")
    for name in names:
        if not isinstance(name, str):
            raise TypeError("attribute name must be a string")
    return AttributeGetter(names)


class ItemGetter:
    """What `operator.itemgetter` returns."""

    def __init__(self, items: tuple[Any, ...]) -> None:
        self.items = items

    def __call__(self, *arguments: Any) -> Any:
        obj = _only_argument("itemgetter", arguments)
        if len(self.items) == 1:
            return obj[self.items[0]]
        values = []
        for item in self.items:
            values.append(obj[item])
        return tuple(values)

    def __repr__(self) -> str:
        return f"operator.itemgetter({', '.join([repr(item) for item in self.items])})"


@equivalent_of(operator.itemgetter)
def itemgetter(*items: Any) -> ItemGetter:
    if not items:
        raise TypeError("itemgetter expected 1 argument, got 0")
    return ItemGetter(items)


class MethodCaller:
    """What `operator.methodcaller` returns."""

    def __init__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs

    def __call__(self, *arguments: Any) -> Any:
        obj = _only_argument("methodcaller", arguments)
        return getattr(obj, self.name)(*self.args, **self.kwargs)

    def __repr__(self) -> str:
        parts = [repr(self.name)]
        for argument in self.args:
            parts.append(repr(argument))
        for name, argument in self.kwargs.items():
            parts.append(f"{name}={argument!r}")
        return f"operator.methodcaller({', '.join(parts)})"


@equivalent_of(operator.methodcaller)
def methodcaller(*arguments: Any, **kwargs: Any) -> MethodCaller:
    if not arguments:
        raise TypeError("methodcaller needs at least one argument, the method name")
    name = arguments[0]
    if not isinstance(name, str):
        raise TypeError("method name must be a string")
    return MethodCaller(name, arguments[1:], kwargs)
