"""What torch.compile is told about functions that firesteel compiled: it traces what they were made from."""

from __future__ import annotations

from typing import Any

ORIGINAL = "_torchdynamo_orig_callable"
WRAPPER_ID = "_torchdynamo_wrapper_id"
_TRACED_INSTEAD = "_torchdynamo_inline"


class OwnAttributes(dict[str, Any]):
    """The ``__dict__`` of a function of which some attributes are about that function alone.

    `functools.wraps` copies all attributes that it finds, and a function of the user's around a compiled one must not
    be taken for the compiled one. Those of `own` can be read, but are not among the keys.
    """

    own: frozenset[str] = frozenset()

    def keys(self) -> Any:
        return [key for key in dict.keys(self) if key not in self.own]

    def __iter__(self) -> Any:
        return iter(self.keys())

    def items(self) -> Any:
        return [(key, self[key]) for key in self.keys()]


def set_own_attributes(function: Any, **attributes: Any) -> None:
    """Give a function attributes that are not copied to functions around it."""
    table = function.__dict__
    if not isinstance(table, OwnAttributes):
        own = OwnAttributes()
        own.update(table)
        function.__dict__ = table = own
    table.own |= attributes.keys()
    table.update(attributes)


def trace_instead(function: Any, original: Any) -> None:
    """Where torch.compile comes upon `function`, it traces `original`, which takes the same arguments."""
    set_own_attributes(function, **{_TRACED_INSTEAD: original, ORIGINAL: original, WRAPPER_ID: id(function)})


def compiled_by_torch(function: Any) -> Any:
    """What a function was made from by torch.compile; None for all others, also for those with copied attributes."""
    table: dict[str, Any] = getattr(function, "__dict__", {})
    return table.get(ORIGINAL) if table.get(WRAPPER_ID) == id(function) else None
