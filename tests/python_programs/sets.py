"""Sets and frozensets, from the library reference."""

from . import given


def basket(x):
    basket = {"apple", "orange", "apple", "pear"}
    return x * len(basket), "orange" in basket, "crabgrass" in basket, sorted(basket)


def operators(x):
    a, b = set("abracadabra"), set("alacazam")
    return x, sorted(a - b), sorted(a | b), sorted(a & b), sorted(a ^ b), a <= b, a > {"a"}


def methods_take_iterables(x):
    s = {1, 2, 3}
    return x + len(s.union([4], (5,))), s.intersection(range(2, 9)), s.difference([1]), s.symmetric_difference([3, 4])


def in_place(x):
    s = {1, 2, 3}
    t = s
    s |= {4}
    s &= {2, 3, 4}
    s -= {2}
    s ^= {3, 9}
    s.update([7], {8})
    s.discard(100)
    return x * len(s), s, s is t


def remove_missing(x):
    s = {1}
    try:
        s.remove(2)
    except KeyError as error:
        return x, error.args


def pop_until_empty(x):
    s = {5}
    value = s.pop()
    try:
        s.pop()
    except KeyError as error:
        return x + value, str(error)


def frozenset_as_key(x):
    d = {frozenset([1, 2]): x, frozenset(): 0}
    return d[frozenset((2, 1))], frozenset([1]) | {2}, type({2} | frozenset([1])).__name__


def comprehension(x):
    a = {c for c in "abracadabra" if c not in "abc"}
    return x, a == {"r", "d"}, {i % 3 for i in range(10)}


def subset_tests(x):
    a = {1, 2}
    return x * a.issubset({1, 2, 3}), a.issuperset([1]), a.isdisjoint([3]), a == frozenset(a), {1} < {1}


def operator_needs_set(x):
    try:
        {1} | [2]
    except TypeError as error:
        return x, str(error)


def unhashable(x):
    try:
        {[]}
    except TypeError as error:
        first = str(error)
    try:
        {1}.add({})
    except TypeError as error:
        return x, first, str(error)


def set_of_tensors_by_identity(x):
    y = x + 1
    s = {x, y, x}
    return len(s), x in s, (x * 1) in s


def dedupe_keeping_order(x):
    seen = set()
    out = []
    for n in [3, 1, 3, 2, 1]:
        if n not in seen:
            seen.add(n)
            out.append(x * n)
    return out


class _Tagged(set):
    def tag(self):
        return f"{len(self)} tags"


def subclass_with_method(x):
    s = _Tagged([1, 2])
    s.add(3)
    return x + len(s), s.tag(), type(s | {4}).__name__, s


@given(lambda: ({1, 2},))
def mutate_argument(x, s):
    s.add(3)
    s.discard(1)
    return x * len(s)


def copy_is_separate(x):
    s = {1, 2}
    t = s.copy()
    t.add(3)
    return x, s, t, set(t) is not t


def changed_during_iteration(x):
    s = {1}
    try:
        for item in s:
            s.add(item + 1)
    except RuntimeError as error:
        return x, str(error)


def frozenset_has_no_add(x):
    try:
        frozenset([1]).add(2)
    except AttributeError as error:
        return x, str(error)


def mixed_numbers(x):
    return x, {1, 1.0, True}, len({0.0, -0.0, 0}), {float("inf")}


def update_from_generator(x):
    s = set()
    s.update(i * i for i in range(3))
    s.intersection_update({0, 1}, [1, 4])
    s.difference_update([7])
    s.symmetric_difference_update({2})
    return x, s
