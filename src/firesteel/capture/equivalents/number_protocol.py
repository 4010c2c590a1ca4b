"""Builtin functions over numbers that dispatch to a special method: round, abs, divmod, pow."""

from __future__ import annotations

from typing import Any

from firesteel.capture.equivalents.registry import MISSING, equivalent_of


@equivalent_of(round)
def round_(number: Any, ndigits: Any = None) -> Any:
    method = getattr(type(number), "__round__", MISSING)
    if method is MISSING:
        raise TypeError(f"type {type(number).__name__} doesn't define __round__ method")
    if ndigits is None:
        return method(number)
    return method(number, ndigits)


@equivalent_of(abs)
def abs_(x: Any, /) -> Any:
    method = getattr(type(x), "__abs__", MISSING)
    if method is MISSING:
        raise TypeError(f"bad operand type for abs(): '{type(x).__name__}'")
    return method(x)


@equivalent_of(divmod)
def divmod_(x: Any, y: Any, /) -> Any:
    left, right = type(x), type(y)
    method = getattr(left, "__divmod__", MISSING)
    reflected = getattr(right, "__rdivmod__", MISSING) if right is not left else MISSING
    overrides = (
        reflected is not MISSING and issubclass(right, left) and reflected is not getattr(left, "__rdivmod__", MISSING)
    )
    if overrides:
        result = reflected(y, x)
        if result is not NotImplemented:
            return result
    if method is not MISSING:
        result = method(x, y)
        if result is not NotImplemented:
            return result
    if reflected is not MISSING and not overrides:
        result = reflected(y, x)
        if result is not NotImplemented:
            return result
    raise TypeError(f"unsupported operand type(s) for divmod(): '{left.__name__}' and '{right.__name__}'")


@equivalent_of(pow)
def pow_(base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return base**exp
    # The three-argument form has no reflected methods before Python 3.14.
    method = getattr(type(base), "__pow__", MISSING)
    if method is not MISSING:
        result = method(base, exp, mod)
        if result is not NotImplemented:
            return result
    names = f"'{type(base).__name__}', '{type(exp).__name__}', '{type(mod).__name__}'"
    raise TypeError(f"unsupported operand type(s) for ** or pow(): {names}")
