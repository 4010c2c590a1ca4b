"""Sets and frozensets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..signals import GraphBreak, NotConstant
from ..source import Source
from .base import ContainerValue, Value
from .iterators import SetIterator

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class SetValue(ContainerValue):
    """A set or frozenset; `items` maps each element's key to its Value.

    The order in which a set iterates comes from its history, so every operation is also carried out on `table`, a real
    set of the keys. None: the keys were put into an empty set one after the other, or the set came from outside and has
    not been changed. `held` is what a set from outside held, by key and in its order; relying on that order guards it.
    """

    __slots__ = ("items", "cls", "table", "held")

    OPERATIONS = {
        "union": "|", "intersection": "&", "difference": "-", "symmetric_difference": "^",
        "__or__": "|", "__and__": "&", "__sub__": "-", "__xor__": "^", "__ror__": "|", "__rand__": "&", "__rxor__": "^",
    }
    IN_PLACE = {
        "update": "|", "intersection_update": "&", "difference_update": "-", "symmetric_difference_update": "^",
        "__ior__": "|", "__iand__": "&", "__isub__": "-", "__ixor__": "^",
    }

    def __init__(self, items: dict[Any, Value], cls: type = set, source: Source | None = None,
                 held: dict[Any, Any] | None = None, table: Any = None) -> None:
        super().__init__(source)
        self.items = items
        self.cls = cls
        self.held = held
        self.table: Any = table

    def __repr__(self) -> str:
        return f"SetValue({list(self.items)})"

    def python_type(self) -> type:
        return self.cls

    def native_methods(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return self.cls is frozenset and all(v.is_constant() for v in self.items.values())

    def as_constant(self) -> Any:
        for value in self.items.values():
            if not value.is_constant():
                raise NotConstant("set")
        return self.cls(self.items[token].as_constant() for token in self.layout())

    def key(self, tx: Tracer) -> Any:
        if self.cls is not frozenset:
            raise tx.raised(TypeError("unhashable type: 'set'"))
        return frozenset(self.items)

    def layout(self) -> Any:
        """A real set of the keys, in the order of the real one where keys are constants."""
        return self.table if self.table is not None else set(self.items)

    def ordered(self, tx: Tracer) -> list[Value]:
        """The elements in the order in which the real set iterates, where that is known."""
        if len(self.items) > 1 and not all(value.is_constant() for value in self.items.values()):
            raise GraphBreak("the iteration order of a set that holds tensors or objects")
        if self.source is not None and self.held is not None and len(self.held) > 1:
            tx.guard(self.source, "order", "[*{k[0]}({0})] == {k[1]}", (_iter_of(self.cls), list(self.held.values())))
            if self.table is None:
                return list(self.items.values())
        return [self.items[token] for token in self.layout()]

    def truth(self, tx: Tracer) -> bool:
        return bool(self.items)

    def length(self, tx: Tracer) -> Value:
        return tx.constant(len(self.items))

    def iterate(self, tx: Tracer) -> Value:
        return SetIterator(self, self.ordered(tx))

    def other_items(self, tx: Tracer, other: Value) -> SetValue:
        """Another iterable as keys and Values. Its `table` is of the kind that decides how a set takes it in."""
        other = other.realize()
        storage = getattr(other, "storage", None)
        if isinstance(storage, SetValue):
            other = storage
        if isinstance(other, SetValue):
            return other
        items: dict[Any, Value] = {}
        for item in tx.to_list(other):
            items.setdefault(item.key(tx), item.realize())
        return SetValue(items, table=dict.fromkeys(items) if other.python_type() is dict else list(items))

    @staticmethod
    def of(tx: Tracer, iterable: Value, cls: type) -> SetValue:
        """``set(iterable)`` or ``frozenset(iterable)``."""
        taken = SetValue({}, cls)
        theirs = taken.other_items(tx, iterable)
        return SetValue(dict(theirs.items), cls, table=set(theirs.layout()))

    def combine(self, tx: Tracer, operation: str, theirs: SetValue, in_place: bool = False) -> SetValue:
        keys = theirs.layout()
        if in_place:
            table = self.own_table()
            methods = {"|": "update", "&": "intersection_update", "-": "difference_update",
                       "^": "symmetric_difference_update"}
            getattr(table, methods[operation])(keys)
        else:
            methods = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
            table = getattr(set(self.layout()), methods[operation])(keys)
        both = {**theirs.items, **self.items}
        if operation == "&" and (not isinstance(keys, (set, frozenset)) or len(keys) <= len(self.items)):
            both = {**self.items, **theirs.items}  # of two equal elements, the one of the side that Python goes through
        kept = [token for token in (*self.items, *theirs.items) if token in table]
        return SetValue({token: both[token] for token in kept}, self.cls, table=table)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in self.OPERATIONS:
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            result: SetValue = self
            if name.startswith("__r"):
                result, args = self.other_items(tx, args[0]), [self]
            if not args:
                result = SetValue(dict(self.items), self.cls, table=set(self.layout()))
            for other in args:
                result = result.combine(tx, self.OPERATIONS[name], self.other_items(tx, other))
            return SetValue(result.items, result.cls, table=result.layout())
        if name == "__rsub__":
            if not _is_set(args[0]):
                return tx.constant(NotImplemented)
            return self.other_items(tx, args[0]).combine(tx, "-", self)
        if name == "copy" or name == "__copy__":
            if self.cls is frozenset:
                return self
            return SetValue(dict(self.items), self.cls, table=set(self.layout()))
        if name == "__contains__":
            return tx.constant(_key_to_find(tx, args[0]) in self.items)
        if name == "__len__":
            return self.length(tx)
        if name == "__iter__":
            return self.iterate(tx)
        if name in ("issubset", "issuperset", "isdisjoint", "__le__", "__ge__", "__lt__", "__gt__", "__eq__", "__ne__"):
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            if name == "isdisjoint" or name == "issuperset" and not issubclass(args[0].python_type(), (set, frozenset)):
                # the other side is read no further than the answer needs
                stop = name == "isdisjoint"
                return tx.constant(not any((item.key(tx) in self.items) is stop
                                           for item in tx.iterate_lazily(args[0])))
            theirs = set(self.other_items(tx, args[0]).items)
            return tx.constant(getattr(set(self.items), name)(theirs))
        if self.cls is set:
            changed = self.change(tx, name, args)
            if changed is not None:
                return changed
        if name in ("__repr__", "__str__"):
            self.ordered(tx)
            return tx.fold(repr, [tx.constant_of(self)], {})
        self.unsupported(f"method {name!r}")

    def change(self, tx: Tracer, name: str, args: list[Value]) -> Value | None:
        """Methods that a frozenset does not have."""
        none = tx.constant(None)
        if name in self.IN_PLACE:
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            for other in args:
                self.replace(tx, self.combine(tx, self.IN_PLACE[name], self.other_items(tx, other), in_place=True))
            return self if name.startswith("__") else none
        if name == "add":
            token = args[0].key(tx)
            table = self.own_table()
            table.add(token)
            self.replace(tx, SetValue({**self.items, token: self.items.get(token, args[0].realize())}, table=table))
            return none
        if name in ("remove", "discard", "pop"):
            if name != "discard":
                tx.in_one_step(self, name)
            if name == "pop":
                if not self.items:
                    raise tx.raised(KeyError("pop from an empty set"))
                popped = self.ordered(tx)[0]
                token = popped.key(tx)
            else:
                popped, token = none, _key_to_find(tx, args[0])
            if token not in self.items:
                if name == "remove":
                    raise tx.raised(KeyError(tx.constant_of(args[0])))
                return none
            table = self.own_table()
            table.discard(token)
            self.replace(tx, SetValue({k: v for k, v in self.items.items() if k != token}, table=table))
            return popped
        if name == "clear":
            self.replace(tx, SetValue({}))
            return none
        if name == "__init__":
            self.replace(tx, self.other_items(tx, args[0]) if args else SetValue({}))
            return none
        return None

    def own_table(self) -> Any:
        """The table, to be changed: a copy may iterate in another order than its original."""
        return self.table if type(self.table) is set else set(self.layout())

    def replace(self, tx: Tracer, new: SetValue) -> None:
        tx.effects.mutated(self)
        self.items = dict(new.items)
        self.table = new.table if type(new.table) is set else set(new.layout())

    def emit_items(self, code: EntryCode) -> str:
        items = ", ".join(code.value(item) for item in self.items.values())
        return code.assign(self, f"{self.cls.__name__}(({items}{',' if items else ''}))")

    def _holds(self, token: Any, item: Any) -> bool:
        value = self.items.get(token)
        return value is not None and (not value.is_constant() or value.as_constant() is item)

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        # an equal element may have taken the place of one: True that of 1
        stays = {token: item for token, item in (self.held or {}).items() if self._holds(token, item)}
        gone = [code.constant(item) for token, item in (self.held or {}).items() if token not in stays]
        new = [code.value(value) for token, value in self.items.items() if token not in stays]
        if gone:
            code.line(f"set.difference_update({target}, ({', '.join(gone)},))")
        if new:
            code.line(f"set.update({target}, ({', '.join(new)},))")


def _iter_of(cls: Any) -> Any:
    return cls.__iter__


def _key_to_find(tx: Tracer, value: Value) -> Any:
    """The key under which a set looks for a value: a set, which cannot be an element, stands for a frozenset."""
    value = value.realize()
    return frozenset(value.items) if isinstance(value, SetValue) else value.key(tx)


def _is_set(value: Value) -> bool:
    return issubclass(value.realize().python_type(), (set, frozenset))
