"""Calls that Python refuses, and special methods whose results it refuses: compiled code raises the same."""

from __future__ import annotations

import collections
import functools
import itertools
import math
import operator
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import x
from firesteel.capture.call_signatures import Accepted, accepted_by

NAMES = {"collections": collections, "functools": functools, "itertools": itertools, "math": math,
         "operator": operator, "torch": torch}


class Odd:
    """An object with one special method that returns what it was told to."""

    def __init__(self, result: Any = None) -> None:
        self.result = result


def odd(name: str, result: Any) -> Odd:
    return type("Odd", (Odd,), {name: lambda self, *args: self.result})(result)


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def compare(expression: str, *args: Any, caught: bool = False) -> None:
    """Evaluate an expression of `x` (a tensor), `n` (a number) and `o` plain and compiled."""
    if caught:
        text = f"def fn(x, n, o):\n    try:\n        return ({expression})\n    except Exception as e:\n        "
        text += "return type(e), str(e), x + 1\n"
    else:
        text = f"def fn(x, n, o):\n    y = x + 1\n    return ({expression}), y\n"
    scope: dict[str, Any] = dict(NAMES)
    exec(text, scope)
    expected, found = outcome(scope["fn"], *args), outcome(fs.compile(scope["fn"]), *args)
    assert repr(found) == repr(expected)


WRONG = """
abs() | abs(1, 2) | abs(n, key=1) | all() | any([1], [2]) | bool(1, 2) | bool(x=1) | callable() | divmod(1)
dict([], []) | dict([3, 1]) | enumerate() | enumerate([1], step=2) | enumerate([1], 1.5) | filter(None)
filter(None, [1], key=2) | float(1, 2) | frozenset([1], [2]) | getattr(o) | getattr(o, 5) | hasattr(o, 1)
getattr(o, 'a', 1, 2) | hash() | hash(1, 2) | int(1, 2, 3) | isinstance(1) | isinstance(x, True) | issubclass(int)
iter() | iter(5, 5) | iter('a', 'b') | len() | len([1], 2) | len(obj=[1]) | list([1], 2) | list(iterable=[1])
map(len) | map(len, [[1]], strict=True) | max() | max([1, 2], end=3) | min([], key=None, other=1) | next() | next(1)
pow(2) | range() | range(1, 2, 3, 4) | range(stop=3) | repr() | reversed() | reversed([1], 2) | round() | set(1, 2)
slice() | slice(1, step=2) | sorted([2, 1], None) | sorted() | str('a', 'b', 'c', 'd') | sum() | sum([1], 2, 3)
sum([1], base=2) | tuple([1], [2]) | type(1, self=2) | zip([1], key=2) | collections.deque([1], 2, 3)
collections.defaultdict(5) | functools.partial(1) | functools.partial() | functools.reduce(len)
itertools.chain([1], key=2) | itertools.count('a') | itertools.product([1], start=2) | operator.add(1)
operator.add(1, 2, 3) | operator.itemgetter() | operator.not_() | operator.iand(n, '') | math.fabs(n, 1)
math.sqrt() | [1].append() | [1].append(1, 2) | [1].append(object=1) | [1].pop(1, 2) | [1].extend() | [2, 1].sort(1)
[2, 1].sort(order=1) | [1].index() | [1].index(o) | [1].index(1, 'a') | [1].insert(1) | [1].copy(1) | (1,).count()
(1,).count(1, 2) | {}.get() | {}.get(1, 2, 3) | {}.pop() | {}.pop(1, 2, 3) | {}.keys(1) | {}.update([], [])
{1: 2}.clear(1) | {}.setdefault() | {1: 2}.popitem(1) | {1}.add() | {1}.union(1) | {1}.isdisjoint() | {1}.pop(1)
'a'.split(1, 2, 3) | 'a'.join() | 'a'.join(1, 2) | 'a'.startswith() | n.conjugate(1) | (5).__ceil__(1)
list.append() | list.append([1]) | set.pop(n) | dict.get({}) | dict.fromkeys() | collections.deque([1]).pop(1)
collections.deque([1]).append() | [1] + o | o + [1] | len(*5) | len(*[[1]], *5) | len(**{1: 2}) | len([1], **{'a': 1})
(lambda a: a)(a=1, **{'a': 2}) | n(**{1: 2}) | int(1, 2, **{1: 2}) | (3).__pow__(**{1: 2}) | {1}.union(1, **{1: 2})
sum('ab', 'c') | sum([], b'') | divmod(x, 2) | divmod(2, x) | operator.iconcat(x, 2) | operator.imatmul(n, 2.5)
[].pop('a') | (1,).index(1, None) | [1].insert('a', 1) | [1].__format__('a') | range(3).__format__(2.5) | ','.join(n)
collections.deque([1]).__init__([], 1, 2) | collections.deque([], [1]) | collections.deque([], -1)
[1].__init__(iterable=2) | collections.OrderedDict().update('ab') | x.size(0, 1) | x.size(True) | x.size(1, real=2)
"""
WRONG_CALLS = [text.strip() for line in WRONG.strip().splitlines() for text in line.split(" | ")]


@pytest.mark.parametrize("expression", WRONG_CALLS)
def test_a_call_that_python_refuses(expression: str) -> None:
    compare(expression, x(), 3, object(), caught=len(expression) % 2 == 0)


