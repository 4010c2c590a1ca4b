"""Iterators that symbolic execution steps itself, each able to rebuild the real iterator in mid-course."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ..signals import UserRaise
from .base import Value, identity_key
from .opaque import OpaqueIterator

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..frame import Frame
    from ..tracer import Tracer
    from .mappings import DictValue
    from .sequences import SequenceValue
    from .sets import SetValue


class IteratorValue(Value):
    """An iterator in progress."""

    __slots__ = ()
    native_methods = True

    def iterate(self, tx: Tracer) -> Value:
        return self

    def next_item(self, tx: Tracer) -> Value | None:
        raise NotImplementedError

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__iter__":
            return self
        if name == "__next__":
            item = self.next_item(tx)
            if item is None:
                raise tx.raised(StopIteration())
            return item
        self.unsupported(f"method {name!r}")

    def key(self, tx: Tracer) -> Any:
        return identity_key(tx, self)


def resume_sequence_iterator(iterator: Any, position: int | None) -> Any:
    """A new iterator of a list or tuple, brought to where it has yielded `position` items (None: it is exhausted)."""
    if position is None:
        for _ in iterator:
            pass
    elif position:
        if hasattr(iterator, "__setstate__"):
            iterator.__setstate__(position)
        else:
            next(itertools.islice(iterator, position, position), None)
    return iterator


def outdated_deque_iterator(items: collections.deque[Any]) -> Any:
    """An iterator of a deque that has changed since it was made."""
    kept = list(items)
    iterator = collections.deque.__iter__(items)
    collections.deque.append(items, None)
    collections.deque.clear(items)
    collections.deque.extend(items, kept)
    return iterator


class SequenceIterator(IteratorValue):
    """Iterates a list, tuple or deque live: items appended meanwhile are seen."""

    __slots__ = ("sequence", "position", "changes")

    def __init__(self, sequence: SequenceValue) -> None:
        super().__init__(None)
        self.sequence = sequence
        self.position: int | None = 0
        self.changes: int | None = getattr(sequence, "changes", 0) if sequence.builtin is collections.deque else None

    def python_type(self) -> type:
        return type(iter(self.sequence.builtin()))

    def next_item(self, tx: Tracer) -> Value | None:
        if self.changes is not None and self.changes != getattr(self.sequence, "changes", 0):
            self.position = None
            raise tx.raised(RuntimeError("deque mutated during iteration"))
        if self.position is None:
            return None
        items = self.sequence.elements(tx)
        tx.effects.stepped(self)
        if self.position >= len(items):
            self.position = None
            return None
        self.position += 1
        return items[self.position - 1]

    def emit(self, code: EntryCode) -> str:
        if self.changes is not None and self.changes != getattr(self.sequence, "changes", 0):
            return code.assign(self, f"{code.constant(outdated_deque_iterator)}({code.value(self.sequence)})")
        helper = code.constant(resume_sequence_iterator)
        return code.assign(self, f"{helper}({self.sequence.emit_method(code, '__iter__')}(), {self.position})")


class ListIterator(IteratorValue):
    """Iterates a fixed list of values; `make` gives the real iterator of a list of objects."""

    __slots__ = ("items", "position", "make")

    def __init__(self, items: list[Value], make: Callable[[list[Any]], Any] = iter) -> None:
        super().__init__(None)
        self.items = items
        self.position = 0
        self.make = make

    def python_type(self) -> type:
        return type(self.make([]))

    def next_item(self, tx: Tracer) -> Value | None:
        tx.effects.stepped(self)
        if self.position >= len(self.items):
            return None
        self.position += 1
        return self.items[self.position - 1]

    def emit(self, code: EntryCode) -> str:
        rest = [code.value(item) for item in self.items[self.position:]]
        return code.assign(self, f"{code.constant(self.make)}([{', '.join(rest)}])")


class ConstantIterator(IteratorValue):
    """``iter(...)`` of a range, string or bytes that are a constant."""

    __slots__ = ("items", "position")

    def __init__(self, items: range | str | bytes) -> None:
        super().__init__(None)
        self.items = items
        self.position = 0

    def python_type(self) -> type:
        return type(iter(self.items))

    def next_item(self, tx: Tracer) -> Value | None:
        tx.effects.stepped(self)
        if self.position >= len(self.items):
            return None
        self.position += 1
        return tx.constant(self.items[self.position - 1])

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"iter({code.constant(self.items[self.position:])})")


class CountIterator(IteratorValue):
    """``itertools.count(start, step)``."""

    __slots__ = ("current", "step")
    fixed_type = itertools.count

    def __init__(self, start: Value, step: Value) -> None:
        super().__init__(None)
        self.current = start
        self.step = step

    def next_item(self, tx: Tracer) -> Value | None:
        tx.effects.stepped(self)
        item = self.current
        self.current = tx.binary("+", self.current, self.step)
        return item

    def emit(self, code: EntryCode) -> str:
        count = code.constant(itertools.count)
        return code.assign(self, f"{count}({code.value(self.current)}, {code.value(self.step)})")


class DictIterator(IteratorValue):
    """Iterates a dictionary's keys, values or items; changes of it meanwhile raise as in Python.

    `places` is an iterator of the dictionary that stands for the real one and is changed as that is.
    """

    __slots__ = ("mapping", "kind", "tokens", "position", "size", "places")

    def __init__(self, mapping: DictValue, kind: str, tx: Tracer) -> None:
        super().__init__(None)
        self.mapping = mapping
        self.kind = kind
        items = mapping.iterated(tx)
        self.tokens = list(items)
        self.size = len(self.tokens)
        self.position = 0
        self.places = (items, iter(items))

    def python_type(self) -> type:
        empty: dict[Any, Any] = collections.OrderedDict() if self.mapping.cls is collections.OrderedDict else {}
        return type(iter(getattr(empty, self.kind)()))

    def next_item(self, tx: Tracer) -> Value | None:
        if self.position > self.size:
            return None
        tx.effects.stepped(self)
        items = self.mapping.current(tx)
        ordered = self.mapping.cls is collections.OrderedDict
        if ordered and self.position < self.size and list(items) != self.tokens:
            raise tx.raised(RuntimeError("OrderedDict mutated during iteration"))
        if not ordered and len(items) != self.size:
            raise tx.raised(RuntimeError("dictionary changed size during iteration"))
        try:
            token = self.tokens[self.position] if ordered else next(self._places(items))
        except (IndexError, StopIteration):
            self.position = self.size + 1
            return None
        except RuntimeError as error:
            raise tx.raised(error) from None
        self.position += 1
        key, value = items[token]
        if self.kind == "keys":
            return key
        return value if self.kind == "values" else tx.make_tuple([key, value])

    def _places(self, items: dict[Any, Any]) -> Iterator[Any]:
        """The iterator of what stands for the real dictionary, which may be made anew for every look at it."""
        if self.places[0] is not items:
            self.places = (items, itertools.islice(items, self.position, None))
        return self.places[1]

    def emit(self, code: EntryCode) -> str:
        if list(self.mapping.current(code.tx)) != self.tokens:
            self.unsupported("rebuilding after the dictionary changed")
        name = code.assign(self, f"iter({self.mapping.emit_method(code, self.kind)}())")
        if self.position:
            code.line(f"for _ in {code.constant(itertools.islice)}({name}, {self.position}): pass")
        return name


class SetIterator(IteratorValue):
    """Iterates a set; a change of its size meanwhile raises as in Python."""

    __slots__ = ("set", "items", "position", "tokens")
    fixed_type: ClassVar[type] = type(iter(set()))

    def __init__(self, of: SetValue, items: list[Value]) -> None:
        super().__init__(None)
        self.set = of
        self.items = items
        self.tokens = list(of.items)
        self.position = 0

    def next_item(self, tx: Tracer) -> Value | None:
        tx.effects.stepped(self)
        if self.position > len(self.items):
            return None
        if len(self.set.items) != len(self.items):
            raise tx.raised(RuntimeError("Set changed size during iteration"))
        self.position += 1
        return self.items[self.position - 1] if self.position <= len(self.items) else None

    def emit(self, code: EntryCode) -> str:
        if self.position > len(self.items):
            return code.assign(self, "iter(())")
        if list(self.set.items) != self.tokens:
            self.unsupported("rebuilding after the set changed")
        name = code.assign(self, f"{self.set.emit_method(code, '__iter__')}()")
        if self.position:
            code.line(f"for _ in {code.constant(itertools.islice)}({name}, {self.position}): pass")
        return name


class AlreadyIterating:
    """An iterable that gives out a given iterator, which may have no ``__iter__``, or one that is noticed."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator

    def __iter__(self) -> Any:
        return self.iterator


