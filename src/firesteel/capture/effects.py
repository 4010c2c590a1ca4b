"""Side effects of a captured program on what existed before it, to be applied once, after the graph has run."""

from __future__ import annotations

import contextlib
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..records import dataclass
from .source import StorageSource, instance_table

if TYPE_CHECKING:
    from .entry_code import EntryCode
    from .values.base import Value


@dataclass
class Effects:
    """An ordered record. Containers and attributes are written back with their final content.

    `version` grows with every change of any value, also of values made inside, so that symbolic execution can tell
    whether an instruction that turned out to be unsupported has already changed something.
    """

    events: dict[Any, tuple[str, Any]] = field(default_factory=dict)
    version: int = 0
    #: While this is a list, every value that changes is noted in it.
    changes: list[Any] | None = None
    _replays: int = 0

    def _changed(self, value: Any) -> None:
        self.version += 1
        if self.changes is not None:
            self.changes.append(value)

    def mutated(self, value: Any) -> None:
        """The contents of a list, dict, set, cell or storage object changed."""
        self._changed(value)
        if value.source is not None:
            self.events.setdefault(("contents", id(value)), ("contents", value))

    def attribute(self, value: Any, name: str) -> None:
        """An attribute was set or deleted."""
        self._changed(value)
        if value.source is None:
            return
        if value.attrs.get(name) is None:
            # an attribute set after this goes to the end of the instance dictionary
            self.events.pop(("attribute", id(value), name), None)
            self.events.setdefault(("deleted", id(value), name), ("deleted", (value, name)))
        else:
            self.events.setdefault(("attribute", id(value), name), ("attribute", (value, name)))

    def stepped(self, value: Value) -> None:
        """An iterator made inside advanced."""
        self._changed(value)

    def replay(self, function: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
        """Call a plain function, such as print, when the effects are applied."""
        self._changed(None)
        self._replays += 1
        self.events[("replay", self._replays)] = ("replay", (function, args, kwargs))

    def built(self, value: Value) -> None:
        """Making a value is itself an effect: it is made here, whether or not anybody has it afterwards."""
        self._changed(None)
        self.events[("built", id(value))] = ("built", value)

    def forget_built(self, value: Value) -> None:
        """What making the value did has been undone."""
        self._changed(None)
        self.events.pop(("built", id(value)), None)

    def attributes_set(self, value: Any) -> list[str]:
        """Names set on an object from outside, in order."""
        return [what[1] for kind, what in self.events.values() if kind == "attribute" and what[0] is value]

    def was_deleted(self, value: Any, name: str) -> bool:
        return ("deleted", id(value), name) in self.events

    def is_changed(self, value: Any) -> bool:
        """Whether the contents of something from outside are changed."""
        return ("contents", id(value)) in self.events

    def changed_values(self) -> list[Any]:
        """Everything from outside that is changed."""
        return [what if kind == "contents" else what[0] for kind, what in self.events.values()
                if kind not in ("replay", "built")]

    def __len__(self) -> int:
        return len(self.events)

    def emit(self, code: EntryCode) -> None:
        """Generate the statements that apply all effects, in order."""
        for kind, what in list(self.events.values()):
            if kind == "contents":
                # a subclass of dict or list is written past the methods it overrides: they have run already
                owner = type(what) if isinstance(what.source, StorageSource) else None
                what.emit_mutation(code, code.value(what), owner)
            elif kind == "attribute":
                value, name = what
                setter = code.constant(value.attribute_setter(name))
                code.line(f"{setter}({code.value(value)}, {name!r}, {code.value(value.attrs[name])})")
            elif kind == "built":
                code.value(what)
            elif kind == "deleted":
                value, name = what
                code.line(f"{code.constant(value.attribute_deleter(name))}({code.value(value)}, {name!r})")
            else:
                function, args, kwargs = what
                parts = [code.value(arg) for arg in args]
                parts.extend(f"{key}={code.value(arg)}" for key, arg in kwargs.items())
                code.line(f"{code.constant(function)}({', '.join(parts)})")


def set_past_descriptor(obj: Any, name: str, value: Any) -> None:
    """Store an attribute in the instance's dictionary, whatever its class has under this name."""
    instance_table(obj)[name] = value


def forget_past_descriptor(obj: Any, name: str) -> None:
    """Remove an attribute from the instance's dictionary, unless it is gone already."""
    instance_table(obj).pop(name, None)


def forget_attribute(obj: Any, name: str) -> None:
    """Delete an attribute, unless the program itself had set it meanwhile."""
    with contextlib.suppress(AttributeError):
        object.__delattr__(obj, name)


def forget_any_attribute(obj: Any, name: str) -> None:
    """Delete an attribute of an object that keeps attributes in tables of its own, unless it is gone already."""
    with contextlib.suppress(AttributeError):
        delattr(obj, name)
