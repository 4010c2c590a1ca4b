"""Subclasses of built-in types, made and used."""

import collections

import torch

from . import given


class _Bag(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.log = []

    def __setitem__(self, key, value):
        self.log.append(key)
        super().__setitem__(key, value)

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Stack(list):
    def push(self, item):
        self.append(item)
        return self

    @property
    def top(self):
        return self[-1]

    def __getitem__(self, i):
        if isinstance(i, str):
            return len(self)
        return super().__getitem__(i)


class _Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def swapped(self):
        return _Pair(self[1], self[0])


class _Celsius(float):
    def __new__(cls, value):
        return super().__new__(cls, value)

    def to_f(self):
        return self * 9 / 5 + 32


class _Id(int):
    def __repr__(self):
        return f"Id({int(self)})"

    def __add__(self, other):
        return _Id(int(self) + other)


class _Path(str):
    def __truediv__(self, other):
        return _Path(f"{self}/{other}")


class _Tags(frozenset):
    def joined(self):
        return ",".join(sorted(self))


class _History(collections.deque):
    def last(self):
        return self[-1]


class _Counter(collections.Counter):
    def best(self):
        return self.most_common(1)[0]


class _Defaults(collections.defaultdict):
    def __missing__(self, key):
        self[key] = value = key * 2
        return value


class _ModelOutput(collections.OrderedDict):
    def __getitem__(self, k):
        if isinstance(k, str):
            return dict(self.items())[k]
        return self.to_tuple()[k]

    def to_tuple(self):
        return tuple(dict(self.items())[k] for k in self.keys())


def dict_with_attributes(x):
    b = _Bag(a=1)
    b["t"] = x
    b.update(z=5)
    try:
        b.missing
    except AttributeError as error:
        return b.t, b.a, b.log, str(error), dict(b)


def list_with_methods(x):
    s = _Stack([1])
    s.push(x).push(3)
    return s.top, s["n"], s[0:2], type(s[:]).__name__, type(s + [1]).__name__, s, len(s)


def tuple_with_new(x):
    p = _Pair(x, 2)
    return p.swapped, len(p), type(p + ()).__name__, isinstance(p, tuple), p.swapped[0]


def float_with_methods(x):
    c = _Celsius(36.6)
    return x * c, c.to_f(), type(c + 1).__name__, round(c), c > 36, _Celsius("1.5")


def int_with_operators(x):
    i = _Id(5)
    return x * i, i + 1, type(i + 1).__name__, type(i * 2).__name__, [0] * i, repr([i]), i == 5


def str_with_operators(x):
    p = _Path("usr") / "lib" / "python"
    return x, p, type(p).__name__, p.split("/"), type(p.upper()).__name__, len(p), f"{p}", p.endswith("python")


def frozenset_with_methods(x):
    t = _Tags(["b", "a"])
    return x * len(t), t.joined(), type(t | {"c"}).__name__, "a" in t, t == {"a", "b"}


def deque_with_methods(x):
    h = _History(maxlen=2)
    for n in range(3):
        h.append(x + n)
    return h.last(), list(h), h.maxlen


def counter_with_methods(x):
    c = _Counter("abca")
    return x, c.best(), type(c + c).__name__, c["zz"]


def defaultdict_with_missing(x):
    d = _Defaults()
    return x * d[3], d, type(d).__name__


def model_output(x):
    out = _ModelOutput(logits=x, loss=x.sum())
    out["extra"] = 1
    logits, *rest = out.to_tuple()
    return out["logits"] + out[1], rest, list(out.keys()), out


def bool_and_int(x):
    n = True + True
    return x * n, isinstance(True, int), int(True), True == 1, {True: "a", 1: "b"}, bool.__mro__[1].__name__


def nested_subclasses(x):
    outer = _Stack([_Bag(k=_Pair(x, 1))])
    return outer[0]["k"].swapped[1], outer[0].k[0]


def iteration_override(x):
    class Doubled(list):
        def __iter__(self):
            return (v * 2 for v in super().__iter__())

    d = Doubled([x, 1])
    return [v for v in d], d[0], list(d), sum(Doubled([1, 2])), len(d), max(Doubled([1, 2]))


def contains_override(x):
    class CaseInsensitive(dict):
        def __contains__(self, k):
            return super().__contains__(k.lower())

        def __getitem__(self, k):
            return super().__getitem__(k.lower())

    d = CaseInsensitive(a=x)
    return d["A"], "A" in d, d.get("A"), list(d)


def equality_override(x):
    class Loose(str):
        def __eq__(self, other):
            return self.lower() == other.lower()

        __hash__ = str.__hash__

    return x, Loose("A") == "a", Loose("A") != "b", Loose("A") in ["a"]


def exception_subclass(x):
    class Retry(Exception):
        def __init__(self, attempts, *args):
            super().__init__(*args)
            self.attempts = attempts

    try:
        raise Retry(3, "again")
    except Retry as r:
        return x * r.attempts, r.args, str(r)


@given(lambda: (_Stack([1, 2]), _Bag(a=1), _Pair(1, 2), _Id(4)))
def from_outside(x, stack, bag, pair, number):
    stack.push(x)
    bag["b"] = 2
    return stack.top * bag.a + pair.swapped[0], number + 1, bag.log


def size_subclass(x):
    size = x.shape
    return (
        type(size).__name__,
        size.numel(),
        type(size[:1]).__name__,
        type(size + (1,)).__name__,
        torch.Size([2, 3]) == size,
        list(size),
    )


def super_calls_of_builtins(x):
    class Limited(list):
        def __init__(self, *a, limit=2):
            super().__init__(*a)
            self.limit = limit

        def append(self, item):
            if len(self) >= self.limit:
                raise OverflowError(f"more than {self.limit}")
            super().append(item)

    items = Limited([1])
    items.append(x)
    try:
        items.append(3)
    except OverflowError as error:
        return items[1], str(error), items.limit
