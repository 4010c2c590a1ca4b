"""Text, numbers and the standard library under capture.

PYTEST_DONT_REWRITE: assert statements are under test here too, in the form that Python gives them.
"""

from __future__ import annotations

import bisect
import collections
import copy
import dataclasses
import heapq
import itertools
import math
import operator
import random
import re
import statistics
import string
from typing import Any

import numpy as np
import pytest
import torch

from capture.differential import check, x

# Text


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.upper() + s.lower() + s.title() + s.capitalize() + s.swapcase() + s.casefold(),
        lambda s: (s.split(), s.split("b"), s.rsplit(" ", 1), s.splitlines(), s.partition(" "), s.rpartition(" ")),
        lambda s: (s.strip(), s.lstrip("a"), s.rstrip("c"), s.removeprefix("a"), s.removesuffix("c")),
        lambda s: (s.find("b"), s.rfind("b"), s.index("b"), s.rindex("b"), s.count("b")),
        lambda s: (s.startswith("a"), s.endswith(("c", "d")), s.startswith("b", 1)),
        lambda s: (s.isalpha(), s.isdigit(), s.isalnum(), s.isspace(), s.isupper(), s.islower(), s.isidentifier()),
        lambda s: (
            s.replace("a", "z"),
            s.replace("b", "", 1),
            s.zfill(20),
            s.center(20, "*"),
            s.ljust(12),
            s.rjust(12),
        ),
        lambda s: (s.encode(), s.expandtabs(), s.translate(str.maketrans("ab", "xy")), s.format(), "-".join([s, s])),
        lambda s: (
            s[0],
            s[-1],
            s[1:3],
            s[::-1],
            s * 2,
            s + "q",
            "b" in s,
            len(s),
            list(s),
            s < "b",
            ord(s[0]),
            chr(97),
        ),
        lambda s: (
            "{} {}".format(1, s),
            "{a:>5}{b!r}".format(a=1, b=s),
            "{0[0]}".format([5]),
            "{:.2f}".format(3.14159),
        ),
        lambda s: ("%s" % s, "%5.1f|%-4d|%x" % (2.55, 3, 255), "%(k)s" % {"k": s}, "%%" % ()),
        lambda s: (
            repr(s),
            ascii("é"),
            str(3.0),
            str(None),
            bin(5),
            hex(255),
            oct(8),
            int("12"),
            int("ff", 16),
            float("1e3"),
        ),
    ],
    ids=range(12),
)
def test_str_methods(call: Any) -> None:
    def f(x, s):
        return x + 1, call(s)

    check(f, lambda: (x(), "ab bc"))


def test_f_strings() -> None:
    def f(x, s, n, v):
        width = 8
        return (
            x + 1,
            f"{s}{n}{v}",
            f"{s!r:>{width}}",
            f"{n:05d}|{n:+}|{n:,}|{n:b}",
            f"{v:.3f}|{v:e}|{v:8.2g}|{v:%}",
            f"{s=}",
            f"{n + 1=}",
            f"{'nested ' + f'{n}'}",
            "{}",
            f"{x.shape}",
            f"{x.dtype}",
            f"{[n, s]}",
            f"{None}",
            f"{s!s}",
            f"{s!a}",
            f"{x.shape[0]}x{x.shape[1]}",
        )

    check(f, lambda: (x(), "text", 1234, 2.5))


def test_text_errors() -> None:
    def f(x):
        messages = []
        for action in (
            lambda: "a" + 1,
            lambda: int("a"),
            lambda: "%d" % "a",
            lambda: "a".index("z"),
            lambda: "{}{}".format(1),  # noqa: F524
            lambda: "ab"[5],
            lambda: ",".join([1]),
            lambda: format(3, "q"),
        ):
            try:
                action()
            except Exception as error:
                messages.append(f"{type(error).__name__}: {error}")
        return x + 1, messages

    check(f)


def test_string_module() -> None:
    def f(x):
        return x + 1, string.ascii_lowercase, string.digits, string.capwords("a b")

    check(f)


def test_string_template() -> None:
    def f(x):
        return x + 1, string.Template("$a b").substitute(a=1)

    check(f, fullgraph=False, entries=None)


def test_str_join_of_generator() -> None:
    def f(x, items):
        return x + 1, ",".join(str(i) for i in items), "".join(map(str, items))

    check(f, lambda: (x(), [1, 2]))