def emit_iterator(code: EntryCode, iterator: Value) -> str:
    """An expression for an iterator as an argument of what calls ``iter()`` on it again."""
    text = code.value(iterator)
    if isinstance(iterator.realize(), (IteratorValue, OpaqueIterator)):
        return text
    return f"{code.constant(AlreadyIterating)}({text})"


class ZipIterator(IteratorValue):
    """``zip(...)``."""

    __slots__ = ("parts", "strict")
    fixed_type = zip

    def __init__(self, parts: list[Value], strict: bool) -> None:
        super().__init__(None)
        self.parts = parts
        self.strict = strict

    def next_item(self, tx: Tracer) -> Value | None:
        if not self.parts:
            return None
        items: list[Value] = []
        for position, part in enumerate(self.parts):
            item = tx.next_item(part)
            if item is None:
                if self.strict:
                    self.check_strict(tx, position)
                return None
            items.append(item)
        return tx.make_tuple(items)

    def check_strict(self, tx: Tracer, position: int) -> None:
        def plural(n: int) -> str:
            return "argument 1" if n == 1 else f"arguments 1-{n}"

        if position:
            raise tx.raised(ValueError(f"zip() argument {position + 1} is shorter than {plural(position)}"))
        for later in range(1, len(self.parts)):
            if tx.next_item(self.parts[later]) is not None:
                raise tx.raised(ValueError(f"zip() argument {later + 1} is longer than {plural(later)}"))

    def emit(self, code: EntryCode) -> str:
        parts = ", ".join(emit_iterator(code, part) for part in self.parts)
        return code.assign(self, f"zip({parts}{', strict=True' if self.strict else ''})")


