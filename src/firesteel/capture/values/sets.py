"""Sets and frozensets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ...records import dataclass
from ..signals import GraphBreak, NotConstant
from ..source import Source
from .base import ContainerValue, IdentityKey, Value
from .iterators import SetIterator

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


Steps = tuple[tuple[str, Any], ...]
"""Methods of sets, each with its argument: elements one by one in a tuple, a dictionary, or a set's own steps."""
LOST: Steps = (("lost", None),)
"""The past of a set from outside is not known, and that of what is made of it: its elements are put in anew."""


@dataclass(frozen=True)
class SetSteps:
    """A set as the argument of a step."""

    steps: Steps


def rebuilt(cls: type, steps: Steps) -> Any:
    """A set or frozenset to which all this has been done: how a set iterates depends on its past.

    >>> list(rebuilt(set, (("update", (0, 3, 6, 9, 12)), ("discard", (12,))))), list({0, 3, 6, 9})
    ([0, 3, 6, 9], [0, 9, 3, 6])
    """
    items = cls()
    for method, argument in steps:
        if type(argument) is SetSteps:
            argument = rebuilt(set, argument.steps)
        if method == "hold" or method == "update" and cls is frozenset:
            items = cls(argument)
        elif method == "copy":
            items = cls(items)
        elif method in _IN_PLACE:
            changed(items, ((method, argument),))
        else:
            items = getattr(cls, method)(items, argument)
    return items


_IN_PLACE = frozenset({"discard", "update", "intersection_update", "difference_update", "symmetric_difference_update"})


def changed(target: set[Any], steps: Steps) -> None:
    """Do all this to a set."""
    for method, argument in steps:
        given = rebuilt(set, argument.steps) if type(argument) is SetSteps else argument
        getattr(set, method)(target, *(given if method == "discard" else (given,)))