# Numbers


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: (a + b, a - b, a * b, a / b, a // b, a % b, a**b, divmod(a, b), -a, +a, abs(-a)),
        lambda a, b: (a < b, a <= b, a == b, a != b, a > b, a >= b, a and b, a or b, not a),
        lambda a, b: (
            round(a / b, 2),
            round(2.5),
            round(-1.5),
            int(2.9),
            float(a),
            complex(a, b),
            bool(a),
            pow(a, b, 7),
        ),
        lambda a, b: (
            a & b,
            a | b,
            a ^ b,
            ~a,
            a << b,
            a >> 1,
            a.bit_length(),
            (5).to_bytes(2, "big"),
            (2.5).is_integer(),
        ),
        lambda a, b: (
            math.sqrt(a),
            math.sin(a),
            math.floor(2.5),
            math.ceil(2.5),
            math.log(a),
            math.exp(b),
            math.pow(a, b),
        ),
        lambda a, b: (
            math.gcd(a, b),
            math.prod([a, b]),
            math.isclose(a, b),
            math.inf > a,
            math.isnan(math.nan),
            math.hypot(a, b),
        ),
        lambda a, b: (
            math.factorial(a),
            math.comb(a, b),
            math.fsum([a, b]),
            math.trunc(2.7),
            math.copysign(a, -1),
            math.log2(a),
        ),
        lambda a, b: (
            min(a, b),
            max(a, b),
            sum([a, b]),
            (2.5).hex(),
            (2.5).as_integer_ratio(),
            (1 + 2j).conjugate(),
            (1j).imag,
        ),
        lambda a, b: (
            True + a,
            True & False,
            isinstance(True, int),
            int(True),
            float("nan") != float("nan"),
            1e308 * 10,
        ),
    ],
    ids=range(9),
)
def test_numbers(call: Any) -> None:
    def f(x, a, b):
        return x * a, call(a, b)

    check(f, lambda: (x(), 5, 2))


def test_number_errors() -> None:
    def f(x, zero):
        messages = []
        for action in (
            lambda: 1 / zero,
            lambda: 1 % zero,
            lambda: 1.0 // zero,
            lambda: math.sqrt(-1),
            lambda: 1 + "a",
            lambda: 1 << -1,
            lambda: math.log(zero),
            lambda: int(math.inf),
            lambda: [] < 1,
            lambda: -"a",
        ):
            try:
                action()
            except Exception as error:
                messages.append(f"{type(error).__name__}: {error}")
        return x + 1, messages

    check(f, lambda: (x(), 0))


def test_operator_module() -> None:
    def f(x, items, table):
        operator.setitem(items, 0, x)
        operator.delitem(table, "k")
        return (
            operator.add(x, 1),
            operator.mul(2, 3),
            operator.getitem(items, 1),
            operator.itemgetter(1, 2)(items),
            operator.itemgetter("a")(table),
            operator.contains([1, 2], 2),
            operator.not_(0),
            operator.is_(x, x),
            operator.iadd(items, [4]) is items,
            operator.concat([1], [2]),
            operator.neg(x),
            operator.lt(1, 2),
            operator.methodcaller("sum")(x),
            operator.attrgetter("shape")(x),
            operator.countOf([1, 1], 1),
            operator.indexOf([1, 2], 2),
            operator.length_hint([1]),
            operator.truth([]),
            operator.matmul(x, x.t()),
        )

    check(f, lambda: (x(), [1, 2, 3], {"a": 1, "k": 2}))


# itertools


@pytest.mark.parametrize(
    "call",
    [
        lambda a, x: (list(itertools.chain(a, [x])), list(itertools.chain.from_iterable([a, a]))),
        lambda a, x: (list(itertools.islice(itertools.count(3), 3)), list(itertools.islice(a, 1, None, 2))),
        lambda a, x: [i for i, _ in zip(itertools.cycle(a), range(7), strict=False)],
        lambda a, x: list(itertools.repeat(x, 2)),
        lambda a, x: list(itertools.accumulate(a)) + list(itertools.accumulate([x, x], operator.mul, initial=1)),
        lambda a, x: (list(itertools.compress(a, [1, 0, 1])), list(itertools.dropwhile(lambda i: i < 2, a))),
        lambda a, x: (list(itertools.takewhile(lambda i: i < 2, a)), list(itertools.filterfalse(lambda i: i % 2, a))),
        lambda a, x: [(k, list(g)) for k, g in itertools.groupby("aabbb")],
        lambda a, x: [(k, list(g)) for k, g in itertools.groupby([1, 3, 2], key=lambda i: i % 2)],
        lambda a, x: list(itertools.starmap(lambda p, q: p * q, [(1, x), (2, 3)])),
        lambda a, x: [list(t) for t in itertools.tee(a, 2)],
        lambda a, x: (list(itertools.zip_longest(a, [x], fillvalue=0)), list(itertools.pairwise(a))),
        lambda a, x: (list(itertools.product(a, "ab")), list(itertools.product([0, 1], repeat=2))),
        lambda a, x: (list(itertools.permutations(a, 2)), list(itertools.combinations(a, 2))),
        lambda a, x: list(itertools.combinations_with_replacement(a, 2)),
    ],
    ids=[
        "chain",
        "islice",
        "cycle",
        "repeat",
        "accumulate",
        "compress",
        "takewhile",
        "groupby",
        "groupby key",
        "starmap",
        "tee",
        "zip_longest",
        "product",
        "permutations",
        "with_replacement",
    ],
)
def test_itertools(call: Any) -> None:
    def f(x, a):
        return call(a, x), x + 1

    check(f, lambda: (x(), [1, 2, 3]))