class EnumerateIterator(IteratorValue):
    """``enumerate(iterable, start)``."""

    __slots__ = ("inner", "count")
    fixed_type = enumerate

    def __init__(self, inner: Value, count: Value) -> None:
        super().__init__(None)
        self.inner = inner
        self.count = count

    def next_item(self, tx: Tracer) -> Value | None:
        item = tx.next_item(self.inner)
        if item is None:
            return None
        number = self.count
        tx.effects.stepped(self)
        self.count = tx.binary("+", number, tx.constant(1))
        return tx.make_tuple([number, item])

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"enumerate({emit_iterator(code, self.inner)}, {code.value(self.count)})")


class MapIterator(IteratorValue):
    """``map(function, *iterables)``."""

    __slots__ = ("function", "parts")
    fixed_type = map

    def __init__(self, function: Value, parts: list[Value]) -> None:
        super().__init__(None)
        self.function = function
        self.parts = parts

    def next_item(self, tx: Tracer) -> Value | None:
        items = []
        for part in self.parts:
            item = tx.next_item(part)
            if item is None:
                return None
            items.append(item)
        return tx.call(self.function, items, {})

    def emit(self, code: EntryCode) -> str:
        parts = ", ".join(emit_iterator(code, part) for part in self.parts)
        return code.assign(self, f"map({code.called_back(self.function)}, {parts})")


class FilterIterator(IteratorValue):
    """``filter(function, iterable)``."""

    __slots__ = ("function", "inner")
    fixed_type = filter

    def __init__(self, function: Value, inner: Value) -> None:
        super().__init__(None)
        self.function = function
        self.inner = inner

    def next_item(self, tx: Tracer) -> Value | None:
        while True:
            item = tx.next_item(self.inner)
            if item is None:
                return None
            if self.function.is_constant() and self.function.as_constant() is None:
                keep = item
            else:
                keep = tx.call(self.function, [item], {})
            if tx.truth(keep):
                return item

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"filter({code.called_back(self.function)}, {emit_iterator(code, self.inner)})")


