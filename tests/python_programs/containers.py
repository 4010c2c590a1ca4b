"""The collections module and its recipes."""

import collections
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, UserString, defaultdict, deque, namedtuple

import torch

from . import given

_Point = namedtuple("_Point", ["x", "y"])
_Account = namedtuple("_Account", ["type", "balance"], defaults=[0])


def counter_of_words(x):
    cnt = Counter()
    for word in ["red", "blue", "red", "green", "blue", "blue"]:
        cnt[word] += 1
    return x * cnt["blue"], cnt.most_common(2), cnt["missing"], dict(cnt)


def counter_arithmetic(x):
    c, d = Counter(a=3, b=1), Counter(a=1, b=2)
    return x * c.total(), c + d, c - d, c & d, c | d, sorted(c.elements()), +Counter(a=-1, b=1)


def counter_update_subtract(x):
    c = Counter("gallahad")
    c.update("witch")
    c.subtract(Counter("ad"))
    del c["g"]
    return x, c, repr(Counter(a=2, b=1)), c == Counter(c)


def deque_operations(x):
    d = deque("ghi")
    d.append("j")
    d.appendleft("f")
    d.rotate(1)
    d.extendleft("abc")
    return x * len(d), list(d), d.pop(), d.popleft(), d[0], "h" in d, list(reversed(d)), d.count("a")


def deque_with_maxlen(x):
    d = deque(maxlen=3)
    for n in range(5):
        d.append(x * n)
    return d, d.maxlen, len(d)


def deque_errors(x):
    d = deque()
    messages = []
    for call in (d.pop, d.popleft, lambda: d[0], lambda: d.remove(1), lambda: d.index(3)):
        try:
            call()
        except (IndexError, ValueError) as error:
            messages.append(f"{type(error).__name__}: {error}")
    return x, messages


def moving_average(x):
    def average(iterable, n=3):
        it = iter(iterable)
        d = deque([next(it), next(it)])
        d.appendleft(0)
        s = sum(d)
        for elem in it:
            s += elem - d.popleft()
            d.append(elem)
            yield s / n

    return x, list(average([40, 30, 50, 46, 39, 44]))


def defaultdict_grouping(x):
    s = [("yellow", 1), ("blue", 2), ("yellow", 3), ("blue", 4), ("red", 1)]
    d = defaultdict(list)
    for k, v in s:
        d[k].append(x * v)
    return sorted(d), d["yellow"], d.default_factory is list, len(d["new"])


def defaultdict_counting(x):
    d = defaultdict(int)
    for k in "mississippi":
        d[k] += 1
    e = defaultdict(lambda: "missing", a=1)
    return x + d["s"], sorted(d.items()), e["zz"], dict(e), repr(defaultdict(int, a=1))


def nested_defaultdict(x):
    tree = defaultdict(lambda: defaultdict(list))
    tree["a"]["b"].append(x)
    tree["a"]["c"].append(1)
    return {k: dict(v) for k, v in tree.items()}, "z" in tree


def namedtuple_basics(x):
    p = _Point(11, y=22)
    a, b = p
    q = p._replace(x=33)
    return x * (p.x + p[1]), a, b, p, q, p._asdict(), _Point._fields, repr(p), p == (11, 22)


def namedtuple_of_tensors(x):
    p = _Point(x, x + 1)
    return _Point(*map(torch.sum, p)), _Point._make([x, 1]), _Account("premium"), _Account._field_defaults


def namedtuple_made_inside(x):
    Pair = namedtuple("Pair", "first second")
    p = Pair(x, second=2)
    return p.first * p.second, p._fields, type(p).__name__


def ordered_dict_moves(x):
    d = OrderedDict.fromkeys("abcde")
    d.move_to_end("b")
    d.move_to_end("e", last=False)
    return (
        x,
        "".join(d),
        d.popitem(last=False),
        d.popitem(),
        OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1),
        list(reversed(d)),
    )


class _LastUpdated(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.move_to_end(key)


def ordered_dict_subclass(x):
    d = _LastUpdated()
    d["a"] = 1
    d["b"] = x
    d["a"] = 2
    return d, list(d)


def chain_map(x):
    baseline = {"music": "bach", "art": "rembrandt"}
    adjustments = {"art": "van gogh", "opera": "carmen"}
    c = ChainMap(adjustments, baseline)
    child = c.new_child({"music": "none"})
    child["new"] = x
    return list(c), c["art"], child["music"], child.maps[0], len(child), "opera" in c, dict(c)


def user_classes(x):
    class Upper(UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.upper(), value)

    d = Upper(a=1)
    d["b"] = x
    items = UserList([3, 1])
    items.append(2)
    return d.data, sorted(items), len(items), UserString("abc").upper() == "ABC"


class _LRU(OrderedDict):
    def __init__(self, maxsize=2, /, *args, **kwds):
        self.maxsize = maxsize
        super().__init__(*args, **kwds)

    def __getitem__(self, key):
        value = super().__getitem__(key)
        self.move_to_end(key)
        return value

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if len(self) > self.maxsize:
            oldest = next(iter(self))
            del self[oldest]


def lru_recipe(x):
    cache = _LRU(2)
    cache["a"] = x
    cache["b"] = 2
    cache["a"]
    cache["c"] = 3
    return list(cache), cache["a"], cache.maxsize


@given(lambda: (deque([1, 2], maxlen=4), defaultdict(list), Counter("ab"), OrderedDict(z=1)))
def mutate_arguments(x, d, groups, counts, ordered):
    d.append(x)
    groups["k"].append(len(d))
    counts.update("bb")
    ordered["new"] = counts["b"]
    ordered.move_to_end("z")
    return x + counts["b"]


def abstract_containers(x):
    abc = collections.abc
    checks = [isinstance([], abc.Sequence), isinstance({}, abc.Mapping), isinstance(iter([]), abc.Iterator)]
    checks += [
        isinstance(len, abc.Callable),
        isinstance({1}, abc.Set),
        isinstance(5, abc.Hashable),
        isinstance([], abc.Hashable),
    ]
    return x * sum(checks), checks


class _ListBasedSet(collections.abc.Set):
    def __init__(self, iterable):
        self.elements = lst = []
        for value in iterable:
            if value not in lst:
                lst.append(value)

    def __iter__(self):
        return iter(self.elements)

    def __contains__(self, value):
        return value in self.elements

    def __len__(self):
        return len(self.elements)


def abc_set_mixin(x):
    overlap = _ListBasedSet("abcdef") & _ListBasedSet("defghi")
    return x + len(overlap), list(overlap), overlap <= _ListBasedSet("abcdef"), overlap.isdisjoint("xyz")
