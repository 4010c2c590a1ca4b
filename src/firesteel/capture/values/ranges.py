"""``range`` objects with a number of the graph in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .base import Value
from .constants import ConstantValue, NumberValue, SliceValue
from .iterators import ConstantIterator

if TYPE_CHECKING:
    from ..entry_code import EntryCode
    from ..tracer import Tracer


def make_range(tx: Tracer, args: list[Value]) -> Value:
    """``range(*args)``; the step decides on its sense, so it is a constant."""
    args = [arg.realize() for arg in args]
    step = tx.constant_of(args[2]) if len(args) == 3 else 1
    bounds = args[:2] if len(args) > 1 else [ConstantValue(0), args[0]]
    numbers = all(isinstance(bound, NumberValue) or type(bound.as_constant()) is int for bound in bounds)
    if not numbers or any(bound.python_type() is not int for bound in bounds) or not isinstance(step, int) or not step \
            or not any(isinstance(bound, NumberValue) for bound in bounds):
        return tx.fold(range, [tx.constant_of(arg) for arg in args], {})
    return RangeValue(tx, bounds[0], bounds[1], int(step))


class RangeValue(Value):
    """``range(start, stop, step)``. Only stepping through it needs to know how many numbers there are."""

    __slots__ = ("tx", "start", "stop", "step", "known")
    fixed_type = range
    native_methods = True

    def __init__(self, tx: Tracer, start: Value, stop: Value, step: int) -> None:
        super().__init__(None)
        self.tx = tx
        self.start = start
        self.stop = stop
        self.step = step
        self.known: ConstantValue | None = None

    def __repr__(self) -> str:
        return f"RangeValue({self.start}, {self.stop}, {self.step})"

    def realize(self) -> Value:
        return self if self.known is None else self.known

    def specialize(self) -> ConstantValue:
        """Make the bounds constants."""
        if self.known is None:
            start, stop = self.tx.constant_of(self.start), self.tx.constant_of(self.stop)
            self.known = ConstantValue(range(start, stop, self.step))
        return self.known

    def as_constant(self) -> Any:
        return self.specialize().value

    def length(self, tx: Tracer) -> Value:
        first, last = (self.start, self.stop) if self.step > 0 else (self.stop, self.start)
        step = abs(self.step)
        distance = tx.binary("-", last, first)
        count = tx.binary("//", tx.binary("+", distance, ConstantValue(step - 1)), ConstantValue(step))
        return tx.call(tx.python_object(max), [ConstantValue(0), count], {})

    def truth(self, tx: Tracer) -> bool:
        return tx.truth(tx.compare("<" if self.step > 0 else ">", self.start, self.stop))

    def get_attr(self, tx: Tracer, name: str) -> Value:
        if name == "start":
            return self.start
        if name == "stop":
            return self.stop
        return ConstantValue(self.step) if name == "step" else super().get_attr(tx, name)

    def get_item(self, tx: Tracer, key: Value) -> Value:
        key = key.realize()
        if isinstance(key, SliceValue) or key.python_type() is not int:
            return self.specialize().get_item(tx, key)
        length = self.length(tx)
        if tx.truth(tx.compare("<", key, ConstantValue(0))):
            key = tx.binary("+", key, length)
        if not (tx.truth(tx.compare(">=", key, ConstantValue(0))) and tx.truth(tx.compare("<", key, length))):
            raise tx.raised(IndexError("range object index out of range"))
        return tx.binary("+", self.start, tx.binary("*", key, ConstantValue(self.step)))

    def contains(self, tx: Tracer, item: Value) -> Value:
        """``item in self``."""
        item = item.realize()
        if item.python_type() not in {int, bool} or not isinstance(item, (ConstantValue, NumberValue)):
            return tx.fold(lambda numbers, value: value in numbers, [self.as_constant(), tx.constant_of(item)], {})
        inside = (">=", "<") if self.step > 0 else ("<=", ">")
        rest = tx.binary("%", tx.binary("-", item, self.start), ConstantValue(self.step))
        return ConstantValue(tx.truth(tx.compare(inside[0], item, self.start)) and
                             tx.truth(tx.compare(inside[1], item, self.stop)) and
                             not tx.truth(rest))

    def iterate(self, tx: Tracer) -> Value:
        return self.specialize().iterate(tx)

    def call_method(self, tx: Tracer, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if name == "__len__":
            return self.length(tx)
        if name == "__getitem__":
            return self.get_item(tx, args[0])
        if name == "__contains__":
            return self.contains(tx, args[0])
        if name == "__reversed__":
            return ConstantIterator(self.as_constant()[::-1])
        if name == "__iter__":
            return self.iterate(tx)
        return self.specialize().call_method(tx, name, args, kwargs)

    def key(self, tx: Tracer) -> Any:
        return self.specialize().key(tx)

    def emit(self, code: EntryCode) -> str:
        return code.assign(self, f"range({code.value(self.start)}, {code.value(self.stop)}, {self.step})")
