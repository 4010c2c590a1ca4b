"""Lists, tuples, named tuples and deques."""

from __future__ import annotations

import collections
import operator
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

from ..equivalents.sorting import sorted_pairs
from ..signals import GraphBreak, NotConstant
from ..source import AttrSource, ConstantSource, Source, StorageSource, item_source, written_in_python
from .base import ContainerValue, LazyValue, Value
from .constants import ConstantValue
from .iterators import ListIterator, SequenceIterator
from .reversals import reversed_deque, reversed_list, reversed_tuple
from .tensors import TensorValue

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


class _Pair(NamedTuple):
    first: Any


FIELD_GETTER = type(vars(_Pair)["first"])


def _index(tx: Tracer, key: Value) -> Any:
    """A constant int or slice usable on a Python sequence."""
    position = key.realize().as_index(tx)
    if isinstance(position, int) and abs(position) > sys.maxsize:
        raise GraphBreak("an index that no sequence reaches")  # Python raises
    return position


def _number(tx: Tracer, key: Value, refusal: str = "{!r} object cannot be interpreted as an integer") -> int:
    """A constant int; raises as Python does where it refuses to take something for one."""
    kind = key.realize().python_type()
    if not hasattr(kind, "__index__"):
        raise tx.raised(TypeError(refusal.format(kind.__name__)))
    position = _index(tx, key)
    if not hasattr(type(position), "__index__"):
        raise tx.raised(TypeError(refusal.format(type(position).__name__)))
    return operator.index(position)


# Iterators that give more than this are taken to have no end.
MOST_ITEMS = 1_000_000


