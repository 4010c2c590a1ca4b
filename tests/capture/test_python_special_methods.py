"""Special methods of user classes under capture."""

from __future__ import annotations

import functools
import operator
from typing import Any

from capture.differential import check, x

# Special methods


class Vector:
    def __init__(self, items: Any) -> None:
        self.items = list(items)
        self.log: list[str] = []

    def __getitem__(self, key: Any) -> Any:
        return Vector(self.items[key]) if isinstance(key, slice) else self.items[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.items[key]

    def __contains__(self, item: Any) -> bool:
        return any(item is other for other in self.items)

    def __iter__(self) -> Any:
        return iter(self.items)

    def __reversed__(self) -> Any:
        return reversed(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return len(self.items) > 1

    def __eq__(self, other: Any) -> Any:
        return isinstance(other, Vector) and len(self) == len(other)

    def __hash__(self) -> int:
        return 17

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return len(self.items), args, kwargs

    def __add__(self, other: Any) -> Any:
        return (
            Vector([a + b for a, b in zip(self, other, strict=False)]) if isinstance(other, Vector) else NotImplemented
        )

    def __radd__(self, other: Any) -> Any:
        return Vector([other + a for a in self])

    def __iadd__(self, other: Any) -> Any:
        self.items.append(other)
        return self

    def __mul__(self, other: Any) -> Any:
        return Vector([a * other for a in self])

    def __rmul__(self, other: Any) -> Any:
        return Vector([other * a for a in self])

    def __matmul__(self, other: Any) -> Any:
        return sum(a * b for a, b in zip(self, other, strict=False))

    def __neg__(self) -> Any:
        return Vector([-a for a in self])

    def __pos__(self) -> Any:
        return self

    def __invert__(self) -> Any:
        return "inverted"

    def __abs__(self) -> Any:
        return Vector([abs(a) for a in self])

    def __lt__(self, other: Any) -> bool:
        return len(self) < len(other)

    def __round__(self, digits: int = 0) -> Any:
        return digits

    def __int__(self) -> int:
        return len(self.items)

    def __float__(self) -> float:
        return len(self.items) + 0.5

    def __index__(self) -> int:
        return len(self.items)

    def __divmod__(self, other: Any) -> Any:
        return "divmod", other

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        return "pow", other, modulus

    def __str__(self) -> str:
        return f"<{len(self.items)}>"

    def __repr__(self) -> str:
        return f"Vector({len(self.items)})"

    def __format__(self, spec: str) -> str:
        return f"{spec}:{len(self.items)}"


def vectors() -> tuple[Any, ...]:
    return x(), Vector([x(), x() + 1, 3])


def test_item_protocol() -> None:
    def f(x, v):
        v[0] = v[1] + x
        tail = v[1:]
        del v[2]
        return tail, v[-1], len(v), x in v

    check(f, vectors)


def test_contains_iter_len_bool() -> None:
    def f(x, v):
        total = x
        for item in v:
            total = total + item
        empty = Vector([])
        return total, v[0] in v, x in v, bool(v), not v, bool(empty), "yes" if empty else "no", len(list(reversed(v)))

    check(f, vectors)


def test_arithmetic_dunders() -> None:
    def f(x, v):
        return v + v, 2 + v, v * x, x * v, 2 * v, v @ [1, 2, 3], -v, +v is v, ~v, abs(v)

    check(f, vectors)


def test_tensor_with_reflected_operator() -> None:
    def f(x, v):
        return (x + v)[0], (x * v)[2]

    check(f, vectors)


def test_in_place_dunder_keeps_identity() -> None:
    def f(x, v):
        alias = v
        v += x
        return alias is v, v

    check(f, vectors)


def test_in_place_falls_back() -> None:
    def f(x, v):
        alias = v
        v *= 2
        return alias is v, v, alias

    check(f, vectors)


def test_not_implemented_raises() -> None:
    def f(x, v):
        try:
            return v + 3
        except TypeError as error:
            return x + 1, str(error)

    check(f, vectors)


def test_conversions() -> None:
    def f(x, v):
        return x * int(v), float(v), [1, 2, 3, 4][v], operator.index(v), round(v, 4), divmod(v, 3), pow(v, 2, 5), v**3

    check(f, vectors)


def test_text_dunders() -> None:
    def f(x, v):
        return x + 1, str(v), repr(v), f"{v}", f"{v!r:>12}", f"{v:abc}", "%s %r" % (v, v), format(v, "q")  # noqa: UP031

    check(f, vectors)


def test_eq_and_hash() -> None:
    def f(x, v):
        return x + 1, v == Vector([1, 2, 3]), v != Vector([]), hash(v), v == 3, sorted([v, Vector([])])[0] is v

    check(f, vectors)


def test_user_hash_as_dictionary_key() -> None:
    def f(x, v):
        table = {v: x, "other": 2}
        return table[Vector([1, 2, 3])] + 1, v in table, Vector([9]) in table

    check(f, vectors)


def test_user_hash_in_set() -> None:
    def f(x, v):
        group = {v, Vector([4, 5, 6]), Vector([1])}
        return x * len(group)

    check(f, vectors)


def test_call_dunder() -> None:
    def f(x, v):
        return v(x, 1, key=2), callable(v), callable(x)

    check(f, vectors)


class Countdown:
    def __init__(self, start: int) -> None:
        self.left = start

    def __iter__(self) -> Countdown:
        return self

    def __next__(self) -> int:
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        return self.left


def test_user_iterator() -> None:
    def f(x, c):
        first = next(c)
        rest = [x * i for i in c]
        return first, rest, next(c, "end"), list(Countdown(3)), c

    check(f, lambda: (x(), Countdown(4)))


def test_user_iterator_stop_iteration_escapes() -> None:
    def f(x, c):
        try:
            next(c)
        except StopIteration:
            return x + 1

    check(f, lambda: (x(), Countdown(0)))


def test_unpack_user_iterator() -> None:
    def f(x, c):
        a, b, *rest = c
        return x * a, b, rest

    check(f, lambda: (x(), Countdown(5)))


class OldSequence:
    def __getitem__(self, i: int) -> int:
        if i >= 3:
            raise IndexError(i)
        return i * 10


def test_sequence_protocol_iteration() -> None:
    def f(x, s):
        return [x + i for i in s], 20 in s, 5 in s, list(s)

    check(f, lambda: (x(), OldSequence()))


@functools.total_ordering
class Version:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: Any) -> Any:
        return self.n == other.n

    def __lt__(self, other: Any) -> Any:
        return self.n < other.n

    def __hash__(self) -> int:
        return hash(self.n)


def test_total_ordering() -> None:
    def f(x, v):
        w = Version(3)
        return x + 1, v > w, v >= w, v <= w, v < w, v != w, max(v, w).n, [u.n for u in sorted([w, v, Version(1)])]

    check(f, lambda: (x(), Version(2)))


class Reflected:
    def __init__(self, name: str) -> None:
        self.name = name

    def __rsub__(self, other: Any) -> Any:
        return self.name, other

    def __rtruediv__(self, other: Any) -> Any:
        return self.name + "/", other

    def __rpow__(self, other: Any) -> Any:
        return "rpow", other

    def __rfloordiv__(self, other: Any) -> Any:
        return "rfloordiv", other

    def __rmod__(self, other: Any) -> Any:
        return "rmod", other

    def __rlshift__(self, other: Any) -> Any:
        return "rlshift", other

    def __rand__(self, other: Any) -> Any:
        return "rand", other

    def __gt__(self, other: Any) -> Any:
        return "gt", other


class ReflectedChild(Reflected):
    def __rsub__(self, other: Any) -> Any:
        return "child first"


def test_reflected_operators() -> None:
    def f(x, r):
        return 3 - r, 2.5 / r, 2**r, 5 // r, 5 % r, 1 << r, 1 & r, 1 < r, x + 1

    check(f, lambda: (x(), Reflected("r")))


def test_subclass_reflection_goes_first() -> None:
    class Left(Reflected):
        def __sub__(self, other: Any) -> Any:
            return "left"

    class Right(Left):
        def __rsub__(self, other: Any) -> Any:
            return "right"

    def f(x):
        return Left("a") - Right("b"), Left("a") - Left("b"), x + 1

    check(f)


class _Refusal(Exception):
    def __init__(self, reason, tensor):
        super().__init__(reason)
        self.tensor = tensor


class _Missing(_Refusal, KeyError):
    pass


def test_texts_of_exceptions_with_constructors_of_their_own() -> None:
    def f(x, cls):
        try:
            raise cls("a", x)
        except _Refusal as error:
            return error.tensor * 2, repr(error), str(error)

    check(f, lambda: (x(), _Refusal))
    check(f, lambda: (x(), _Missing))


class _NotIterable:
    """Its ``__iter__`` cannot be had."""

    __iter__ = property(len)


class _Items(_NotIterable):
    def __getitem__(self, index):
        return [1, 2][index]


class _NoItems(_NotIterable):
    __getitem__ = property(abs)


class _OnlyItems:
    __getitem__ = property(abs)


def test_iteration_takes_what_a_property_refuses_as_not_there() -> None:
    def f(x, cls):
        try:
            return x + 1, max(cls())
        except TypeError as error:
            return x - 1, str(error), error.__context__

    def loop(x, cls):
        try:
            for value in cls():
                x = x * value
        except TypeError as error:
            return x - 1, str(error)
        return x

    for cls in (_NotIterable, _Items, _NoItems, _OnlyItems):
        check(f, lambda cls=cls: (x(), cls))
        check(loop, lambda cls=cls: (x(), cls))
