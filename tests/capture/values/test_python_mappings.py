"""Dictionaries, sets and the classes of `collections` under capture: methods, order, aliasing, iteration, mutation."""

from __future__ import annotations

import collections
from typing import Any

import torch

from capture.differential import check, x

# Dictionaries


def test_dict_methods() -> None:
    def f(x, d):
        d["new"] = x + 1
        d.update({"a": 10}, z=1)
        d.update([("q", 2)])
        popped = d.pop("b")
        default = d.pop("none", "default")
        s1, s2 = d.setdefault("a", 0), d.setdefault("fresh", x)
        item = d.popitem()
        copied = d.copy()
        d |= {"m": 3}
        return (
            popped,
            default,
            s1,
            s2,
            item,
            copied,
            list(d.keys()),
            list(d.values()),
            list(d.items()),
            "a" in d,
            len(d),
            d.get("a"),
            d.get("no"),
            d.get("no", 5),
            d | {"a": 1},
            bool(d),
            list(reversed(d)),
        )

    check(f, lambda: (x(), {"a": 1, "b": 2}))


def test_dict_order_after_reinsertion() -> None:
    def f(x, d):
        value = d.pop("a")
        d["a"] = value
        d["b"] = x
        del d["c"]
        d["c"] = 1
        return d

    check(f, lambda: (x(), {"a": 1, "b": 2, "c": 3}))


def test_dict_order_of_new_and_old_keys() -> None:
    def f(x, d):
        d["z"] = 1
        d["a"] = x + 1
        d["y"] = 2
        return x * 2

    check(f, lambda: (x(), {"b": 1, "a": 2}))


def test_dict_clear_then_fill() -> None:
    def f(x, d):
        d.clear()
        d["k"] = x + 1
        return len(d)

    check(f, lambda: (x(), {"b": 1, "a": 2}))


def test_dict_views() -> None:
    def f(x, d):
        keys, items = d.keys(), d.items()
        d["late"] = x
        return (
            list(keys),
            len(items),
            "late" in keys,
            ("a", 1) in items,
            keys & {"a"},
            keys | {"k"},
            keys - {"a"},
            keys ^ {"a"},
            keys == {"a", "late"},
            sorted(keys),
            keys.isdisjoint({"q"}),
            keys <= {"a", "late", "z"},
        )

    check(f, lambda: (x(), {"a": 1}))


def test_dict_iteration_with_mutation_raises() -> None:
    def f(x, d):
        try:
            for key in d:
                d[key + "!"] = 1
        except RuntimeError as error:
            return x + 1, str(error), d

    check(f, lambda: (x(), {"a": 1}))


def test_dict_values_may_change_while_iterating() -> None:
    def f(x, d):
        for key in d:
            d[key] = x * d[key]
        for key, value in d.items():
            d[key] = value + 1
        return d

    check(f, lambda: (x(), {"a": 1, "b": 2}))


def test_dict_key_errors() -> None:
    def f(x, d):
        messages = []
        for action in (
            lambda: d["no"],
            lambda: d.pop("no"),
            lambda: {}.popitem(),
            lambda: d[1, 2],
            lambda: {[]: 1},
            lambda: d.__delitem__("q"),
        ):
            try:
                action()
            except (KeyError, TypeError) as error:
                messages.append(repr(error))
        return x + 1, messages

    check(f, lambda: (x(), {"a": 1}))


def test_dict_keys_of_many_types() -> None:
    def f(x, d):
        d[1.0] = "float replaces int"
        d[True] = "and bool"
        d[(1, "a")] = x
        d[None] = 0
        d[torch.float32] = 4
        d[int] = 5
        d[frozenset({1})] = 6
        return d[1], list(d), d[(1, "a")] + 1, d[int]

    check(f, lambda: (x(), {1: "one"}))


def test_dict_keyed_by_tensors_and_objects() -> None:
    def f(x, y):
        table = {x: 1, y: 2}
        return table[x] + table[y], x in table, (x + 1) in table, x + 1

    check(f, lambda: (x(), x()))


def test_dict_keyed_by_outside_tensors() -> None:
    def f(x, table):
        return table[x] * x

    def keyed() -> tuple[Any, ...]:
        t = x()
        return t, {t: 3}

    check(f, keyed)


def test_dict_from_forms() -> None:
    def f(x):
        return (
            dict(a=1, b=x),
            dict([("a", 1)], c=2),
            dict({"q": 1}),
            {k: v for k, v in zip("ab", [1, x], strict=True)},
            dict.fromkeys("ab", 0),
            dict(zip("ab", range(2), strict=True)),
            {**{"a": 1}, **{"a": 2}},
        )

    check(f)


