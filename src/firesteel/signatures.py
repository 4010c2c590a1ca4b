"""Parameters of a function as text, for functions that are written around it.

>>> def f(a, b=1, *rest, c, **more): ...
>>> signature = Signature.of(f)
>>> signature.parameters
'a, b=None, *rest, c, **more'
>>> signature.passing
'a, b, *rest, c=c, **more'
"""

from __future__ import annotations

import types
from typing import Any

VARARGS, VARKEYWORDS = 0x04, 0x08
OWN_PREFIX = "_fs_"
"""How names begin that functions around others use themselves."""


class Signature:
    """What stands in the head of a function, and how its parameters are handed on."""

    __slots__ = ("parameters", "names", "passed", "changed")

    def __init__(self, parameters: str, names: tuple[str, ...], passed: tuple[str, ...], changed: str) -> None:
        self.parameters = parameters
        """Those with defaults have None: the function around it gets the function's own."""
        self.names = names
        """In the order in which compiled code takes them: those by name after those by position, then `*` and `**`."""
        self.passed = passed
        """How a call hands each of them on, with `*`, `**` or its name in front."""
        self.changed = changed
        """A condition: the function has other code or other defaults now. It asks for the names in `scope_of`."""

    @property
    def passing(self) -> str:
        """How a call hands all of them on."""
        return ", ".join(self.passed)

    @property
    def passed_names(self) -> tuple[str, ...]:
        """Their names in the order of a call."""
        return tuple(part.lstrip("*").partition("=")[0] for part in self.passed)

    @staticmethod
    def of(function: types.FunctionType) -> Signature | None:
        """That of a function; None if it cannot be written down, as with comprehensions, or has names of ours."""
        code = function.__code__
        flags, count, keyword_only = code.co_flags, code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames
        if any(name.startswith(OWN_PREFIX) or not name.isidentifier() for name in names[: count + keyword_only + 2]):
            return None
        with_default, by_name = len(function.__defaults__ or ()), function.__kwdefaults__ or {}
        parameters = []
        for position, name in enumerate(names[:count]):
            parameters.append(f"{name}=None" if position >= count - with_default else name)
            if position + 1 == code.co_posonlyargcount:
                parameters.append("/")
        keywords, star = names[count: count + keyword_only], count + keyword_only
        passing, order = [*names[:count]], [*names[:star]]
        if flags & VARARGS:
            parameters.append("*" + names[star])
            passing.append("*" + names[star])
            order.append(names[star])
            star += 1
        elif keyword_only:
            parameters.append("*")
        parameters += [f"{name}=None" if name in by_name else name for name in keywords]
        passing += [f"{name}={name}" for name in keywords]
        if flags & VARKEYWORDS:
            parameters.append("**" + names[star])
            passing.append("**" + names[star])
            order.append(names[star])
        changed = "_fs_function.__code__ is not _fs_code"
        if function.__defaults__:
            changed += " or _fs_function.__defaults__ is not _fs_given"
        if function.__kwdefaults__:
            changed += " or _fs_function.__kwdefaults__ is not _fs_by_name"
        return Signature(", ".join(parameters), tuple(order), tuple(passing), changed)

    def taken_from(self, held: str) -> str:
        """How a call hands on the values of a list, which stand there in the order of `passed_names`.

        The list is empty then, so that nothing but the call holds them.

        >>> Signature("a, *b, c", ("a", "c", "b"), ("a", "*b", "c=c"), "").taken_from("held")
        'held.pop(0), *held.pop(0), c=held.pop(0)'
        """
        fronts = [part[: len(part) - len(name)] for part, name in zip(self.passed, self.passed_names, strict=True)]
        return ", ".join(f"{front}{held}.pop(0)" for front in fronts)


def scope_of(function: types.FunctionType) -> dict[str, Any]:
    """The names that `Signature.changed` asks for, with what the function has now."""
    return {"_fs_function": function, "_fs_code": function.__code__, "_fs_given": function.__defaults__,
            "_fs_by_name": function.__kwdefaults__}


def define(text: str, filename: str, scope: dict[str, Any], function: types.FunctionType) -> types.FunctionType:
    """The function `wrapper` of a text, with the defaults of the function that it stands for."""
    import builtins

    exec(builtins.compile(text, filename, "exec", dont_inherit=True), scope)
    wrapper = scope["wrapper"]
    assert isinstance(wrapper, types.FunctionType)
    wrapper.__defaults__, wrapper.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    return wrapper
