"""Built-in functions, from abs to zip."""

import types

import torch

from . import given


def all_and_any(x):
    return x, all([1, 0]), any([]), all(n > 0 for n in (1, 2)), any(map(str.isupper, "abC")), all([])


def bin_hex_oct(x):
    return x, bin(3), hex(255), oct(8), int("0b11", 2), int("ff", 16), int("  12 "), float("1e3"), int(-3.7), bool("")


def number_functions(x):
    return (
        x * abs(-2),
        divmod(7, 3),
        divmod(-7, 3),
        pow(2, 10),
        pow(38, -1, mod=97),
        round(2.675, 2),
        round(5.5),
        round(1234, -2),
    )


def callable_and_id(x):
    y = x
    return callable(len), callable(x), callable(lambda: 0), id(x) == id(y), id(x) == id(x + 1), y


def enumerate_start(x):
    seasons = ["Spring", "Summer", "Fall", "Winter"]
    return x, list(enumerate(seasons)), list(enumerate(seasons, start=1)), dict(enumerate("ab"))


def filter_and_map(x):
    return (
        list(map(lambda n: x * n, filter(None, [0, 1, 2]))),
        list(map(pow, [2, 3], [5, 2])),
        list(filter(str.isdigit, "a1b2")),
    )


@given(lambda: (types.SimpleNamespace(a=1),))
def getattr_setattr(x, o):
    setattr(o, "b", x)
    has = hasattr(o, "a"), hasattr(o, "zz")
    delattr(o, "a")
    try:
        getattr(o, "a")
    except AttributeError as error:
        return has, getattr(o, "a", 5), str(error), o.b


def isinstance_forms(x):
    return (
        isinstance(x, torch.Tensor),
        isinstance(1, (str, int)),
        isinstance(True, int),
        isinstance(1, int | str),
        issubclass(bool, int),
        x,
    )


def iter_with_sentinel(x):
    values = iter([1, 2, 3, 0, 5])
    return [x * n for n in iter(lambda: next(values), 0)], next(values)


def len_of_things(x):
    return len(x), len("abc"), len(range(7)), len({1: 2}), len(b"12"), x.new_zeros(len([1, 2]))


def max_and_min(x):
    return (
        x,
        max(1, 5, 3),
        min([4, 2], key=lambda n: -n),
        max("apple", "fig", key=len),
        min((), default=0),
        max({"a": 3}),
    )


def max_of_empty(x):
    try:
        max([])
    except ValueError as error:
        return x, str(error)


def next_with_default(x):
    it = iter([x])
    first = next(it)
    try:
        next(it)
    except StopIteration as error:
        return first, next(it, "end"), error.value


def reversed_things(x):
    return [x * n for n in reversed([1, 2])], list(reversed("abc")), list(reversed(range(3))), list(reversed((1, 2)))


def sorted_stable(x):
    return (
        x,
        sorted([3, 1, 2], reverse=True),
        sorted("bAc", key=str.lower),
        sorted({"b": 1, "a": 2}),
        sorted([(1, "b"), (1, "a")]),
    )


def sum_forms(x):
    return sum([x, x + 1]), sum([1, 2], 10), sum([[1], [2]], []), sum((0.1,) * 3), sum(n for n in range(4))


def type_and_vars(x):
    class C:
        a = 1

    c = C()
    c.b = x
    return type(c) is C, type(c).__name__, vars(c), sorted(k for k in dir(c) if not k.startswith("_")), type(1) is int


def zip_forms(x):
    pairs = list(zip([1, 2, 3], "ab"))
    numbers, letters = zip(*pairs)
    try:
        list(zip([1], [1, 2], strict=True))
    except ValueError as error:
        return x * sum(numbers), pairs, letters, str(error)


def hash_and_compare(x):
    return hash(1) == hash(1.0), hash("a") == hash("a"), hash((1, 2)) == hash((1, 2)), hash(x) == hash(x), x


def slice_objects(x):
    s = slice(0, 2)
    t = slice(None, None, -1)
    return x[:, s], [1, 2, 3][t], s.indices(1), (s.start, s.stop, s.step), "abc"[s], s == slice(0, 2)


def complex_numbers(x):
    z = complex("1+2j")
    return x * abs(3 + 4j), z.conjugate(), z * 1j, z.real, complex(1, -1), (1 + 2j) == z


def eval_of_constant(x):
    return x + eval("1 + 2"), eval("a * 2", {"a": 5}), eval("[i for i in range(3)]")


def integer_methods(x):
    return (
        x,
        (37).bit_length(),
        (1024).to_bytes(2, "big"),
        int.from_bytes(b"\x00\x10", "big"),
        (0.75).as_integer_ratio(),
        (2.0).is_integer(),
        (10).bit_count(),
        float.fromhex("0x1p-2"),
        (3.5).hex(),
    )