REFUSED = [
    ("__bool__", 1.0, "bool(o)"), ("__bool__", None, "1 if o else 2"), ("__bool__", 1, "not o"),
    ("__len__", -1, "len(o)"), ("__len__", 2.0, "len(o)"), ("__len__", True, "len(o)"), ("__len__", 10**30, "bool(o)"),
    ("__iter__", 5, "list(o)"), ("__iter__", [1], "[v for v in o]"), ("__iter__", [1], "1 in o"),
    ("__iter__", None, "(lambda *a: a)(*o)"), ("__hash__", 1.5, "hash(o)"), ("__hash__", None, "{1: 2}.get(o)"),
    ("__hash__", -1, "hash(o)"), ("__hash__", 10**30, "hash(o)"), ("__index__", 1.0, "operator.index(o)"),
    ("__index__", "a", "[1, 2][o]"), ("__int__", 1.5, "int(o)"), ("__float__", 1, "float(o)"),
    ("__complex__", 1, "complex(o)"), ("__str__", 1, "str(o)"), ("__str__", b"a", "f'{o}'"),
    ("__repr__", b"a", "repr(o)"), ("__format__", None, "format(o, 'd')"), ("__pow__", NotImplemented, "pow(o, 2, 3)"),
    ("__reversed__", 5, "list(reversed(o))"), ("__contains__", 2, "1 in o"),
]


@pytest.mark.parametrize(("name", "result", "expression"), REFUSED)
def test_a_special_method_with_a_result_that_python_refuses(name: str, result: Any, expression: str) -> None:
    compare(expression, x(), 3, odd(name, result), caught=True)


@pytest.mark.parametrize(("name", "expression"), [
    ("__reversed__", "list(reversed(o))"), ("__bool__", "bool(o)"), ("__len__", "len(o)"), ("__iter__", "list(o)"),
    ("__contains__", "1 in o"), ("__hash__", "hash(o)"), ("__next__", "next(o)"), ("__add__", "o + 1"),
    ("__index__", "[1, 2][o]"), ("__call__", "o()"), ("__radd__", "1 + o"), ("__radd__", "[1] + o"),
    ("__rdivmod__", "divmod(1, o)"), ("__iadd__", "operator.iadd(o, 1)"), ("__lt__", "o < 1"),
])
def test_a_special_method_that_is_none(name: str, expression: str) -> None:
    compare(expression, x(), 3, type("Odd", (), {name: None, "__getitem__": lambda self, key: [1, 2][key]})())


def test_full_graphs_may_raise_what_python_raises() -> None:
    with pytest.raises(TypeError, match="exactly one argument"):
        fs.compile(lambda x: (x + 1, abs(1, 2)), fullgraph=True)(x())  # type: ignore[call-arg]


def test_arguments_by_name_reach_their_position() -> None:
    for expression in ("list(enumerate(iterable=[1], start=n))", "sum([1], start=n)", "pow(base=n, exp=2)",
                       "round(number=2.567, ndigits=n)", "collections.deque(iterable=[1, 2], maxlen=1)",
                       "complex(imag=2)", "int('12', base=n)"):
        compare(expression, x(), 3, None)


def test_a_length_that_no_list_has() -> None:
    for length in (10**30, 10**17):
        long = type("Long", (dict,), {"__len__": lambda self, length=length: length})()
        compare("list(o)", x(), 3, long, caught=True)


def test_counting_from_truth_values() -> None:
    for step in ("1", "0", "True", "2", "0.5", "n"):
        compare(f"[v for v, _ in zip(itertools.count(True, {step}), range(3))]", x(), 3, None)


def test_what_is_known_of_callables() -> None:
    assert accepted_by(list.append) == Accepted(("$self", "object"), 2, 2, False, frozenset(), frozenset(), False)
    takes_sorted = accepted_by(sorted)
    assert takes_sorted is not None
    assert takes_sorted.fits(1, {"key": None}) and not takes_sorted.fits(2, {}) and not takes_sorted.fits(1, {"a": 1})
    assert accepted_by(Odd) is None and accepted_by(type) is None


@pytest.mark.parametrize("o", ["a", 1.5, [1], (1,), None], ids=repr)
@pytest.mark.parametrize("expression", [
    "[1] * o", "[1].__mul__(o)", "[1].__imul__(o)", "operator.imul([1], o)", "(1,) + o", "torch.Size([2]) + o",
    "operator.concat(range(2), o)", "'b' * o", "collections.deque([1]).__imul__(o)", "torch.Size([2]).__imul__(o)",
    "format(x.shape, o)", "collections.deque([1]).nothing", "operator.setitem('abc', x, o)",
    "collections.defaultdict(list, o, o)",
])
def test_words_about_sequences(expression: str, o: Any) -> None:
    compare(expression, x(), 3, o, caught=True)


class Raising:
    """A mapping whose items cannot be read."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def keys(self) -> list[str]:
        return ["a", "self"]

    def __getitem__(self, key: str) -> Any:
        raise self.error


class RaisingDict(collections.OrderedDict[str, int]):
    def keys(self) -> Any:
        return ["a"]


@pytest.mark.parametrize("mapping", [
    Raising(KeyError("a")), Raising(KeyError("a", 2)), Raising(AttributeError("b")), RaisingDict(b=1), None, {"b": 1},
], ids=["KeyError", "two", "AttributeError", "dict", "none", "twice"])
def test_a_mapping_behind_two_stars_that_raises(mapping: Any) -> None:
    compare("dict(**o)", x(), 3, mapping, caught=True)
    compare("dict(b=1, **o)", x(), 3, mapping, caught=True)


def test_words_about_methods_of_tensors() -> None:
    def function(v: torch.Tensor) -> tuple[torch.Tensor, str]:
        try:
            v.sin(1)  # type: ignore[call-arg]
        except TypeError as error:
            return v + 1, str(error)
        return v, ""

    assert fs.compile(function, fullgraph=True)(x())[1] == function(x())[1] != ""