def test_itertools_side_effects_happen_lazily() -> None:
    def f(x, log):
        def noisy(i):
            log.append(i)
            return x * i

        lazy = itertools.chain(map(noisy, [1, 2]), map(noisy, [3, 4]))
        first = next(lazy)
        log.append("between")
        return first, next(lazy), next(lazy)

    check(f, lambda: (x(), []))


# copy


@dataclasses.dataclass
class Tree:
    value: Any
    children: list[Any]


class Copied:
    def __init__(self) -> None:
        self.count = 0
        self.items = [1]

    def __copy__(self) -> Copied:
        made = Copied()
        made.count = self.count + 1
        return made

    def __deepcopy__(self, memo: Any) -> Copied:
        made = Copied()
        made.items = copy.deepcopy(self.items, memo)
        made.count = 100
        return made


def test_copy() -> None:
    def f(x, items, tree):
        shallow = copy.copy(items)
        shallow.append(x)
        twin = copy.copy(tree)
        return shallow, twin, twin.children is tree.children, copy.copy((1, 2)), copy.copy({"a": items}), copy.copy({1})

    check(f, lambda: (x(), [1, [2]], Tree(1, [2])))


def test_deepcopy() -> None:
    def f(x, items, tree):
        deep = copy.deepcopy(items)
        deep[1].append(3)
        deep_tree = copy.deepcopy(tree)
        return deep, items, deep_tree, deep_tree.children is tree.children, x + 1, copy.deepcopy({"a": (1, [2])})

    check(f, lambda: (x(), [1, [2]], Tree(1, [Tree(2, [])])))


def test_deepcopy_keeps_sharing_and_cycles() -> None:
    def f(x):
        inner = [1]
        both = [inner, inner]
        both.append(both)
        deep = copy.deepcopy(both)
        return deep[0] is deep[1], deep[2] is deep, deep[0] is inner, x + 1

    check(f)


def test_copy_hooks() -> None:
    def f(x, c):
        return copy.copy(c), copy.deepcopy(c), copy.deepcopy([c, c]), x + 1

    check(f, lambda: (x(), Copied()))


def test_deepcopy_of_tensors() -> None:
    def f(x, items):
        deep = copy.deepcopy(items)
        return deep, x + deep[0]

    check(f, lambda: (x(), [x()]), fullgraph=False, entries=None)


# heapq, bisect, statistics, random, re


def test_heapq() -> None:
    def f(x, heap):
        heapq.heapify(heap)
        heapq.heappush(heap, 0)
        small = heapq.heappop(heap)
        replaced = heapq.heapreplace(heap, 7)
        return (
            x * small,
            replaced,
            heap,
            heapq.nlargest(2, heap),
            heapq.nsmallest(2, heap, key=lambda i: -i),
            heapq.heappushpop(heap, 1),
            list(heapq.merge([1, 4], [2, 3])),
        )

    check(f, lambda: (x(), [5, 3, 8, 1]))


def test_heapq_with_tuples() -> None:
    def f(x):
        heap = []
        for priority, name in [(3, "c"), (1, "a"), (2, "b")]:
            heapq.heappush(heap, (priority, name, x))
        return [heapq.heappop(heap)[1] for _ in range(3)]

    check(f)


def test_bisect() -> None:
    def f(x, items):
        bisect.insort(items, 4)
        bisect.insort_left(items, 1)
        return (
            x + bisect.bisect(items, 3),
            bisect.bisect_left(items, 3),
            bisect.bisect_right([1, 2], 9),
            items,
            bisect.bisect([(1, "a"), (3, "b")], 2, key=lambda p: p[0]),
        )

    check(f, lambda: (x(), [1, 3, 5]))


def test_statistics() -> None:
    def f(x, items):
        return x * statistics.mean(items), statistics.median(items)

    check(f, lambda: (x(), [1, 2, 4]), fullgraph=False, entries=None)


def test_random_module() -> None:
    def f(x):
        y = x + 1
        value = random.random()
        choice = random.choice([1, 2, 3])
        items = [1, 2, 3, 4]
        random.shuffle(items)
        return y * value, choice, items, random.randint(1, 100)

    def seeded() -> tuple[Any, ...]:
        random.seed(3)
        return (x(),)

    check(f, seeded, fullgraph=False, entries=None, state=random.random)


