"""The operator module, copy, and identity."""

import copy
import operator
from operator import attrgetter, itemgetter, methodcaller

import torch

from . import given


def operator_functions(x):
    return (
        operator.add(x, 1),
        operator.floordiv(7, 2),
        operator.truth([]),
        operator.is_not(1, None),
        operator.contains([1], 1),
        operator.concat([1], [2]),
    )


def table_of_operators(x):
    table = {"+": operator.add, "-": operator.sub, "*": operator.mul, "@": operator.matmul, "**": operator.pow}
    out = {}
    for symbol, function in table.items():
        out[symbol] = function(x, x.T) if symbol == "@" else function(x, 2)
    return out


def item_getter(x):
    inventory = [("apple", 3), ("banana", 2), ("pear", 5), ("orange", 1)]
    getcount = itemgetter(1)
    return (
        x * sum(map(getcount, inventory)),
        sorted(inventory, key=getcount),
        itemgetter(2, 0)("ABC"),
        itemgetter(slice(1, None))("ABC"),
    )


def attr_getter(x):
    return attrgetter("shape")(x), attrgetter("dtype", "ndim")(x), attrgetter("shape.__class__")(x) is torch.Size


def method_caller(x):
    return methodcaller("sum", 0)(x), methodcaller("split", ",", maxsplit=1)("a,b,c"), methodcaller("mean", dim=1)(x)


def in_place_operators(x):
    a = [1]
    b = operator.iadd(a, [2])
    c = operator.imul("ab", 2)
    return x, a is b, b, c, operator.ixor(5, 1)


def item_operators(x):
    d = {"a": 1, "b": 2}
    operator.setitem(d, "c", x)
    operator.delitem(d, "a")
    return (
        d,
        operator.getitem(d, "b"),
        operator.indexOf([3, 4], 4),
        operator.countOf([1, 1, 2], 1),
        operator.length_hint([1, 2]),
    )


def comparisons(x):
    return (
        x,
        operator.lt(1, 2),
        operator.eq("a", "a"),
        operator.not_(0),
        operator.index(True),
        operator.inv(5),
        operator.neg(3),
    )


def shallow_copy(x):
    inner = [1, 2]
    a = [inner, x]
    b = copy.copy(a)
    b[0].append(3)
    b.append(4)
    return a, b, a[0] is b[0], b[1] is x


def deep_copy(x):
    a = {"list": [1, [2]], "tuple": (1, [2]), "set": {1}}
    b = copy.deepcopy(a)
    b["list"][1].append(3)
    b["tuple"][1].append(4)
    return x, a, b, a["set"] is b["set"]


def deep_copy_keeps_aliases(x):
    shared = [1]
    a = [shared, shared]
    b = copy.deepcopy(a)
    b[0].append(2)
    return x, b, b[0] is b[1], a


class _Node:
    def __init__(self, value, parent=None):
        self.value = value
        self.parent = parent
        self.children = []

    def add(self, value):
        child = _Node(value, self)
        self.children.append(child)
        return child


def deep_copy_of_graph(x):
    root = _Node(1)
    root.add(2).add(3)
    other = copy.deepcopy(root)
    other.children[0].value = 20
    return x, root.children[0].value, other.children[0].value, other.children[0].parent is other


class _Custom:
    def __init__(self, n):
        self.n = n

    def __copy__(self):
        return _Custom(self.n + 1)

    def __deepcopy__(self, memo):
        return _Custom(self.n + 100)


def copy_methods(x):
    c = _Custom(1)
    return x * copy.copy(c).n, copy.deepcopy(c).n, copy.deepcopy([c])[0].n


def deep_copy_of_tensor(x):
    y = copy.deepcopy(x)
    z = copy.copy(x)
    y.add_(1)
    return x, y, z is x


def copy_of_objects(x):
    o = _Node(x)
    p = copy.copy(o)
    p.value = x + 1
    return o.value, p.value, o.children is p.children, type(p) is _Node


def list_copies(x):
    a = [1, [2]]
    return x, a.copy() == a[:] == list(a), a.copy()[1] is a[1], copy.copy((1, 2)), copy.copy({1: 2}), copy.copy(None)


def identity_of_results(x):
    y = x + 1
    pair = (y, y)
    same = [y]
    return pair, same, pair[0] is same[0], y is not x


@given(lambda: ({"a": [1, 2]}, [3]))
def copies_of_arguments(x, d, numbers):
    e = copy.deepcopy(d)
    e["a"].append(numbers)
    f = copy.copy(d)
    f["b"] = x
    return e, f, e["a"][-1] is numbers


def attribute_getters_on_objects(x):
    o = _Node(_Node(x))
    return attrgetter("value.value")(o), attrgetter("value.children", "parent")(o)


def hashes_and_bool(x):
    return (
        x,
        operator.and_(6, 3),
        operator.or_(6, 3),
        operator.xor(True, False),
        operator.lshift(1, 4),
        operator.mod(-7, 3),
        operator.abs(-1),
    )