class CallableIterator(IteratorValue):
    """``iter(callable, sentinel)``."""

    __slots__ = ("function", "sentinel", "done")
    fixed_type = type(iter(int, 1))

    def __init__(self, function: Value, sentinel: Value) -> None:
        super().__init__(None)
        self.function = function
        self.sentinel = sentinel
        self.done = False

    def next_item(self, tx: Tracer) -> Value | None:
        if self.done:
            return None
        try:
            item: Value | None = tx.call(self.function, [], {})
        except UserRaise as raised:
            if not issubclass(raised.value.python_type(), StopIteration):
                raise
            item = None
        if item is None or tx.operators.same_or_equal(tx, self.sentinel, item):
            tx.effects.stepped(self)
            self.done = True
            return None
        return item

    def emit(self, code: EntryCode) -> str:
        if self.done:
            return code.assign(self, "iter(())")
        return code.assign(self, f"iter({code.called_back(self.function)}, {code.value(self.sentinel)})")


def finished_generator() -> Any:
    """A generator that has come to its end."""
    nothing: tuple[Any, ...] = ()
    generator = (item for item in nothing)
    next(generator, None)
    return generator


class GeneratorValue(IteratorValue):
    """A generator whose frame is executed symbolically, step by step."""

    __slots__ = ("frame", "started", "finished", "rebuild", "running")
    fixed_type = type((lambda: (yield))())

    def __init__(self, frame: Frame, rebuild: Callable[[EntryCode], str]) -> None:
        super().__init__(None)
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        self.rebuild = rebuild  # how to make the real generator when it has not started

    def resume(self, tx: Tracer, sent: Value | None = None, error: Value | None = None) -> Value | None:
        """Run to the next yield; None when the generator has returned (see ``frame.returned``)."""
        if self.finished:
            if error is not None:
                raise UserRaise(error)
            self.frame.returned = tx.constant(None)  # what it returned is given out once
            return None
        if self.running:
            raise tx.raised(ValueError("generator already executing"))
        tx.effects.stepped(self)
        if not self.started:
            tx.generators.append(self)
        self.running = True
        try:
            first = not self.started
            self.started = True
            item = self.frame.resume(sent, error, first)
        except BaseException:
            self.finished = True
            raise
        finally:
            self.running = False
        if item is None:
            self.finished = True
        return item

    def next_item(self, tx: Tracer) -> Value | None:
        return self.resume(tx)

    def needs_cleanup(self) -> bool:
        """Whether Python would run code of the user's when the generator is dropped where it stands."""
        if not self.started or self.finished:
            return False
        handler = self.frame.current.handler
        if handler is None:
            return False
        # every 3.12 generator is covered by a handler that only turns StopIteration into RuntimeError
        return self.frame.decoded.instructions[handler.target].op != "STOPITERATION_ERROR"

    def close(self, tx: Tracer) -> None:
        if not self.started or self.finished:
            self.finished = True
            return
        try:
            item = self.resume(tx, error=tx.exception(GeneratorExit()))
        except UserRaise as raised:
            if raised.value.python_type() in (GeneratorExit, StopIteration):
                return
            raise
        if item is not None:
            raise tx.raised(RuntimeError("generator ignored GeneratorExit"))

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name in ("send", "__next__", "throw"):
            error = None
            if name == "throw":
                error = tx.as_exception(args[1] if len(args) > 1 and not args[1].is_constant() else args[0])
            elif name == "send" and not self.started and not self.finished and not (
                    args[0].is_constant() and args[0].as_constant() is None):
                raise tx.raised(TypeError("can't send non-None value to a just-started generator"))
            item = self.resume(tx, args[0] if name == "send" else None, error)
            if item is None:
                result = [] if self.frame.returned_none() else [self.frame.returned]
                raise UserRaise(tx.make_exception(StopIteration, result))
            return item
        if name == "close":
            self.close(tx)
            return tx.constant(None)
        return super().call_method(tx, name, args, kwargs)

    def emit(self, code: EntryCode) -> str:
        if self.finished:
            return code.assign(self, f"{code.constant(finished_generator)}()")
        if not self.started:
            return code.assign(self, self.rebuild(code))
        return code.assign(self, code.generator_in_progress(self.frame))
