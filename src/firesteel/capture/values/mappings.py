"""Dictionaries (dict, OrderedDict, defaultdict) and their views."""

from __future__ import annotations

import collections
import gc
import re
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import shapes
from ..guards import keys_of, values_of
from ..signals import GraphBreak, NotConstant, UserRaise
from ..source import ItemSource, Source, StorageSource, call_source, item_source
from .base import ContainerValue, IdentityKey, LazyValue, Value, inherits_method
from .constants import NumberValue
from .iterators import DictIterator, ListIterator
from .mapping_proxies import MappingProxyValue
from .reversals import reversed_items, reversed_keys, reversed_ordered_keys, reversed_values
from .sequences import TupleValue
from .sets import SetValue
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer

# Dictionaries with more keys than this are not searched key by key.
MAX_COMPARED = 16
# Attributes that show what was set on an object.
_WHOLE_STATE = frozenset({"__dict__", "__reduce__", "__reduce_ex__", "__getstate__", "__copy__"})

_HOOK_TABLE = re.compile(r"_(global_|optimizer_step_)?(forward_|backward_)?(pre_|post_)?hooks")
"""Where torch keeps hooks, under numbers that it counts up: those of two modules are never the same."""


class HookNumber(LazyValue):
    """The number of a hook. It is looked for in other tables of hooks; unless something else asks for it, no guard says
    which number it is."""

    __slots__ = ()


def hook_numbers(table: collections.OrderedDict[int, Any]) -> tuple[int, ...]:
    """The keys of a table of hooks."""
    return tuple(table)


def hooks_in(table: collections.OrderedDict[int, Any]) -> tuple[Any, ...]:
    """The hooks in a table, in order."""
    return tuple(table.values())