class SetValue(ContainerValue):
    """A set or frozenset; `items` maps each element's key to its Value.

    The order in which a set iterates comes from its history, so every operation is also carried out on `table`, a real
    set of the keys. None: the keys were put into an empty set one after the other, or the set came from outside and has
    not been changed. `held` is what a set from outside held, by key and in its order; relying on that order guards it.
    `steps` is what was done to make and change the table, so that the real set can be made in the same way; None where
    that is no more than those keys put in, or the set came from outside and has not been changed. `room` is how much
    memory a set from outside has.
    """

    __slots__ = ("items", "cls", "table", "held", "steps", "room")
    native_methods = True

    OPERATIONS = {
        "union": "|", "intersection": "&", "difference": "-", "symmetric_difference": "^",
        "__or__": "|", "__and__": "&", "__sub__": "-", "__xor__": "^", "__ror__": "|", "__rand__": "&", "__rxor__": "^",
    }
    IN_PLACE = {
        "update": "|", "intersection_update": "&", "difference_update": "-", "symmetric_difference_update": "^",
        "__ior__": "|", "__iand__": "&", "__isub__": "-", "__ixor__": "^",
    }

    def __init__(self, items: dict[Any, Value], cls: type = set, source: Source | None = None,
                 held: dict[Any, Any] | None = None, table: Any = None, steps: Steps | None = None,
                 room: int | None = None) -> None:
        super().__init__(source)
        self.items = items
        self.cls = cls
        self.held = held
        self.table: Any = table
        self.steps = steps
        self.room = room

    def __repr__(self) -> str:
        return f"SetValue({list(self.items)})"

    def python_type(self) -> type:
        return self.cls

    def is_constant(self) -> bool:
        return self.cls is frozenset and all(v.is_constant() for v in self.items.values())

    def as_constant(self) -> Any:
        for value in self.items.values():
            if not value.is_constant():
                raise NotConstant("set")
        history = self._constant_history()
        if history is not None:
            return rebuilt(self.cls, history)
        return self.cls(self.items[token].as_constant() for token in self.layout())

    def key(self, tx: Tracer) -> Any:
        if self.cls is not frozenset:
            raise tx.raised(TypeError("unhashable type: 'set'"))
        return frozenset(self.items)

    def history(self) -> Steps:
        """What to do to an empty set so that it iterates as the real one, also after more is done to it."""
        if self.steps is not None:
            return self.steps
        if self.held is None and self.table is None:
            return (("update", tuple(self.items)),)
        # One that came from outside: as if its elements had been put in as they come, if that makes it.
        order = tuple(self.layout() if self.held is None else self.held)
        room = self.room if self.held is not None else sys.getsizeof(self.layout())
        again = set(order)
        return (("hold", order),) if tuple(again) == order and sys.getsizeof(again) == room else LOST

    def after(self, step: str, argument: Any = ()) -> Steps:
        """The history with one more step, if it is known."""
        past = self.history()
        return LOST if past is LOST or argument is None else (*past, (step, argument))

    def as_argument(self) -> Any:
        """How another set takes this one's keys in: from a list, from a dictionary, or from a set with its history."""
        if type(self.table) is list:
            return tuple(self.table)
        if type(self.table) is dict:
            return dict.fromkeys(self.table)
        past = self.history()
        return None if past is LOST else SetSteps(past)

    def _constant_steps(self, steps: Steps) -> Steps:
        """The history of a set of constants with its elements in the place of keys, which may be of another class."""
        own = {token: value.as_constant() for token, value in self.items.items()}

        def element(token: Any) -> Any:
            if token in own:
                return own[token]
            if _stands_for_another(token):
                raise NotConstant("an object that the set has lost again")
            return token

        def elements(argument: Any) -> Any:
            if type(argument) is SetSteps:
                return SetSteps(tuple((method, elements(inner)) for method, inner in argument.steps))
            if type(argument) is dict:
                return {element(token): None for token in argument}
            return tuple(element(token) for token in argument)

        return tuple((method, elements(argument)) for method, argument in steps)

    def _constant_history(self) -> Steps | None:
        """The history with elements in the place of keys; None where elements are no constants, now or before."""
        if self.steps is None or self.steps is LOST or not all(value.is_constant() for value in self.items.values()):
            return None
        try:
            return self._constant_steps(self.steps)
        except NotConstant:
            return None

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

    def shared_items(self, tx: Tracer, other: Value) -> SetValue:
        """What an intersection takes of another iterable: no more than it needs to meet all elements."""
        if _is_at_hand(other.realize()):
            return self.other_items(tx, other)
        items: dict[Any, Value] = {}
        missing = set(self.items)
        for item in tx.iterate_lazily(other):
            token = item.key(tx)
            items.setdefault(token, item.realize())
            missing.discard(token)
            if not missing and token in self.items:
                break
        return SetValue(items, table=list(items))

    @staticmethod
    def of(tx: Tracer, iterable: Value, cls: type) -> SetValue:
        """``set(iterable)`` or ``frozenset(iterable)``."""
        taken = SetValue({}, cls)
        theirs = taken.other_items(tx, iterable)
        return SetValue(dict(theirs.items), cls, table=set(theirs.layout()),
                        steps=taken.after("update", theirs.as_argument()))

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
        steps = self.after(methods[operation], theirs.as_argument())
        both = {**theirs.items, **self.items}
        if operation == "&" and (not isinstance(keys, (set, frozenset)) or len(keys) <= len(self.items)):
            both = {**self.items, **theirs.items}  # of two equal elements, the one of the side that Python goes through
        kept = [token for token in (*self.items, *theirs.items) if token in table]
        return SetValue({token: both[token] for token in kept}, self.cls, table=table, steps=steps)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in self.OPERATIONS:
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            result: SetValue = self
            if name.startswith("__r"):
                result, args = self.other_items(tx, args[0]), [self]
            if not args:
                result = self.copied()
            for other in args:
                theirs = result.shared_items(tx, other) if name == "intersection" else self.other_items(tx, other)
                result = result.combine(tx, self.OPERATIONS[name], theirs)
            return SetValue(result.items, result.cls, table=result.layout(), steps=result.steps)
        if name == "__rsub__":
            if not _is_set(args[0]):
                return tx.constant(NotImplemented)
            return self.other_items(tx, args[0]).combine(tx, "-", self)
        if name == "copy" or name == "__copy__":
            return self if self.cls is frozenset else self.copied()
        if name == "__contains__":
            return tx.constant(_key_to_find(tx, args[0]) in self.items)
        if name == "__len__":
            return self.length(tx)
        if name == "__iter__":
            return self.iterate(tx)
        if name in ("issubset", "issuperset", "isdisjoint", "__le__", "__ge__", "__lt__", "__gt__", "__eq__", "__ne__"):
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            if name == "isdisjoint" and getattr(args[0].realize(), "storage", args[0].realize()) is self:
                return tx.constant(not self.items)  # a class of the program's is not asked for its items
            if name == "isdisjoint" or name == "issuperset" and not issubclass(args[0].python_type(), (set, frozenset)):
                # the other side is read no further than the answer needs
                stop = name == "isdisjoint"
                return tx.constant(not any((item.key(tx) in self.items) is stop
                                           for item in tx.iterate_lazily(args[0])))
            shared = name == "issubset" and sys.version_info >= (3, 12)
            other = self.shared_items(tx, args[0]) if shared else self.other_items(tx, args[0])
            return tx.constant(getattr(set(self.items), name)(set(other.items)))
        if self.cls is set:
            changed = self.change(tx, name, args)
            if changed is not None:
                return changed
        if name in ("__repr__", "__str__"):
            self.ordered(tx)
            return tx.fold(repr, [tx.constant_of(self)], {})
        self.unsupported(f"method {name!r}")

    def copied(self) -> SetValue:
        return SetValue(dict(self.items), self.cls, table=set(self.layout()), steps=self.after("copy"))

    def change(self, tx: Tracer, name: str, args: list[Value]) -> Value | None:
        """Methods that a frozenset does not have."""
        none = tx.constant(None)
        if name in self.IN_PLACE:
            if name.startswith("__") and not _is_set(args[0]):
                return tx.constant(NotImplemented)
            for other in args:
                if name in ("update", "difference_update") and not _is_at_hand(other.realize()):
                    self.take(tx, other, "update" if name == "update" else "discard")
                    continue
                theirs = self.shared_items(tx, other) if name == "intersection_update" else self.other_items(tx, other)
                self.replace(tx, self.combine(tx, self.IN_PLACE[name], theirs, in_place=True))
            return self if name.startswith("__") else none
        if name == "add":
            token = args[0].key(tx)
            table = self.own_table()
            table.add(token)
            self.replace(tx, SetValue({**self.items, token: self.items.get(token, args[0].realize())}, table=table,
                                      steps=self.after("update", (token,))))
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
            self.replace(tx, SetValue({k: v for k, v in self.items.items() if k != token}, table=table,
                                      steps=self.after("discard", (token,))))
            return popped
        if name == "clear":
            self.replace(tx, SetValue({}))
            return none
        if name == "__init__":
            self.replace(tx, SetValue({}))
            if args and not _is_at_hand(args[0].realize()):
                self.take(tx, args[0], "update")
            elif args:
                self.replace(tx, self.of(tx, args[0], set))
            return none
        return None

    def take(self, tx: Tracer, other: Value, step: str) -> None:
        """Add or discard items one by one: what makes them may look at this set meanwhile, and may raise."""
        for item in tx.iterate_lazily(other):
            token = item.key(tx)
            if (token in self.items) is (step == "update"):
                continue
            table, items = self.own_table(), dict(self.items)
            if step == "update":
                table.add(token)
                items[token] = item.realize()
            else:
                table.discard(token)
                del items[token]
            self.replace(tx, SetValue(items, table=table, steps=self.after(step, (token,))))

    def own_table(self) -> Any:
        """The table, to be changed: a copy may iterate in another order than its original."""
        return self.table if type(self.table) is set else set(self.layout())

    def replace(self, tx: Tracer, new: SetValue) -> None:
        tx.effects.mutated(self)
        self.items = dict(new.items)
        self.table = new.table if type(new.table) is set else set(new.layout())
        self.steps = new.history()

    def emit_items(self, code: EntryCode) -> str:
        history = self._constant_history()
        if history is not None and any(method != "update" or type(argument) is not tuple
                                       for method, argument in history):
            return code.assign(self, f"{code.constant(rebuilt)}({self.cls.__name__}, {code.constant(history)})")
        items = ", ".join(code.value(item) for item in self.items.values())
        return code.assign(self, f"{self.cls.__name__}(({items}{',' if items else ''}))")

    def _holds(self, token: Any, item: Any) -> bool:
        value = self.items.get(token)
        return value is not None and (not value.is_constant() or value.as_constant() is item)

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        history = self._constant_history()
        if history is not None and history[0][0] == "hold" and all(method in _IN_PLACE for method, _ in history[1:]):
            code.line(f"{code.constant(changed)}({target}, {code.constant(history[1:])})")
            return
        # an equal element may have taken the place of one: True that of 1
        stays = {token: item for token, item in (self.held or {}).items() if self._holds(token, item)}
        gone = [code.constant(item) for token, item in (self.held or {}).items() if token not in stays]
        new = [code.value(value) for token, value in self.items.items() if token not in stays]
        if gone:
            code.line(f"set.difference_update({target}, ({', '.join(gone)},))")
        if new:
            code.line(f"set.update({target}, ({', '.join(new)},))")


def _stands_for_another(token: Any) -> bool:
    """Whether a key is, or contains, one that stands for an object that hashes by identity."""
    return isinstance(token, IdentityKey) or \
        isinstance(token, (tuple, frozenset)) and any(map(_stands_for_another, token))


def _iter_of(cls: Any) -> Any:
    return cls.__iter__


def _key_to_find(tx: Tracer, value: Value) -> Any:
    """The key under which a set looks for a value: a set, which cannot be an element, stands for a frozenset."""
    value = value.realize()
    return frozenset(value.items) if isinstance(value, SetValue) else value.key(tx)


def _is_at_hand(value: Value) -> bool:
    """Whether the items of an iterable are there, so that nothing of the program's runs between them."""
    return isinstance(value, ContainerValue) or value.is_constant() or \
        isinstance(getattr(value, "storage", None), SetValue)


def _is_set(value: Value) -> bool:
    return issubclass(value.realize().python_type(), (set, frozenset))
