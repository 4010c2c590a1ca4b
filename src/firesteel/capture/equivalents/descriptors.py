"""Descriptors of the standard library whose Python code takes locks: functools.cached_property."""

from __future__ import annotations

import functools
from typing import Any

from firesteel.capture.call_handlers import MISSING, equivalent_of


@equivalent_of(functools.cached_property.__get__)
def cached_property_get(self: Any, instance: Any, owner: Any = None) -> Any:
    """Python 3.11 computes the value under a lock, which only matters between threads; 3.12 has none."""
    if instance is None:
        return self
    name = self.attrname
    if name is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cls = type(instance).__name__
    try:
        cache = instance.__dict__
    except AttributeError:
        raise TypeError(f"No '__dict__' attribute on {cls!r} instance to cache {name!r} property.") from None
    value = cache.get(name, MISSING)
    if value is MISSING:
        value = self.func(instance)
        try:
            cache[name] = value
        except TypeError:
            raise TypeError(
                f"The '__dict__' attribute on {cls!r} instance does not support item assignment for "
                f"caching {name!r} property."
            ) from None
    return value
