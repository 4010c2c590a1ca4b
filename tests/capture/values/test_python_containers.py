"""Sequences under capture: methods, slices, aliasing, nesting, comprehensions, iterators, mutation from outside."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import firesteel as fs
from capture.differential import check, x

# Lists


def test_list_methods() -> None:
    def f(x, items):
        items.append(7)
        items.extend([1, 2])
        items.insert(1, "in")
        items.insert(-100, "front")
        last = items.pop()
        first = items.pop(0)
        items.remove("in")
        items.reverse()
        n = items.count(1)
        i = items.index(1)
        copied = items.copy()
        items += (x + 7, 8)
        return last, first, n, i, copied, items, copied is items, len(items)

    check(f, lambda: (x(), [5, 1, 5]))


def test_list_clear_and_refill() -> None:
    def f(x, items):
        items.clear()
        items.append(x * 2)
        return items

    check(f, lambda: (x(), [1, 2, 3]))


def test_list_sort() -> None:
    def f(x, items):
        items.sort()
        by_length = sorted(["ccc", "a", "bb"], key=len, reverse=True)
        pairs = [(2, "b"), (1, "z"), (2, "a")]
        pairs.sort(key=lambda p: p[0])
        tensors = sorted([x, x.sum(), x[0]], key=lambda t: t.dim())
        return items, by_length, pairs, tensors

    check(f, lambda: (x(), [3, 1, 2]))


def test_sort_stability_with_reverse() -> None:
    def f(x):
        return sorted([(1, "a"), (2, "b"), (1, "c")], key=lambda p: p[0], reverse=True), x + 1

    check(f)


def test_list_errors() -> None:
    def f(x, items):
        messages = []
        for action in (
            lambda: items.pop(9),
            lambda: items.remove(9),
            lambda: items.index(9),
            lambda: items[9],
            lambda: [].pop(),
            lambda: items["a"],
            lambda: (1,)[4],
            lambda: items.insert("a", 1),
        ):
            try:
                action()
            except (IndexError, ValueError, TypeError) as error:
                messages.append(f"{type(error).__name__}: {error}")
        return x + 1, messages

    check(f, lambda: (x(), [1]))


@pytest.mark.parametrize(
    "where", [slice(1, 3), slice(None), slice(0, 0), slice(-1, None), slice(None, None, 2), slice(5, 1)]
)
def test_slice_assignment_and_deletion(where: slice) -> None:
    def f(x, items, other):
        part = items[where]
        other[where] = part
        if where.step is None:
            items[where] = [x + 1, "new"]
        del other[where]
        return part, items

    check(f, lambda: (x(), [0, 1, 2, 3], [0, 1, 2, 3]))


def test_slice_assignment_errors() -> None:
    def f(x, items):
        try:
            items[::2] = [1, 2, 3]
        except ValueError as error:
            return x + 1, str(error)

    check(f, lambda: (x(), [0, 1, 2, 3]))


def test_list_arithmetic_and_comparison() -> None:
    def f(x, items):
        grid = [[0] * 2] * 3
        grid[0].append(x)
        return items + [x], items * 2, 2 * items, items == [1, 2], items < [1, 3], items != (1, 2), 1 in items, grid

    check(f, lambda: (x(), [1, 2]))


def test_list_identity_after_augmented_assignment() -> None:
    def f(x, items):
        alias = items
        items += [x]
        items *= 2
        return alias is items, alias

    check(f, lambda: (x(), [1]))


def test_list_mutated_while_iterating() -> None:
    def f(x, items):
        seen = []
        for item in items:
            seen.append(item)
            if len(items) < 6:
                items.append(item + 10)
        return x + len(seen), seen

    check(f, lambda: (x(), [1, 2, 3]))


def test_list_shrinks_while_iterating() -> None:
    def f(x, items):
        seen = []
        for item in items:
            seen.append(item)
            items.remove(item)
        return x + 1, seen, items

    check(f, lambda: (x(), [1, 2, 3, 4]))


def test_list_containing_itself() -> None:
    def f(x, items):
        items.append(items)
        made = [x]
        made.append(made)
        return items[-1] is items, made

    check(f, lambda: (x(), [1]))


def test_aliased_lists_in_arguments() -> None:
    def f(x, a, b, table):
        a.append(x + 1)
        b.append(2)
        table["list"].append(3)
        return a is b, len(b), table["list"] is a

    def same() -> tuple[Any, ...]:
        a: list[Any] = []
        return x(), a, a, {"list": a}

    compiled = check(f, same)
    assert compiled(x(), [], [1], {"list": []})[:2] == (False, 2)


def test_nested_containers_keep_their_identity() -> None:
    def f(x, outer):
        inner = outer[0]
        inner["k"][1].append(x)
        outer.append(inner)
        outer[0]["new"] = outer[0]["k"]
        return outer[0] is outer[-1], inner["k"]

    check(f, lambda: (x(), [{"k": (1, [])}]))


def test_new_object_stored_in_two_places() -> None:
    def f(x, items, table):
        made = [x + 1]
        items.append(made)
        table["made"] = made
        made.append(2)
        return made

    check(f, lambda: (x(), [], {}))


def test_list_unpacking() -> None:
    def f(x, items):
        a, *b, c = items
        (d, e), g = (1, 2), [3]
        [h, *_] = "xyz"
        first, *rest = [x]
        return a, b, c, d + e, g, h, first + 1, rest, [*items, *b], (*items, x), {*items}, {**{"a": 1}, "b": 2}

    check(f, lambda: (x(), [1, 2, 3, 4]))


def test_unpacking_errors() -> None:
    def f(x, items):
        messages = []
        try:
            a, b = items
        except ValueError as error:
            messages.append(str(error))
        try:
            a, b, c, d, *e = items
        except ValueError as error:
            messages.append(str(error))
        try:
            a, b = 3
        except TypeError as error:
            messages.append(str(error))
        return x + 1, messages

    check(f, lambda: (x(), [1, 2, 3]))


def test_list_of_tensors_methods() -> None:
    def f(x, tensors):
        tensors[0], tensors[1] = tensors[1], tensors[0]
        tensors[0] += 1
        return torch.stack(tensors), sum(tensors), tensors[0] is tensors[1], max(len(t) for t in tensors)

    check(f, lambda: (x(), [x(), x() + 1]))


def test_list_shared_tensor_identity() -> None:
    def f(x, items):
        y = x + 1
        items.extend([y, y, x])
        return items[0] is items[1], items

    check(f, lambda: (x(), []))


def test_list_in_place_constructor_forms() -> None:
    def f(x):
        return (
            list("ab"),
            list((1, x)),
            list({"a": 1}),
            list(range(3)),
            list(),
            [*range(2)],
            list(zip([1], [x], strict=True)),
        )

    check(f)


# Tuples


def test_tuple_methods() -> None:
    def f(x, t):
        return (
            t.count(1),
            t.index(2),
            t + (x,),
            t * 2,
            t[1:],
            t[::-1],
            t == (1, 2, 1),
            hash(t) == hash((1, 2, 1)),
            tuple([x]),
            t < (2,),
        )

    check(f, lambda: (x(), (1, 2, 1)))


def test_tuple_of_tensors_is_returned_as_is() -> None:
    def f(x, t):
        y = t[0] + 1
        return t, y, tuple(t) is t

    check(f, lambda: (x(), (x(), [1])))


def test_tuple_containing_mutated_list() -> None:
    def f(x, t):
        t[1].append(x)
        try:
            t[1] += [3]
        except TypeError as error:
            return t, str(error)

    check(f, lambda: (x(), (1, [])), fullgraph=False, entries=None)


# Comprehensions


def test_comprehensions() -> None:
    def f(x, items):
        offset = 2
        nested = [[x * i + j for j in range(2)] for i in items]
        table = {i: x + i for i in items if i > 1}
        lazy = (i * offset for i in items)
        return (
            nested,
            table,
            list(lazy),
            sum(x[0, i] for i in range(2)),
            [(a, b) for a in items for b in items if a < b],
        )

    check(f, lambda: (x(), [1, 2, 3]))


def test_comprehension_scopes() -> None:
    def f(x):
        i = "outer"
        made = [i for i in range(3)]
        functions = [lambda i=i: x + i for i in range(2)]
        late = [lambda: x * j for j in range(3)]
        return i, made, [g() for g in functions], [g() for g in late]

    check(f)


def test_walrus() -> None:
    def f(x, items):
        if (n := len(items)) > 1:
            x = x * n
        found = [y for i in items if (y := i * 2) > 2]
        while (last := items.pop()) > 1:
            x = x + last
        return x, found, y, last

    check(f, lambda: (x(), [1, 2, 3]))


# Iterators over containers


def test_iterators_from_outside_advance() -> None:
    def f(x, it):
        first = next(it)
        return x * first, next(it, None)

    check(f, lambda: (x(), iter([1, 2, 3])), fullgraph=False, entries=None)


def test_iterators_made_inside_and_returned() -> None:
    def f(x, items):
        it = iter(items)
        next(it)
        pairs = zip(items, [x, x + 1], strict=False)
        next(pairs)
        numbered = enumerate(items, 5)
        doubled = map(lambda i: i * 2, items)
        odd = filter(lambda i: i % 2, items)
        return it, pairs, numbered, doubled, odd, reversed(items), x + 1

    check(f, lambda: (x(), [1, 2, 3]), fullgraph=False, entries=None)


def test_builtin_reductions() -> None:
    def f(x, items):
        return (
            sum(items),
            sum([x, x]),
            sum([[1], [2]], []),
            min(items),
            max(items, key=lambda i: -i),
            max(1, 2.5),
            min([], default=None),
            any(i > 2 for i in items),
            all(items),
            all([]),
            len(range(0, 10, 3)),
            sorted({"b": 1, "a": 2}),
            list(reversed((1, 2))),
            list(enumerate("ab", 1)),
            max("a", "b"),
        )

    check(f, lambda: (x(), [1, 2, 3]))


def test_range_protocol() -> None:
    def f(x, r):
        return (
            x + len(r),
            r[1],
            r[-1],
            r[1:],
            4 in r,
            list(r),
            r.start,
            r.step,
            r == range(0, 6, 2),
            r.index(4),
            reversed(r),
            r.count(2),
        )

    check(f, lambda: (x(), range(0, 6, 2)))


def test_bytes_and_bytearray() -> None:
    def f(x, b):
        return (
            x + len(b),
            b[0],
            b[1:],
            b + b"z",
            b.hex(),
            b.decode(),
            list(b),
            b"a" in b,
            bytes([1, 2]),
            b.split(b"b"),
            b"%d" % 3,
        )

    check(f, lambda: (x(), b"abc"))


def test_bytearray_breaks_but_is_right() -> None:
    def f(x, b):
        y = x + 1
        b.append(3)
        return y * len(b), bytes(b)

    check(f, lambda: (x(), bytearray(b"ab")), fullgraph=False, entries=None)


def test_slice_objects() -> None:
    def f(x, s):
        where = slice(0, 1)
        return (
            x[where],
            [1, 2, 3][s],
            s.start,
            s.indices(10),
            x[s, 0],
            x[..., None, where],
            slice(1) == slice(None, 1, None),
        )

    check(f, lambda: (x(), slice(0, 2)))


def test_del_of_everything() -> None:
    def f(x, items, d, a):
        y = x + 1
        del items[0], d["k"], a.attribute
        del items[-1:]
        z = y * 2
        del y
        try:
            return y  # noqa: F821
        except UnboundLocalError as error:
            return z, str(error), items, d

    class Local:
        pass

    def make() -> tuple[Any, ...]:
        a = Local()
        a.attribute, a.other = 1, 2  # type: ignore[attr-defined]
        return x(), [1, 2, 3], {"k": 1, "z": 2}, a

    check(f, make)


def test_containers_recompile_when_they_change() -> None:
    def f(x, items, d):
        total = x
        for item in items:
            total = total + item
        for key in d:
            total = total * d[key]
        return total

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for items, d in (([1], {}), ([1, 2], {"a": 2}), ([2.5], {"b": 3, "a": 2}), ([], {}), ([x()], {"a": x()})):
        assert torch.equal(compiled(x(), items, d), f(x(), items, d))


# Deques, and sets beside the views of a dictionary


def test_deque_mutated_while_iterating() -> None:
    def f(x, items):
        said = []
        try:
            for _ in items:
                items.append(1)
        except RuntimeError as error:
            said.append(str(error))
        iterator = iter(items)
        items.reverse()
        items[0] = 5
        try:
            items.insert(0, 1)
        except IndexError as error:
            said.append(str(error))
        return x + 1, items, next(iterator), said

    check(f, lambda: (x(), collections.deque([1, 2, 3], 3)))


def test_deque_mutated_while_iterating_and_not_caught() -> None:
    def f(x, items):
        for _ in items:
            items.append(x + 1)

    items = collections.deque([1, 2, 3])
    with pytest.raises(RuntimeError, match="deque mutated during iteration"):
        fs.compile(f, backend="eager")(x(), items)
    assert len(items) == 4


def test_views_of_a_dictionary_decide_over_sets() -> None:
    def f(x, mapping):
        ours = same = {1}
        ours |= mapping.keys()
        fixed = frozenset((1, 2)) & mapping.keys()
        return x + 1, ours, same, type(fixed), fixed, {1}.__and__(mapping.keys()), {1}.__rsub__([1])

    check(f, lambda: (x(), {2: 3}))


def test_an_equal_element_takes_the_place_of_another() -> None:
    def f(x, first, second):
        first &= {1, 4}
        second.clear()
        second.update([False, 2.0])
        return x + 1, first, second

    expected, found = ({True, 5}, {0, 2, 3}), ({True, 5}, {0, 2, 3})
    f(x(), *expected)
    fs.compile(f, backend="eager")(x(), *found)
    assert [sorted(map(repr, items)) for items in found] == [sorted(map(repr, items)) for items in expected]


# Containers that are looked at while they take items in


def test_sets_take_items_one_by_one() -> None:
    def f(x, given):
        grown, shrunk, seen = {1}, {1, 2, 3}, []

        def looking(*items):
            for item in items:
                yield item
                seen.append(len(given))

        grown.update(len(grown) + i for i in range(3))
        shrunk.difference_update(len(shrunk) for _ in range(3))
        given.update(looking(7, 8), [9], looking(7, 10))
        given.difference_update(looking(7, 8))
        given.intersection_update(looking(9, 10))
        again = {1, 2}
        again.__init__(again)
        given.__init__(looking(3, 4))
        return x + 1, grown, shrunk, given, again, seen

    check(f, lambda: (x(), {0, 1}))


def test_intersections_read_no_more_than_they_need() -> None:
    def f(x):
        rest = []
        for base in ({1}, {1, 3}, set(), {1, 2, 7}):
            for name in ("intersection", "intersection_update", "issubset", "difference", "issuperset"):
                items = iter([2, 1, 2, 3, 7])
                result = getattr(set(base), name)(items)
                rest.append((result, list(items)))
        return x + 1, rest

    check(f, lambda: (x(),))


def test_sets_ask_no_other_set_to_iterate() -> None:
    class Loud(set):
        def __iter__(self):
            raise KeyError("asked")

    def f(x, loud):
        taken, kept = {1, 2}, {1, 2}
        taken.update(loud)
        kept.difference_update(loud)
        return x + 1, taken, kept, {1, 2}.intersection(loud), {7}.issubset(loud)

    check(f, lambda: (x(), Loud({2, 7})))


def test_sets_keep_what_came_before_an_error() -> None:
    def f(x, given):
        def raising():
            yield 5
            raise KeyError(len(given))

        try:
            given.update([3], raising(), [4])
        except KeyError as error:
            return x + 1, given, error.args

    check(f, lambda: (x(), {0, 1}))


def test_deques_take_items_one_by_one_at_the_left() -> None:
    def f(x, given):
        given.extendleft(len(given) for _ in range(3))
        given.extendleft(given)
        short = collections.deque([1], 2)
        short.extendleft(sum(short) for _ in range(3))
        return x + 1, given, short

    check(f, lambda: (x(), collections.deque([1])))


def test_dictionaries_whose_keys_change_while_they_are_iterated() -> None:
    def f(x):
        seen = []
        table = {1: 1, 2: 2}
        try:
            for key, _ in table.items():
                seen.append(key)
                del table[key]
                table[key + 10] = x
        except RuntimeError as error:
            seen.append(str(error))
        table = {1: 1, 2: 2, 3: 3}
        steps = iter(table)
        seen.append(next(steps))
        del table[1]
        table[4] = 4
        seen += [next(steps), next(steps)]
        return x + 1, seen, table

    check(f, lambda: (x(),))