def test_dict_equality() -> None:
    def f(x, d):
        return x + 1, d == {"b": 2, "a": 1}, d != {"a": 1}, d == 3, {} == [], {"a": {}} == {"a": {}}

    check(f, lambda: (x(), {"a": 1, "b": 2}))


def test_dict_containing_itself() -> None:
    def f(x, d):
        d["self"] = d
        made = {"x": x}
        made["me"] = made
        return made, d["self"]["self"] is d

    check(f, lambda: (x(), {}))


def test_dict_merge_in_call() -> None:
    def g(a, b=2, **rest):
        return a * b, rest

    def f(x, d):
        return g(x, **d), g(**{"a": x}, **{"c": 1})

    check(f, lambda: (x(), {"b": 3, "z": 1}))


# Sets


def test_set_methods() -> None:
    def f(x, s):
        s.add(9)
        s.discard(100)
        s.remove(1)
        s.update([4], (5,))
        s.update(map(int, ["7", "8"]))
        copied = s.copy()
        s |= {20}
        s -= {20}
        return (
            x * len(s),
            copied == s,
            9 in s,
            s | {1},
            s & {2},
            s - {2},
            s ^ {2},
            s.union([1], [0]),
            s.intersection({2, 3}),
            s.difference([2]),
            s.symmetric_difference({2}),
            s.issubset(range(100)),
            s.issuperset({2}),
            s.isdisjoint({50}),
            s <= copied,
            s < copied,
            s >= {2},
            sorted(s),
            frozenset(s) == s,
        )

    check(f, lambda: (x(), {1, 2, 3}))


def test_set_in_place_updates() -> None:
    def f(x, s):
        alias = s
        s &= {1, 2}
        s ^= {2, 5}
        s.intersection_update({1, 5})
        s.symmetric_difference_update({8})
        s.difference_update({1})
        return alias is s, sorted(s), x + 1

    check(f, lambda: (x(), {1, 2, 3}))


def test_set_errors_and_pop() -> None:
    def f(x):
        messages = []
        for action in (lambda: set().pop(), lambda: {1}.remove(3), lambda: {[]}, lambda: {1} | [2]):
            try:
                action()
            except (KeyError, TypeError) as error:
                messages.append(repr(error))
        one = {5}
        return x + 1, messages, one.pop(), one

    check(f)


def test_frozenset() -> None:
    def f(x, s):
        return (
            x + len(s),
            s | {3},
            {s: 1}[frozenset({1, 2})],
            1 in s,
            hash(s) == hash(frozenset({2, 1})),
            s - {1},
            type(s & {1}),
        )

    check(f, lambda: (x(), frozenset({1, 2})))


def test_set_of_tensors() -> None:
    def f(x, y):
        group = {x, y, x}
        group.add(x + 1)
        return len(group), x in group, y + 1

    check(f, lambda: (x(), x()))


def test_set_of_outside_tensors() -> None:
    def f(x, group):
        return (x + 1) if x in group else x

    def grouped() -> tuple[Any, ...]:
        t = x()
        return t, {t}

    check(f, grouped, fullgraph=False, entries=None)


def test_set_comprehension_and_order() -> None:
    def f(x, items):
        unique = {i % 3 for i in items}
        return x + 1, sorted(unique), [i for i in {3: 0, 1: 0}], {*items, 9} == set(items) | {9}

    check(f, lambda: (x(), [1, 2, 3, 4]))


def test_order_depends_on_how_elements_came_in() -> None:
    def f(x, n, items):
        one_by_one, at_once, from_dict = {n, 4, 5}, {n, 4, 5}, {n, 4, 5}
        one_by_one.update(map(abs, items))
        at_once.update({abs(i) for i in items})
        from_dict.update({abs(i): 0 for i in items})
        return x + 1, list(one_by_one), list(at_once), list(from_dict), list({n, 1}.union([2, 3, 4]))

    for n, items in ((8, [4, -2]), (9, [4, -2]), (16, [3, -2]), (8, [1, 2, 3])):
        check(f, lambda n=n, items=items: (x(), n, list(items)), entries=None)


def test_iteration_order_of_sets_is_pythons() -> None:
    def f(x, s):
        made = {8, 1, 0, 16}
        made.add(24)
        return x + 1, list(made), list(s), [c for c in {"b"}], tuple({3, 2, 1} | {100, 50})

    check(f, lambda: (x(), {33, 1, 17}))