def test_regular_expressions() -> None:
    pattern = re.compile(r"(\w)(\d+)")

    def f(x, text):
        y = x + 1
        found = pattern.match(text)
        if found:
            y = y * int(found.group(2))
        return y, re.sub(r"\d", "#", text), [m.group(1) for m in pattern.finditer(text)], re.findall(r"\d+", text)

    check(f, lambda: (x(), "a12 b3"), fullgraph=False, entries=None)


# NumPy scalars and functions of Python numbers


def test_numpy_functions_of_numbers() -> None:
    def f(x, n, v):
        k = round(np.floor(v * n))
        return (
            x * k,
            np.ceil(v),
            int(np.sqrt(n)),
            np.sin(v),
            np.prod([n, 2]),
            np.log2(8),
            np.maximum(n, 2),
            np.abs(-v),
            float(np.float32(v)),
            np.float64(v) * 2,
            np.int64(n) + 1,
            np.pi,
            np.isnan(v),
            np.sign(-v),
        )

    check(f, lambda: (x(), 4, 2.7))


def test_numpy_scalars_from_outside() -> None:
    def f(x, s, n):
        return (
            x * float(s),
            int(n),
            s + 1,
            s.item(),
            n.dtype,
            isinstance(s, np.floating),
            s > 1,
            n // 2,
            round(s),
            s.astype(int),
        )

    check(f, lambda: (x(), np.float64(2.5), np.int32(7)))


def test_numpy_dtypes() -> None:
    def f(x):
        return x + 1, np.dtype("float32").itemsize, np.float32 is np.dtype("float32").type, np.finfo(np.float32).eps > 0

    check(f, fullgraph=False, entries=None)


def test_numpy_mean_of_list() -> None:
    def f(x, items):
        return x * float(np.mean(items)), int(np.argmax(items)), np.cumsum(items).tolist()

    check(f, lambda: (x(), [1, 2, 3]), fullgraph=False, entries=None)


# Builtins


def test_builtin_functions() -> None:
    def f(x, items):
        return (
            abs(-3),
            all(items),
            any([]),
            bin(3),
            bool([]),
            callable(len),
            chr(97),
            divmod(7, 2),
            list(enumerate(items)),
            list(filter(None, [0, 1])),
            float("2.5"),
            format(3, "03"),
            getattr(items, "append") is not None,
            hash("a") == hash("a"),  # noqa: B009
            hex(17),
            int("3"),
            isinstance(items, list),
            issubclass(int, object),
            list(iter(items)),
            len(items),
            list(map(lambda a, b: a + b, items, items)),
            max(items),
            min(items),
            next(iter(items)),
            oct(9),
            ord("a"),
            pow(2, 3),
            list(range(3)),
            repr(items),
            list(reversed(items)),
            round(2.567, 1),
            sorted(items, reverse=True),
            str(items),
            sum(items),
            tuple(items),
            type(items),
            list(zip(items, items, strict=True)),
            slice(1, 2),
            x + 1,
        )

    check(f, lambda: (x(), [1, 2, 3]))


def test_iter_with_sentinel() -> None:
    def f(x, items):
        return [x * i for i in iter(items.pop, 1)], items

    check(f, lambda: (x(), [5, 1, 2, 3]))


def test_zip_and_map_forms() -> None:
    def f(x):
        try:
            list(zip([1], [1, 2], strict=True))
        except ValueError as error:
            message = str(error)
        return (
            message,
            list(zip()),
            list(map(max, [1, 5], [3, 2])),
            dict(zip("ab", [x, 1], strict=False)),
            list(zip(*[(1, 2), (3, 4)], strict=True)),
        )

    check(f)


def test_type_conversions_of_containers() -> None:
    def f(x, items):
        return (
            set(items) == {1, 2},
            frozenset(items) == {1, 2},
            tuple(items),
            dict(enumerate(items)),
            str(tuple(items)),
            x + 1,
            collections.OrderedDict.fromkeys(items, x),
            bytes(items),
            sorted(items, key=lambda i: -i),
        )

    check(f, lambda: (x(), [1, 2]))


def test_torch_size_and_python() -> None:
    def f(x):
        a, b = x.shape
        size = x.size()
        return (
            x.reshape(b, a),
            size[0] * 2,
            len(size),
            list(size),
            tuple(size),
            size == (2, 3),
            size + (1,),
            size.numel(),
            isinstance(size, tuple),
            size[1:],
            3 in size,
            math.prod(size),
            x.shape[-1] ** 2,
            f"{size}",
            max(size),
            str(size),
        )

    check(f)


def test_assert_and_conditionals() -> None:
    def f(x, n):
        assert n > 0, f"n is {n}"
        y = x if n == 1 else x * n
        assert isinstance(y, torch.Tensor)
        return y if 0 < n < 5 else -y

    check(f, lambda: (x(), 3))
    check(f, lambda: (x(), -3))
    check(f, lambda: (x(), 7))
