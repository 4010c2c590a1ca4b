"""Dictionaries and their views, from the library reference's mapping types."""

import torch

from . import given


def many_constructors(x):
    a = dict(one=1, two=2)
    b = dict(zip(["one", "two"], [1, 2]))
    c = dict([("two", 2), ("one", 1)])
    d = dict({"one": 1}, two=2)
    return x * a["one"], a == b == c == d, list(c), d | {"three": x}


def views_are_live(x):
    dishes = {"eggs": 2, "sausage": 1, "bacon": 1}
    keys, values = dishes.keys(), dishes.values()
    n = 0
    for value in values:
        n += value
    del dishes["eggs"]
    return x + n, list(keys), list(values), keys & {"eggs", "bacon"}, keys ^ {"juice", "sausage"} == {"juice", "bacon"}


def reversed_views(x):
    d = {"one": 1, "two": 2, "three": 3}
    return x, list(reversed(d)), list(reversed(d.values())), list(reversed(d.items()))


def key_error(x):
    d = {"a": x}
    try:
        d["b"]
    except KeyError as error:
        return error.args, str(error), d.get("b"), d.get("b", 1)


def missing_method(x):
    class Counter(dict):
        def __missing__(self, key):
            return 0

    c = Counter()
    c["red"] += 1
    c["blue"]
    return x + c["red"], c, type(c).__name__


def setdefault_and_pop(x):
    d = {}
    d.setdefault("k", []).append(x)
    d.setdefault("k", []).append(x + 1)
    popped = d.pop("missing", None)
    try:
        d.pop("missing")
    except KeyError as error:
        return d, popped, repr(error)


def popitem_order(x):
    d = {i: i * i for i in range(4)}
    last = d.popitem()
    d[0] = "first"
    out = []
    while d:
        out.append(d.popitem())
    try:
        d.popitem()
    except KeyError as error:
        out.append(str(error))
    return x + last[1], out


def update_forms(x):
    d = {"a": 1}
    d.update(b=2)
    d.update([("c", x)])
    d.update({"a": 3}, d=4)
    d |= {"e": 5}
    d |= [("f", 6)]
    return d


def comprehension_and_unpack(x):
    squares = {n: x * n for n in (2, 4, 6)}
    merged = {**squares, "z": 1, **{"y": 2}}
    inverse = {v: k for k, v in {"a": 1, "b": 2}.items()}
    return merged, inverse


def changed_size_during_iteration(x):
    d = {"a": 1, "b": 2}
    try:
        for key in d:
            d[key + "!"] = 1
    except RuntimeError as error:
        return x, str(error)


def tuple_and_number_keys(x):
    d = {(0, 1): x, 1: "int", 1.5: "float", None: "none", True: "bool"}
    return d, d[1.0], len(d), (0, 1) in d


def unhashable_key(x):
    try:
        {[1]: 2}
    except TypeError as error:
        return x, str(error)


def from_keys(x):
    d = dict.fromkeys("abc", 0)
    e = dict.fromkeys([1, 2])
    return x, d, e


def items_set_operations(x):
    a = {"x": 1, "y": 2}
    b = {"y": 2, "z": 3}
    return x + len(a.items() & b.items()), sorted(a.keys() | b.keys()), sorted(a.keys() - b.keys())


def nested_defaults(x):
    tree = {}
    for path, value in [("a.b", 1), ("a.c", 2), ("d.e", 3)]:
        node = tree
        *parents, leaf = path.split(".")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = x * value
    return tree


@given(lambda: ({"w": 2.0, "names": []},))
def mutate_argument(x, state):
    state["w"] *= 2
    state["names"].append("first")
    state["result"] = x * state["w"]
    return state.keys()


def order_after_delete(x):
    d = {"a": 1, "b": 2, "c": 3}
    del d["a"]
    d["a"] = x
    return list(d), len(d)


def dict_equality_and_in(x):
    d = {"a": [1, 2]}
    e = {"a": [1, 2]}
    return x * (d == e), d != {}, "a" in d, "b" not in d, d.items() == e.items()


def keyword_call_from_dict(x):
    def call(*, scale, shift=0, **rest):
        return x * scale + shift, rest

    return call(**{"scale": 2, "extra": 1}), call(**dict(scale=3), shift=1)


def grouped_tensors(x):
    groups = {}
    for i, row in enumerate(torch.cat([x, x + 1])):
        groups.setdefault("even" if i % 2 == 0 else "odd", []).append(row)
    return {k: torch.stack(v).sum(0) for k, v in groups.items()}
