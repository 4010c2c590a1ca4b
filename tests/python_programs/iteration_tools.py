"""itertools and its recipes."""

import itertools
import operator
from itertools import chain, count, cycle, groupby, islice, pairwise, repeat, starmap, takewhile, tee, zip_longest

import torch

from . import given


def accumulate_forms(x):
    data = [3, 4, 6, 2, 1]
    running = list(itertools.accumulate([x, x, x], operator.mul))
    return running, list(itertools.accumulate(data, max)), list(itertools.accumulate(data, initial=100))


def chains(x):
    parts = chain([x], (y for y in [x + 1]), "ab")
    return list(parts), list(chain.from_iterable(["ABC", "DEF"])), list(chain())


def combinatorics(x):
    return (
        x * sum(1 for _ in itertools.combinations("ABCD", 2)),
        list(itertools.permutations("ABC", 2)),
        list(itertools.product("AB", repeat=2)),
        list(itertools.combinations_with_replacement("AB", 2)),
        list(itertools.product([1, 2], "x")),
    )


def count_and_islice(x):
    return [x + n for n in islice(count(10, 2), 3)], list(islice("ABCDEFG", 2, None, 2)), next(count(1.5, 0.5))


def zip_with_count(x):
    return [(i, t.sum()) for i, t in zip(count(), x)], list(zip("ab", count(5, -1)))


def cycle_and_repeat(x):
    c = cycle("ABC")
    return x, [next(c) for _ in range(5)], list(repeat(x, 2)), list(map(pow, range(4), repeat(2)))


def compress_and_filters(x):
    return (
        list(itertools.compress([x, x + 1, x + 2], [1, 0, 1])),
        list(itertools.filterfalse(lambda n: n % 2, range(6))),
        list(itertools.dropwhile(lambda n: n < 5, [1, 4, 6, 3, 8])),
        list(takewhile(lambda n: n < 5, [1, 4, 6, 3, 8])),
    )


def group_by(x):
    runs = [(k, len(list(g))) for k, g in groupby("AAAABBBCCDAABBB")]
    by_len = {k: [x * len(w) for w in g] for k, g in groupby(sorted(["a", "bb", "cc", "d"], key=len), key=len)}
    return runs, by_len


def star_map(x):
    return list(starmap(torch.add, [(x, 1), (x, 2)])), list(starmap(pow, [(2, 5), (3, 2)]))


def tee_iterators(x):
    a, b = tee(x * n for n in range(3))
    next(b)
    return list(zip(a, b)), list(a)


def pair_wise(x):
    return [b - a for a, b in pairwise([x, x * 2, x * 4])], list(pairwise("A")), list(pairwise("ABCD"))


def zip_longest_fill(x):
    return list(zip_longest("ABCD", "xy", fillvalue="-")), list(zip_longest([x], [1, 2]))


def recipe_sliding_window(x):
    from collections import deque

    def sliding_window(iterable, n):
        it = iter(iterable)
        window = deque(islice(it, n - 1), maxlen=n)
        for item in it:
            window.append(item)
            yield tuple(window)

    return [sum(w) for w in sliding_window([x, x + 1, x + 2, x + 3], 2)], list(sliding_window("ABCDE", 4))


def recipe_batched(x):
    def batched(iterable, n):
        if n < 1:
            raise ValueError("n must be at least one")
        it = iter(iterable)
        while batch := tuple(islice(it, n)):
            yield batch

    return [len(b) * x for b in batched("ABCDEFG", 3)], list(batched(range(5), 2))


def recipe_roundrobin(x):
    def roundrobin(*iterables):
        num_active = len(iterables)
        nexts = cycle(iter(it).__next__ for it in iterables)
        while num_active:
            try:
                for step in nexts:
                    yield step()
            except StopIteration:
                num_active -= 1
                nexts = cycle(islice(nexts, num_active))

    return x, list(roundrobin("ABC", "D", "EF"))


def recipe_unique(x):
    def unique_everseen(iterable, key=None):
        seen = set()
        if key is None:
            for element in itertools.filterfalse(seen.__contains__, iterable):
                seen.add(element)
                yield element
        else:
            for element in iterable:
                k = key(element)
                if k not in seen:
                    seen.add(k)
                    yield element

    return x, list(unique_everseen("AAAABBBCCDAABBB")), list(unique_everseen("ABBCcAD", str.lower))


def recipe_partition(x):
    def partition(predicate, iterable):
        t1, t2 = tee(iterable)
        return itertools.filterfalse(predicate, t1), filter(predicate, t2)

    evens, odds = partition(lambda n: n % 2, range(6))
    return [x * n for n in evens], list(odds)


def recipe_grouper(x):
    args = [iter("ABCDEFG")] * 3
    return x, list(zip_longest(*args, fillvalue="x")), list(zip(*[iter(range(6))] * 2))


def recipe_take_tail_nth(x):
    def nth(iterable, n, default=None):
        return next(islice(iterable, n, None), default)

    def quantify(iterable, predicate=bool):
        return sum(map(predicate, iterable))

    def all_equal(iterable):
        g = groupby(iterable)
        return next(g, True) and not next(g, False)

    return x * quantify([1, 0, 1]), nth("abc", 1), nth([], 3, "d"), all_equal([1, 1]), all_equal([1, 2])


def powerset(x):
    s = [1, 2, 3]
    subsets = chain.from_iterable(itertools.combinations(s, r) for r in range(len(s) + 1))
    return [x + sum(c) for c in subsets]


@given(lambda: (itertools.count(7), itertools.chain([1], [2])))
def iterators_from_outside(x, counter, chained):
    return x * next(counter) + next(counter), list(chained)