def sorted_items(tx: Tracer, items: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The items in the order of ``sorted(items, key=..., reverse=...)``."""
    key, reverse = kwargs.get("key"), kwargs.get("reverse", ConstantValue(False))
    descending = tx.truth(reverse) if sys.version_info >= (3, 12) else bool(_number(tx, reverse))
    if key is not None and not (key.is_constant() and key.as_constant() is None):
        keys = [tx.call(key, [item], {}) for item in items]
    else:
        keys = items
    try:
        plain = [value.realize().as_constant() for value in keys]
    except NotConstant:
        if any(isinstance(value.realize(), TensorValue) for value in keys):
            raise GraphBreak("sorting by the values of tensors", "use torch.sort") from None
        pairs = ListValue([TupleValue([*pair]) for pair in zip(keys, items, strict=True)])
        return tx.to_list(tx.call(tx.python_object(sorted_pairs), [pairs, ConstantValue(descending)], {}))
    order = tx.user_errors(lambda: sorted(range(len(items)), key=plain.__getitem__, reverse=descending))
    return [items[position] for position in order]


class SequenceValue(ContainerValue):
    """What lists, tuples and deques share; `elements` is the Python list of their items."""

    __slots__ = ()
    native_methods = True
    builtin: type = tuple

    def elements(self, tx: Tracer) -> list[Value]:
        raise NotImplementedError

    def truth(self, tx: Tracer) -> bool:
        return len(self.elements(tx)) > 0

    def length(self, tx: Tracer) -> Value:
        return tx.constant(len(self.elements(tx)))

    def like(self, items: list[Value]) -> Value:
        raise NotImplementedError

    def get_item(self, tx: Tracer, key: Value) -> Value:
        items = self.elements(tx)
        position = self.position(tx, key)
        if isinstance(position, slice):
            return self.like(tx.user_errors(lambda: items[position]))
        try:
            return items[position]
        except IndexError:
            raise tx.raised(IndexError(f"{self.builtin.__name__} index out of range")) from None

    def position(self, tx: Tracer, key: Value) -> Any:
        """The number or slice that an index stands for; raises as Python does for what is neither."""
        kind = key.realize().python_type()
        if not hasattr(kind, "__index__") and (kind is not slice or self.builtin is collections.deque):
            name = kind.__name__
            raise tx.raised(TypeError(
                f"sequence index must be integer, not {name!r}" if self.builtin is collections.deque else
                f"{self.builtin.__name__} indices must be integers or slices, not {name}"))
        return _index(tx, key)

    def iterate(self, tx: Tracer) -> Value:
        return SequenceIterator(self)

    def find(self, tx: Tracer, value: Value, start: int = 0, stop: int | None = None) -> int | None:
        for position, item in enumerate(self.elements(tx)[start:stop]):
            if tx.operators.same_or_equal(tx, item, value):
                return position + start
        return None

    def common_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__getitem__":
            return self.get_item(tx, args[0])
        items = self.elements(tx)
        if name == "__len__":
            return tx.constant(len(items))
        if name == "__iter__":
            return self.iterate(tx)
        if name == "__contains__":
            return tx.constant(self.find(tx, args[0]) is not None)
        if name == "index" and not kwargs:
            bounds = [_number(tx, a, "slice indices must be integers or have an __index__ method") for a in args[1:]]
            start = bounds[0] if bounds else 0
            stop = bounds[1] if len(bounds) > 1 else None
            start = max(start + len(items), 0) if start < 0 else start
            index = self.find(tx, args[0], start, stop)
            if index is None:
                if self.builtin is tuple:
                    raise tx.raised(ValueError("tuple.index(x): x not in tuple"))
                if not args[0].is_constant():
                    raise GraphBreak(f"{args[0].describe()} is not in the {self.builtin.__name__}")  # Python raises
                raise tx.raised(ValueError(f"{args[0].as_constant()!r} is not in {self.builtin.__name__}"))
            return tx.constant(index)
        if name == "count" and not kwargs:
            return tx.constant(sum(1 for item in items if tx.operators.same_or_equal(tx, item, args[0])))
        if name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
            return tx.operators.native_comparison(tx, name, self, args[0])
        if name in ("__add__", "__mul__", "__rmul__"):
            fitting = (int,) if "mul" in name else (self.builtin,)
            if not issubclass(args[0].python_type(), fitting):
                self.unsupported(f"{name} with {args[0].describe()}")  # Python raises
            return tx.object_operators.repeated(tx, self, args[0]) if "mul" in name else \
                tx.object_operators.concatenated(tx, self, args[0])
        if name == "__format__" and not (args[0].is_constant() and args[0].as_constant() == ""):
            self.unsupported("a format of its own")  # Python raises
        if name in ("__repr__", "__str__", "__format__"):
            return tx.fold(repr, [tx.constant_of(self)], {})
        if name == "__reversed__":
            makers: dict[type, Any] = {list: reversed_list, tuple: reversed_tuple, collections.deque: reversed_deque}
            return ListIterator(items[::-1], makers[self.builtin])
        if name in ("__init__", "__init_subclass__"):
            return tx.constant(None)
        self.unsupported(f"method {name!r}")


class TupleValue(SequenceValue):
    """A tuple, named tuple, torch.Size or another subclass of tuple (`cls`)."""

    __slots__ = ("items", "cls")
    builtin = tuple

    def __init__(self, items: list[Value], cls: type = tuple, source: Source | None = None) -> None:
        super().__init__(source)
        self.items = items
        self.cls = cls

    def __repr__(self) -> str:
        return f"{self.cls.__name__}Value({self.items})"

    def python_type(self) -> type:
        return self.cls

    def elements(self, tx: Tracer) -> list[Value]:
        return self.items

    def like(self, items: list[Value]) -> Value:
        import torch

        return TupleValue(items, self.cls if self.cls is torch.Size else tuple)

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.items)

    def as_constant(self) -> Any:
        items = [item.as_constant() for item in self.items]
        return make_tuple(self.cls, items)

    def key(self, tx: Tracer) -> Any:
        return tuple(item.key(tx) for item in self.items)

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if self.cls is not tuple:
            tx.reliance.classes[self.cls] = None
            if isinstance(self.cls.__getattribute__, types.FunctionType):
                raise GraphBreak(f"{self.cls.__name__} has its own __getattribute__")
            fields = getattr(self.cls, "_fields", None)
            if fields is None and hasattr(self.cls, "n_sequence_fields"):
                fields = getattr(self.cls, "__match_args__", None) or ()
            if fields and name in fields and self.is_field(tx, name):
                return self.items[fields.index(name)]
        return tx.objects.generic_get_attr(tx, self, name)

    def is_field(self, tx: Tracer, name: str) -> bool:
        """Whether a field of a named tuple is what the class was made with."""
        raw, owner = tx.objects.find_on_class(self.cls, name, tx)
        if owner is None or not written_in_python(owner):
            return True  # a class in C
        if type(raw) is not FIELD_GETTER:
            return False
        table = AttrSource(ConstantSource.of(owner, owner.__qualname__), "__dict__")
        tx.guard(item_source(table, name), "identity", "{0} is {k[0]}", (raw,))
        return True

    def set_attr(self, tx: Tracer, name: str, value: Value) -> None:
        if self.cls.__dictoffset__ or isinstance(self.cls.__setattr__, types.FunctionType):
            self.unsupported(f"setting attribute {name!r}")
        # a stand-in of the same class refuses with the same message
        tx.fold(setattr, [make_tuple(self.cls, [None] * len(self.items)), name, None], {})

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "numel":
            total: Value = tx.constant(1)
            for item in self.items:
                total = tx.binary("*", total, item)
            return total
        if name == "__hash__":
            self.unsupported("hash()")
        return self.common_method(tx, name, args, kwargs)

    def emit_items(self, code: EntryCode) -> str:
        items = [code.value(item) for item in self.items]
        text = "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
        if self.cls is tuple:
            return code.assign(self, text) if items else "()"
        return code.assign(self, f"{code.constant(make_tuple)}({code.constant(self.cls)}, {text})")


def make_tuple(cls: type, items: Any) -> Any:
    """Build a tuple of a given class without running its ``__new__`` of the user's."""
    if cls is tuple:
        return tuple(items)
    if hasattr(cls, "n_sequence_fields") or cls.__module__ == "torch":
        return cls(items)
    return tuple.__new__(cls, items)


DEQUE_METHODS = frozenset({"__getitem__", "appendleft", "extendleft", "popleft", "rotate"})
"""Methods of a deque that `ListValue.deque_method` knows."""


class ListValue(SequenceValue):
    """A list or deque. One from outside is read lazily; appending to it and reading single items of it needs no guard
    on its length."""

    __slots__ = ("items", "real", "tail", "cls", "maxlen", "changes", "read_apart")

    def __init__(self, items: list[Value] | None, source: Source | None = None, real: Any = None,
                 cls: type = list, maxlen: int | None = None) -> None:
        super().__init__(source)
        self.items = items
        self.real = real
        self.tail: list[Value] = []
        self.read_apart: dict[int, Value] = {}
        """Items that were read while the others are not known, by their indices, which may be negative."""
        self.cls = cls
        self.maxlen = maxlen
        self.changes = 0
        """How often an iterator of a deque would have noticed a change."""

    def __repr__(self) -> str:
        return f"ListValue({self.items if self.items is not None else self.source})"

    @property
    def builtin(self) -> type:  # type: ignore[override]
        return self.cls

    @property
    def out_of_range(self) -> str:
        return "list assignment index out of range" if self.cls is list else "deque index out of range"

    def python_type(self) -> type:
        return self.cls

    def elements(self, tx: Tracer) -> list[Value]:
        if self.items is None:
            assert self.source is not None
            cls: Any = self.cls
            if self.source.name in tx.unsettled:
                raise GraphBreak(f"the {cls.__name__} {self.source.name} has another length from call to call",
                                 "make a tensor of it outside of the compiled function")
            reals = list(cls.__iter__(self.real))
            if isinstance(self.source, StorageSource):
                tx.guard(self.source, "length", f"{{k[0]}}({{0}}) == {len(reals)}", (list.__len__,))
            else:
                tx.guard(self.source, "length", f"len({{0}}) == {len(reals)}")
            read = {at % len(reals): item for at, item in self.read_apart.items()}
            self.items = [read[i] if i in read else LazyValue(tx, item, item_source(self.source, i))
                          for i, item in enumerate(reals)]
            self.items.extend(self.tail)
            self.tail = []
        return self.items

    def single(self, tx: Tracer, position: int) -> Value | None:
        """An item of a list from outside whose other items do not matter; None if all have to be looked at."""
        if self.items is not None or isinstance(self.source, StorageSource) or position < 0 and self.tail:
            return None
        assert self.source is not None
        if position not in self.read_apart:
            try:
                real = self.real[position]
            except IndexError:
                return None
            self.guard_least(tx, position + 1 if position >= 0 else -position)
            self.read_apart[position] = LazyValue(tx, real, item_source(self.source, position))
        return self.read_apart[position]

    def guard_least(self, tx: Tracer, count: int) -> None:
        """Rely on a list from outside having so many items or more."""
        tx.guard(self.source, "items", f"len({{0}}) >= {count}")

    def get_item(self, tx: Tracer, key: Value) -> Value:
        index = key.realize()
        if isinstance(index, ConstantValue) and type(index.value) is int and abs(index.value) <= sys.maxsize:
            item = self.single(tx, index.value)
            if item is not None:
                return item
        return super().get_item(tx, key)

    def truth(self, tx: Tracer) -> bool:
        if self.items is None and not isinstance(self.source, StorageSource):
            if self.tail:
                return True
            if self.real:
                self.guard_least(tx, 1)
                return True
        return super().truth(tx)

    def like(self, items: list[Value]) -> Value:
        return ListValue(items)

    def is_constant(self) -> bool:
        return self.source is None and self.items is not None and all(item.is_constant() for item in self.items)

    def as_constant(self) -> Any:
        if self.items is None:
            raise NotConstant("list")
        items = [item.as_constant() for item in self.items]
        return items if self.cls is list else collections.deque(items, self.maxlen)

    def changed(self, tx: Tracer) -> list[Value]:
        """The items, about to be mutated."""
        items = self.elements(tx)
        tx.effects.mutated(self)
        self.changes += 1
        return items

    def set_item(self, tx: Tracer, key: Value, value: Value) -> None:
        position = self.position(tx, key)
        if isinstance(position, slice):
            kind = value.realize().python_type()
            if not hasattr(kind, "__iter__") and not hasattr(kind, "__getitem__"):
                raise tx.raised(TypeError("can only assign an iterable" if position.step in (None, 1) else
                                          "must assign iterable to extended slice"))
            new = list(self.elements(tx)) if self.belongs_to(value) else tx.to_list(value)
            items = self.changed(tx)
            tx.user_errors(lambda: items.__setitem__(position, new))
            return
        items = self.changed(tx)
        self.changes -= 1
        try:
            items[position] = value
        except IndexError:
            raise tx.raised(IndexError(self.out_of_range)) from None

    def del_item(self, tx: Tracer, key: Value) -> None:
        position = self.position(tx, key)
        items = self.changed(tx)
        try:
            del items[position]
        except IndexError:
            raise tx.raised(IndexError(self.out_of_range)) from None

    def append(self, tx: Tracer, value: Value) -> None:
        tx.effects.mutated(self)
        self.changes += 1
        if self.items is None:
            if self.maxlen is None:
                self.tail.append(value)
                return
            self.elements(tx)
        assert self.items is not None
        self.items.append(value)
        if self.maxlen is not None and len(self.items) > self.maxlen:
            del self.items[0]

    def belongs_to(self, value: Value) -> bool:
        """Whether these are the items of an object of a subclass: as a slice of itself, it is not asked to iterate.

        From Python 3.13 on, neither is a list that is extended by itself.
        """
        return self.cls is list and getattr(value.realize(), "storage", None) is self

    def extend(self, tx: Tracer, other: Value) -> None:
        """Item by item: what makes the items may look at this list meanwhile. A deque by itself is copied before."""
        source = self if sys.version_info >= (3, 13) and self.belongs_to(other) else other
        if self.cls is not list and getattr(other, "storage", None) is self:
            source = ListValue(tx.to_list(other))
        if isinstance(source, SequenceValue):
            for item in list(source.elements(tx)):
                self.append(tx, item)
            return
        items = tx.iterate_lazily(other, hint=self.cls is list)
        for count, item in enumerate(items):
            self.append(tx, item)
            if count > MOST_ITEMS:
                raise GraphBreak("an iterator without end, or with more than a million items")

    def sort(self, tx: Tracer, kwargs: dict[str, Value]) -> None:
        """``list.sort``: while it calls the program's code, the list is empty."""
        items = list(self.elements(tx))
        self.changed(tx).clear()
        try:
            items = sorted_items(tx, items, kwargs)
        finally:
            refilled = bool(self.elements(tx))
            self.changed(tx)[:] = items
        if refilled:
            raise tx.raised(ValueError("list modified during sort"))

    def repeat(self, tx: Tracer, times: int) -> None:
        """``self *= times``."""
        repeated = tx.user_errors(lambda: self.elements(tx) * times)
        items = self.changed(tx)
        items[:] = repeated
        if self.maxlen is not None:
            del items[:max(len(items) - self.maxlen, 0)]

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        none = tx.constant(None)
        if name == "append" and len(args) == 1:
            self.append(tx, args[0])
            return none
        if name in ("extend", "__iadd__") and len(args) == 1:
            self.extend(tx, args[0].realize())
            return self if name == "__iadd__" else none
        if name == "__imul__" and len(args) == 1:
            times = _index(tx, args[0])
            if not hasattr(type(times), "__index__"):
                self.unsupported(f"__imul__ with {args[0].describe()}")  # Python raises, in other words than *=
            self.repeat(tx, times)
            return self
        if name == "__init__":
            bound = args[1] if len(args) > 1 else kwargs.get("maxlen", none)
            if self.cls is not list and self.source is not None:
                self.unsupported("making it anew")
            self.changed(tx).clear()
            self.maxlen = tx.constant_of(bound)
            if self.maxlen is not None and not (type(self.maxlen) is int and self.maxlen >= 0):
                self.unsupported("an unusual length")  # Python raises
            args = args or [kwargs[word] for word in ("iterable",) if word in kwargs]
            if args:
                self.extend(tx, args[0].realize())
            return none
        if name == "insert" and len(args) == 2:
            position = _number(tx, args[0])
            if self.maxlen is not None and len(self.elements(tx)) == self.maxlen:
                raise tx.raised(IndexError("deque already at its maximum size"))
            items = self.changed(tx)
            tx.user_errors(lambda: items.insert(position, args[1]))
            return none
        if name in ("pop", "popleft", "remove"):
            tx.in_one_step(self, name)
        if name == "pop":
            positions = [_number(tx, a) for a in args]
            if not self.elements(tx):
                raise tx.raised(IndexError("pop from empty list" if self.cls is list else "pop from an empty deque"))
            try:
                return self.changed(tx).pop(*positions)
            except IndexError as error:
                raise tx.raised(error) from None
        if name == "remove" and len(args) == 1:
            index = self.find(tx, args[0])
            if index is None:
                if self.cls is list:
                    raise tx.raised(ValueError("list.remove(x): x not in list"))
                raise tx.raised(ValueError(f"{tx.builtin_text.text_of(tx, args[0], repr)} is not in deque"))
            del self.changed(tx)[index]
            return none
        if name == "clear":
            self.changed(tx).clear()
            return none
        if name == "reverse":
            self.changed(tx).reverse()
            self.changes -= 1
            return none
        if name == "copy" or name == "__copy__":
            return ListValue(list(self.elements(tx)), cls=self.cls, maxlen=self.maxlen)
        if name == "sort" and not args:
            self.sort(tx, kwargs)
            return none
        if name in ("__setitem__", "__delitem__"):
            key = args[0] if self.cls is list else tx.constant(_number(tx, args[0]))
            if name == "__setitem__":
                self.set_item(tx, key, args[1])
            else:
                self.del_item(tx, key)
            return none
        if self.cls is collections.deque and name in DEQUE_METHODS:
            return self.deque_method(tx, name, args)
        if name == "__hash__":
            raise tx.raised(TypeError(f"unhashable type: '{self.cls.__name__}'"))
        return self.common_method(tx, name, args, kwargs)

    def deque_method(self, tx: Tracer, name: str, args: list[Value]) -> Value:
        """One of the methods that only a deque has, or has in its own way."""
        none = tx.constant(None)
        if name == "__getitem__":
            return self.get_item(tx, tx.constant(_number(tx, args[0])))
        if name == "appendleft":
            items = self.changed(tx)
            items.insert(0, args[0])
            if self.maxlen is not None and len(items) > self.maxlen:
                items.pop()
            return none
        if name == "extendleft":
            source = args[0].realize()
            alone = source is self or getattr(source, "storage", None) is self
            for item in tx.to_list(source) if alone else tx.iterate_lazily(source):
                self.deque_method(tx, "appendleft", [item])
            return none
        if name == "popleft":
            if not self.elements(tx):
                raise tx.raised(IndexError("pop from an empty deque"))
            return self.changed(tx).pop(0)
        count = _number(tx, args[0]) if args else 1
        if len(self.elements(tx)) > 1:
            items = self.changed(tx)
            count %= len(items)
            items[:] = items[-count:] + items[:-count] if count else items
        return none

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "maxlen" and self.cls is collections.deque:
            return tx.constant(self.maxlen)
        return super().get_attr(tx, name)

    def key(self, tx: Tracer) -> Any:
        raise tx.raised(TypeError(f"unhashable type: '{self.cls.__name__}'"))

    def emit_items(self, code: EntryCode) -> str:
        assert self.items is not None
        flat = all(isinstance(item, ConstantValue) or item.source is not None for item in self.items)
        empty = "[]" if self.cls is list else f"{code.constant(collections.deque)}((), {self.maxlen})"
        if flat and self.cls is list:
            return code.assign(self, "[" + ", ".join(code.value(item) for item in self.items) + "]")
        name = code.assign(self, empty)  # named before its items are built: it may contain itself
        if self.items:
            code.line(f"{name}.extend(({', '.join(code.value(item) for item in self.items)},))")
        return name

    def emit_mutation(self, code: EntryCode, target: str, owner: type | None = None) -> None:
        """Bring the real list up to date; `owner` names the builtin type when a user's subclass holds the items."""
        prefix = code.constant(self.cls)
        if self.items is None:
            for item in self.tail:
                if owner is None:
                    code.line(f"{target}.append({code.value(item)})")
                else:
                    code.line(f"{prefix}.append({target}, {code.value(item)})")
            return
        text = f"[{', '.join(code.value(item) for item in self.items)}]"
        if self.cls is list:
            code.line(f"{target}[:] = {text}" if owner is None
                      else f"{prefix}.__setitem__({target}, {code.constant(slice(None))}, {text})")
        else:
            kept = code.fresh(text)
            code.line(f"{prefix}.clear({target})")  # not the methods of a subclass
            code.line(f"{prefix}.extend({target}, {kept})")
