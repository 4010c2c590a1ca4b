"""Attributes of functions that say what firesteel, and torch.compile, are to do with them.

Nothing is imported here: functions are marked long before anything is compiled.
"""

from __future__ import annotations

from typing import Any

DISABLED = "_firesteel_disabled"
ALLOWED = "_firesteel_allowed_in_graph"
DISALLOWED = "_firesteel_disallowed_in_graph"
CONSTANT_RESULT = "_firesteel_constant_result"
COMPILED = "_firesteel_compiled"
ONLY_FRAME = "_firesteel_disabled_frame"
UNIT = "_firesteel_unit"
END_WAITING = "_firesteel_end_waiting"
"""Of functions and modules that run as plain Python until compiling pays: ends that."""

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


def is_disabled(function: Any) -> bool:
    """Whether a function asked not to be compiled, in our words or in torch's."""
    table = getattr(function, "__dict__", None)
    if not isinstance(table, dict):
        return False
    return bool(table.get(DISABLED) or table.get("_torchdynamo_disable"))