# deque, defaultdict, OrderedDict, Counter, ChainMap


def test_deque_methods() -> None:
    def f(x, q):
        q.append("r")
        q.appendleft("l")
        q.extend([1, 2])
        q.extendleft([3, 4])
        right, left = q.pop(), q.popleft()
        q.rotate(1)
        q.rotate(-3)
        q.remove(1)
        q.insert(1, "i")
        q.reverse()
        where = q.index("i")
        copied = q.copy()
        q.append(x + 1)
        return where, right, left, list(q), len(q), q[0], q[-1], copied.count("i"), copied, q.maxlen, "i" in copied

    check(f, lambda: (x(), collections.deque([5, 6])))


def test_deque_maxlen() -> None:
    def f(x, q):
        q.append(x)
        q.appendleft(0)
        q.extend([7, 8])
        made = collections.deque([1, 2, 3], maxlen=2)
        made.append(x + 1)
        return made, q, made.maxlen

    check(f, lambda: (x(), collections.deque([5, 6], maxlen=3)))


def test_deque_more() -> None:
    def f(x, q):
        q[0] = 10
        q += [5]
        made = q + collections.deque([x])
        del q[1]
        q.clear()
        return made, q == collections.deque(), bool(q), collections.deque("ab") == collections.deque(["a", "b"])

    check(f, lambda: (x(), collections.deque([5, 6])))


def test_deque_errors() -> None:
    def f(x, q):
        messages = []
        for action in (lambda: q.pop(), lambda: q.popleft(), lambda: q.remove(1), lambda: q[0]):
            try:
                action()
            except (IndexError, ValueError) as error:
                messages.append(f"{type(error).__name__}: {error}")
        return x + 1, messages

    check(f, lambda: (x(), collections.deque()))


def test_defaultdict() -> None:
    def f(x, d):
        d["a"].append(x)
        d["b"].extend([1])
        made = collections.defaultdict(int)
        for letter in "hello":
            made[letter] += 1
        made2 = collections.defaultdict(lambda: x + 1)
        return d["c"], made, d.get("zz"), "zz" in d, made2["k"], made.default_factory, len(d), d.default_factory

    check(f, lambda: (x(), collections.defaultdict(list, a=[0])))


def test_defaultdict_nested() -> None:
    def f(x):
        tree = collections.defaultdict(lambda: collections.defaultdict(list))
        tree["a"]["b"].append(x)
        return {k: {m: list(n) for m, n in v.items()} for k, v in tree.items()}

    check(f)


def test_defaultdict_without_factory() -> None:
    def f(x, d):
        try:
            d["no"]
        except KeyError as error:
            return x + 1, repr(error)

    check(f, lambda: (x(), collections.defaultdict(None, a=1)))


def test_ordered_dict() -> None:
    def f(x, o):
        o["n"] = x
        o.move_to_end("a")
        o.move_to_end("n", last=False)
        first = o.popitem(last=False)
        made = collections.OrderedDict(b=1)
        made.update(a=2)
        return (
            first,
            list(o),
            made,
            list(reversed(made)),
            made == collections.OrderedDict(a=2, b=1),
            made == {"a": 2, "b": 1},
        )

    check(f, lambda: (x(), collections.OrderedDict(a=1, b=2)))


def test_counter_from_outside() -> None:
    def f(x, c):
        c["a"] += 2
        c.update("bb")
        c.subtract({"a": 1})
        return x * c["a"], c["none"], c.most_common(1), sorted(c.elements()), c.total(), c

    check(f, lambda: (x(), collections.Counter("aab")))


def test_counter_made_inside() -> None:
    def f(x):
        c = collections.Counter("hello")
        d = collections.Counter(a=1) + collections.Counter(a=2, b=-1)
        return x * c["l"], c.most_common(2), d, c - collections.Counter("l"), c | d, c & d

    check(f)


def test_chain_map() -> None:
    def f(x, m):
        m["new"] = x + 1
        child = m.new_child({"a": 9})
        return m["a"], child["a"], "b" in m, len(m), list(m), child.parents["a"]

    check(f, lambda: (x(), collections.ChainMap({"a": 1}, {"b": 2})))


def test_mapping_proxy() -> None:
    import types

    def f(x, p):
        return x * p["a"], "b" in p, len(p), list(p), p.get("z", 3)

    check(f, lambda: (x(), types.MappingProxyType({"a": 2})))