class DictValue(ContainerValue):
    """A dictionary. One from outside is read key by key; only iteration and length guard all its keys."""

    __slots__ = ("items", "real", "complete", "cls", "factory", "stored", "found", "attrs", "by_position")
    native_methods = True

    def __init__(self, items: dict[Any, tuple[Value, Value]] | None = None, source: Source | None = None,
                 real: Any = None, cls: type = dict, factory: Value | None = None) -> None:
        super().__init__(source)
        self.items: dict[Any, tuple[Value, Value]] = items if items is not None else {}
        self.real = real
        self.complete = source is None
        self.stored: dict[Any, None] = {}  # keys written while incomplete, in order
        self.found: dict[Any, tuple[Value, Value | None]] = {}  # what one from outside held, None: overwritten since
        self.cls = cls
        self.factory = factory
        self.attrs: dict[str, Value] = {}  # set on an OrderedDict made inside, as `module.state_dict()` does
        self.by_position = False
        """Whether only the number of items is relied on, so far, and not the keys."""

    def __repr__(self) -> str:
        return f"DictValue({list(self.items)}{'' if self.complete else ' of ' + repr(self.source)})"

    def python_type(self) -> type:
        return self.cls

    # Reading

    def refuse_stale(self, tx: Tracer) -> None:
        """Break where a proxy from outside is read after the program has changed what it shows."""
        if self.cls is types.MappingProxyType and self.real is not None and tx.effects.events:
            for shown in gc.get_referents(self.real):
                known = tx.known.get(id(shown))
                if known is not None and tx.effects.is_changed(getattr(known, "storage", None) or known) or \
                        any(value.attrs and gc.get_referents(vars(cls))[0] is shown
                            for cls, value in tx.classes.items()):
                    raise GraphBreak("a mappingproxy of a mapping that has been changed")

    def lookup(self, tx: Tracer, key: Value) -> Value | None:
        """The item under `key`, or None with a guard that there is none."""
        self.refuse_stale(tx)
        self.rely_on_keys(tx)
        token = key.key(tx)
        entry = self.items.get(token)
        if entry is not None:
            return entry[1]
        if self.complete:
            return None
        assert self.source is not None
        if isinstance(token, (IdentityKey, tuple)):
            self.fill(tx)
            entry = self.items.get(token)
            return entry[1] if entry is not None else None
        cls: Any = self.cls
        if cls.__contains__(self.real, token) if isinstance(self.real, dict) else token in self.real:
            real = cls.__getitem__(self.real, token) if isinstance(self.real, dict) else self.real[token]
            where = item_source(self.source, token)
            if self.follows_schedule(token):
                tx.symbols.changing.add(where)
            value: Value = tx.looked_up(real, where)
            self.items[token] = (key, value)
            return value
        if isinstance(self.source, StorageSource):
            tx.guard(self.source, "missing key", "not {k[1]}({0}, {k[0]})", (token, dict.__contains__))
        elif type(token) is str:
            text = f"{token!r} not in {{0}}".replace("{", "{{").replace("}", "}}").replace("{{0}}", "{0}")
            tx.guard(self.source, "missing key", text)
        else:
            tx.guard(self.source, "missing key", "{k[0]} not in {0}", (token,))
        return None

    def follows_schedule(self, key: Any) -> bool:
        """Whether an item is the learning rate of an optimizer with a scheduler, which notes where the rate began."""
        return type(key) is str and key == "lr" and type(self.real) is dict and "initial_lr" in self.real

    def contains(self, tx: Tracer, key: Value) -> bool:
        """Whether there is such a key; a number of the graph is compared with each, so that it may stay a number."""
        if isinstance(key, HookNumber) and self.source is not None and type(self.real) is collections.OrderedDict \
                and not tx.effects.is_changed(self):
            contained = key.real in self.real
            if not contained and not self.real:
                return self.truth(tx)
            tx.guard(key.source, "hook", "{0} in {1}" if contained else "{0} not in {1}", (), (self.source,))
            return contained
        key = key.realize()
        if isinstance(key, NumberValue) and key.python_type() is int and key.hint is not None:
            tokens = list(self.fill(tx))
            if len(tokens) <= MAX_COMPARED and all(type(token) is int for token in tokens):
                return any(tx.symbols.decide(shapes.eq(key.expr, shapes.as_expr(token))) for token in tokens)
        return self.lookup(tx, key) is not None

    def fill(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        """All items, in order; guards the keys of a dictionary from outside."""
        self.refuse_stale(tx)
        self.rely_on_keys(tx)
        if not self.complete:
            assert self.source is not None
            tokens: dict[Any, tuple[Value, Value]] = {}
            tx.guard_keys(self.source, self.real)
            for position, (key, real) in enumerate(zip(keys_of(self.real), values_of(self.real), strict=True)):
                key_value = tx.key_value(key, self.source, position)
                token = key_value.key(tx)
                known = self.items.get(token)
                if known is not None:
                    tokens[token] = (key_value, known[1])  # an equal key does not replace the one that is there
                else:
                    # a key known by equality is in the entry; of others only the position is known
                    by_position = isinstance(token, (IdentityKey, tuple)) and not key_value.is_constant()
                    where = item_source(call_source(self.source, values_of), position) \
                        if by_position and isinstance(self.real, dict) else item_source(self.source, key)
                    if self.follows_schedule(key):
                        tx.symbols.changing.add(where)
                    tokens[token] = (key_value, LazyValue(tx, real, where))
            self.found = {token: (key_value, None if token in self.stored else value)
                          for token, (key_value, value) in tokens.items()}
            for token in self.stored:
                old = tokens.get(token)
                tokens[token] = (old[0] if old is not None else self.items[token][0], self.items[token][1])
            self.items = tokens
            self.complete = True
        return self.items

    def iterated(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        """All items, in order, for those who do not look for keys: of hooks only their number is guarded."""
        if self.complete or self.items or not self.holds_hooks():
            return self.items if self.by_position else self.fill(tx)
        assert self.source is not None
        tx.guard(self.source, "length", f"{{k[0]}}({{0}}) == {len(self.real)}", (dict.__len__,))
        numbers, hooks = call_source(self.source, hook_numbers), call_source(self.source, hooks_in)
        for position, (number, hook) in enumerate(self.real.items()):
            self.items[number] = (HookNumber(tx, number, item_source(numbers, position)),
                                  LazyValue(tx, hook, item_source(hooks, position)))
        self.found = dict(self.items)
        self.complete = self.by_position = True
        return self.items

    def holds_hooks(self) -> bool:
        """Whether this is one of the tables in which torch keeps hooks."""
        source = self.source
        return isinstance(source, ItemSource) and type(source.key) is str and bool(_HOOK_TABLE.fullmatch(source.key)) \
            and type(self.real) is collections.OrderedDict and all(type(number) is int for number in self.real)

    def rely_on_keys(self, tx: Tracer) -> None:
        """Guard the keys of hooks too, which have been iterated."""
        if self.by_position:
            assert self.source is not None
            self.by_position = False
            tx.guard_keys(self.source, self.real)

    def current(self, tx: Tracer) -> dict[Any, tuple[Value, Value]]:
        """The items of a dictionary that has been filled, as they are by now."""
        return self.items

    def get_item(self, tx: Tracer, key: Value) -> Value:
        key = key.realize()
        value = self.lookup(tx, key)
        if value is not None:
            return value
        if self.factory is not None and not (self.factory.is_constant() and self.factory.as_constant() is None):
            tx.in_one_step(self, "__missing__")
            default = self.factory.call(tx, [], {})
            self.set_item(tx, key, default)
            return default
        raise tx.raised(KeyError(*( [key.as_constant()] if key.is_constant() else [tx.constant_of(key)])))

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        if self.cls is types.MappingProxyType:
            raise tx.raised(TypeError("'mappingproxy' object does not support item assignment"))
        key = key.realize()
        self.rely_on_keys(tx)
        token = key.key(tx)
        tx.effects.mutated(self)
        if not self.complete:
            if isinstance(token, (IdentityKey, tuple)):
                self.fill(tx)
            else:
                self.stored.setdefault(token)
        old = self.items.get(token)
        self.items[token] = (old[0] if old is not None else key, value)

    def del_item(self, tx: Tracer, key: Value) -> None:
        key = key.realize()
        items = self.fill(tx)
        token = key.key(tx)
        if token not in items:
            raise tx.raised(KeyError(tx.constant_of(key)))
        tx.effects.mutated(self)
        del items[token]

    def not_found(self, tx: Tracer, key: Value) -> UserRaise:
        """What is raised by methods that an OrderedDict has of its own: a key that is a tuple is taken for the error's
        arguments, None for having none."""
        if self.cls is collections.OrderedDict:
            if isinstance(key, TupleValue) and key.python_type() is tuple:
                return UserRaise(tx.make_exception(KeyError, key.items))
            if key.is_constant() and key.as_constant() is None:
                return tx.raised(KeyError())
            if issubclass(key.python_type(), (tuple, KeyError)):
                raise GraphBreak(f"an OrderedDict does not have {key.describe()}")  # Python raises
        return tx.raised(KeyError(tx.constant_of(key)))

    def truth(self, tx: Tracer) -> bool:
        self.refuse_stale(tx)
        if not self.complete and not self.items:
            assert self.source is not None
            filled = dict.__len__(self.real) > 0 if isinstance(self.real, dict) else bool(self.real)
            tx.guard(self.source, "emptiness", "{k[0]}({0})" if filled else "not {k[0]}({0})",
                     (dict.__len__ if isinstance(self.real, dict) else len,))
            return filled
        return bool(self.iterated(tx))

    def length(self, tx: Tracer) -> Value:
        return tx.constant(len(self.iterated(tx)))

    def iterate(self, tx: Tracer) -> Value:
        return DictIterator(self, "keys", tx)

    def is_constant(self) -> bool:
        return self.source is None and not self.attrs and \
            all(k.is_constant() and v.is_constant() for k, v in self.items.values())

    def as_constant(self) -> Any:
        if not self.complete:
            raise NotConstant("dict")
        plain = {k.as_constant(): v.as_constant() for k, v in self.items.values()}
        if self.cls is collections.defaultdict:
            return collections.defaultdict(self.factory.as_constant() if self.factory else None, plain)
        return self.cls(plain)

    def key(self, tx: Tracer) -> Any:
        raise tx.raised(TypeError(f"unhashable type: '{self.cls.__name__}'"))

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory if self.factory is not None else tx.constant(None)
        if name in self.attrs:
            return self.attrs[name]
        if self.attrs and name in _WHOLE_STATE:
            raise GraphBreak(f"{name} of an OrderedDict that attributes were set on")
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if self.cls is not collections.OrderedDict or self.source is not None or self.owner is not None or \
                hasattr(self.cls, name):
            self.unsupported(f"setting attribute {name!r}")
        tx.effects.mutated(self)
        self.attrs[name] = value

    def pairs(self, tx: Tracer, other: Value) -> Iterator[tuple[Value, Value]]:
        """The items of a mapping or of an iterable of pairs."""
        other = other.realize()
        # Python looks past the methods of a subclass of dict when it iterates as a dict does
        storage = getattr(other, "storage", None)
        if isinstance(storage, DictValue) and inherits_method(other.python_type(), "__iter__", dict) and \
                self.cls is not collections.OrderedDict:
            other = storage
        if isinstance(other, DictValue):
            yield from list(other.fill(tx).values())
            return
        if tx.has_attr(other, "keys"):
            for key in tx.iterate_lazily(tx.call_method(other, "keys", [], {})):
                yield key, tx.get_item(other, key)
            return
        for position, pair in enumerate(tx.iterate_lazily(other)):
            pair = pair.realize()
            if not tx.objects.can_iterate(pair) or isinstance(pair, TensorValue) and not pair.fake.dim():
                raise GraphBreak(f"{pair.describe()} where a dictionary expects a pair")  # Python raises
            parts = tx.to_list(pair)
            if len(parts) != 2:
                if self.cls is collections.OrderedDict:
                    raise GraphBreak("an OrderedDict is given something that is no pair")  # Python raises
                raise tx.raised(ValueError(
                    f"dictionary update sequence element #{position} has length {len(parts)}; 2 is required"))
            yield parts[0], parts[1]

    def merged(self, tx: Tracer, other: DictValue) -> Value:
        """``self | other``; an OrderedDict or defaultdict decides over a plain dict on its left."""
        if types.MappingProxyType in (self.cls, other.cls):
            raise GraphBreak("operator | of a mappingproxy")
        if self.cls is dict and other.cls is not dict:
            return other.call_method(tx, "__ror__", [self], {})
        return self.call_method(tx, "__or__", [other], {})

    def pop(self, tx: Tracer, key: Value, default: Value | None) -> Value:
        """``self.pop(key)``, with a default if one is given."""
        try:
            held = self.lookup(tx, key)
        except UserRaise:
            if self.cls is collections.OrderedDict or self.truth(tx):
                raise
            held = None  # an empty dictionary asks nobody for a hash
        if held is None:
            if default is None:
                raise self.not_found(tx, key)
            return default
        tx.in_one_step(self, "pop")
        items = self.fill(tx)
        tx.effects.mutated(self)
        return items.pop(key.key(tx))[1]

    def pop_item(self, tx: Tracer, last: Value | None) -> Value:
        """``self.popitem(last)``: the first item of an OrderedDict where `last` is given and false."""
        tx.in_one_step(self, "popitem")
        items = self.fill(tx)
        if not items:
            raise tx.raised(KeyError("popitem(): dictionary is empty" if self.cls is not collections.OrderedDict
                                     else "dictionary is empty"))
        tx.effects.mutated(self)
        token = next(iter(items)) if last is not None and not last.truth(tx) else next(reversed(items))
        return_key, return_value = items.pop(token)
        return tx.make_tuple([return_key, return_value])

    def move_to_end(self, tx: Tracer, key: Value, last: Value | None) -> None:
        """``self.move_to_end(key, last)`` of an OrderedDict: to its beginning where `last` is given and false."""
        items = self.fill(tx)
        token = key.key(tx)
        if token not in items:
            raise self.not_found(tx, key)
        tx.effects.mutated(self)
        entry = items.pop(token)
        if last is not None and not last.truth(tx):
            rest = dict(items)
            items.clear()
            items[token] = entry
            items.update(rest)
        else:
            items[token] = entry

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        none = tx.constant(None)
        if name == "get" and 1 <= len(args) <= 2:
            held = self.lookup(tx, args[0].realize())
            return held if held is not None else (args[1] if len(args) == 2 else none)
        if name in ("keys", "values", "items") and not args:
            return DictViewValue(self, name)
        if name == "__getitem__":
            return self.get_item(tx, args[0])
        if name == "__setitem__":
            self.set_item(tx, args[0], args[1])
            return none
        if name == "__delitem__":
            self.del_item(tx, args[0])
            return none
        if name == "__contains__":
            return tx.constant(self.contains(tx, args[0]))
        if name == "__len__":
            return self.length(tx)
        if name == "__iter__":
            return self.iterate(tx)
        if name == "__init__" and self.cls is collections.defaultdict:
            factory = args[0].realize() if args else tx.constant(None)
            is_none = factory.is_constant() and factory.as_constant() is None
            if not is_none and not tx.objects.has_special(factory, "__call__"):
                raise tx.raised(TypeError("first argument must be callable or None"))
            self.factory = None if is_none else factory
            args = args[1:]
        if name in ("update", "__init__", "__ior__"):
            for argument in args:
                for key, value in self.pairs(tx, argument):
                    self.set_item(tx, key, value)
            for text, value in kwargs.items():
                self.set_item(tx, tx.constant(text), value)
            return self if name == "__ior__" else none
        if name == "setdefault":
            held = self.lookup(tx, args[0].realize())
            if held is None:
                tx.in_one_step(self, name)
                held = args[1] if len(args) > 1 else none
                self.set_item(tx, args[0], held)
            return held
        if name == "pop":
            return self.pop(tx, args[0].realize(), args[1] if len(args) > 1 else kwargs.get("default"))
        if name == "popitem":
            return self.pop_item(tx, args[0] if args else kwargs.get("last"))
        if name == "clear":
            self.fill(tx)
            tx.effects.mutated(self)
            self.items.clear()
            return none
        if name in ("copy", "__copy__"):
            return DictValue(dict(self.fill(tx)), cls=self.cls, factory=self.factory)
        if name == "move_to_end":
            self.move_to_end(tx, args[0].realize(), args[1] if len(args) > 1 else kwargs.get("last"))
            return none
        if name in ("__or__", "__ror__"):
            other = args[0].realize()
            if not issubclass(other.python_type(), dict):
                return tx.constant(NotImplemented)
            if name == "__ror__" and self.cls is not dict and issubclass(other.python_type(), self.cls):
                self.unsupported(f"{name} with {other.describe()}")  # which decides over the class of the result
            first, second = (self, other) if name == "__or__" else (other, self)
            merged = DictValue({}, cls=self.cls, factory=self.factory)
            merged.call_method(tx, "update", [first], {})
            merged.call_method(tx, "update", [second], {})
            return merged
        if name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            return tx.operators.native_comparison(tx, name, self, args[0])
        if name == "__reversed__":
            return ListIterator([key for key, _ in reversed(list(self.fill(tx).values()))],
                                reversed_ordered_keys if self.cls is collections.OrderedDict else reversed_keys)
        if name in ("__repr__", "__str__"):
            return tx.fold(repr, [tx.constant_of(self)], {})
        self.unsupported(f"method {name!r}")

    def emit_items(self, code: EntryCode) -> str:
        if self.cls is collections.defaultdict:
            factory = code.value(self.factory) if self.factory is not None else "None"
            start = f"{code.constant(self.cls)}({factory})"
        else:
            start = "{}" if self.cls is dict else f"{code.constant(self.cls)}()"
        name = code.assign(self, start)
        for key, value in self.items.values():
            code.line(f"{name}[{code.value(key)}] = {code.value(value)}")
        for attribute, value in self.attrs.items():
            code.line(f"{code.constant(object.__setattr__)}({name}, {attribute!r}, {code.value(value)})")
        return name

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        def store(key: str, value: str) -> str:
            if owner is None:
                return f"{target}[{key}] = {value}"
            return f"{code.constant(self.cls)}.__setitem__({target}, {key}, {value})"

        if not self.complete:
            for token in self.stored:
                key, value = self.items[token]
                code.line(store(code.value(key), code.value(value)))
            return
        left = [token for token in self.found if token in self.items]
        if self.source is not None and list(self.items)[:len(left)] == left and \
                all(self.items[token][0] is self.found[token][0] for token in left):
            # Only what is different: another thread may write to the same dictionary.
            gone = [code.value(key) for token, (key, _) in self.found.items() if token not in self.items]
            pairs = [(code.value(key), code.value(value)) for token, (key, value) in self.items.items()
                     if token not in self.found or value is not self.found[token][1]]
            for key_text in gone:
                code.line(f"del {target}[{key_text}]" if owner is None else
                          f"{code.constant(self.cls)}.__delitem__({target}, {key_text})")
            for key_text, value_text in pairs:
                code.line(store(key_text, value_text))
            return
        pairs = [(code.value(key), code.value(value)) for key, value in self.items.values()]
        code.line(f"{code.constant(self.cls)}.clear({target})" if owner is not None else f"{target}.clear()")
        for key_text, value_text in pairs:
            code.line(store(key_text, value_text))


class DictViewValue(Value):
    """``d.keys()``, ``d.values()`` or ``d.items()``; live, like the real ones."""

    __slots__ = ("mapping", "kind")
    native_methods = True

    def __init__(self, mapping: DictValue, kind: str) -> None:
        super().__init__(None)
        self.mapping = mapping
        self.kind = kind

    def python_type(self) -> type:
        return {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}[self.kind]

    def elements(self, tx: Tracer) -> list[Value]:
        pairs = self.mapping.iterated(tx).values()
        if self.kind == "keys":
            return [key for key, _ in pairs]
        if self.kind == "values":
            return [value for _, value in pairs]
        return [tx.make_tuple([key, value]) for key, value in pairs]

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "mapping":
            return MappingProxyValue(self.mapping.owner or self.mapping)
        return super().get_attr(tx, name)

    def as_set(self, tx: Tracer) -> SetValue:
        if self.kind == "values":
            raise GraphBreak("set operation on dict.values()")
        return SetValue({item.key(tx): item for item in self.elements(tx)})

    def truth(self, tx: Tracer) -> bool:
        return self.mapping.truth(tx)

    def length(self, tx: Tracer) -> Value:
        return self.mapping.length(tx)

    def iterate(self, tx: Tracer) -> Value:
        return DictIterator(self.mapping, self.kind, tx)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self.iterate(tx)
        if name == "__len__":
            return self.length(tx)
        if name == "__contains__":
            if self.kind == "keys":
                return self.mapping.call_method(tx, "__contains__", args, {})
            if self.kind == "items":
                pair = args[0].realize()
                if not isinstance(pair, TupleValue) or len(pair.items) != 2:
                    return tx.constant(False)
                value = self.mapping.lookup(tx, pair.items[0].realize())
                return tx.constant(value is not None and tx.operators.same_or_equal(tx, value, pair.items[1]))
            return tx.constant(any(tx.same(item, args[0]) or tx.truth(tx.compare("==", item, args[0]))
                                   for item in self.elements(tx)))
        if name == "__reversed__":
            makers = {"keys": reversed_keys, "values": reversed_values, "items": reversed_items}
            ordered = self.mapping.cls is collections.OrderedDict
            return ListIterator(self.elements(tx)[::-1], reversed_ordered_keys if ordered else makers[self.kind])
        if name == "isdisjoint":
            return tx.constant(not any(tx.truth(tx.operators.contains(tx, self, item))
                                       for item in tx.iterate_lazily(args[0])))
        if name in SetValue.OPERATIONS:
            if not isinstance(args[0].realize(), (SetValue, DictViewValue)) and name.startswith("__"):
                self.unsupported(f"method {name!r} with {args[0].describe()}")
            if name.startswith("__r") or name.startswith("__") and isinstance(args[0].realize(), DictViewValue):
                args = [SetValue.of(tx, args[0], set)]  # in reverse a frozenset may be the first one; views make sets
            return self.as_set(tx).call_method(tx, name, args, kwargs)
        self.unsupported(f"method {name!r}")

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"{self.mapping.emit_method(code, self.kind)}()")


__all__ = ["DictValue", "DictViewValue", "SetValue"]
