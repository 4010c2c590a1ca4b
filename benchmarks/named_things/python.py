"""Python that others use in forward."""

import collections.abc
import contextlib
import contextvars
import copy
import functools
import inspect
import itertools
import re
import threading
import traceback
import types
import typing
import warnings
import weakref

import torch
from torch import nn

from .registry import rand, thing

LOCK = threading.Lock()
LOCAL = threading.local()
LOCAL.scale = 3
VARIABLE = contextvars.ContextVar("variable", default=2)
CACHE = {}
COUNTER = itertools.count()


def decorated_with_wraps(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2
    return inner


@decorated_with_wraps
def doubled(x):
    """Twice."""
    return x + 1


def generator(n):
    for i in range(n):
        yield i + 1


class Lazy:
    def __init__(self):
        self.computed = 0

    @functools.cached_property
    def value(self):
        self.computed += 1
        return 3


@thing()
def union_types(x):
    kind = int | None
    return x * 2 if isinstance(3, kind) else x, isinstance(kind, types.UnionType), typing.get_args(kind) == (int, type(None))


@thing()
def typing_objects(x):
    return x + len(typing.get_args(typing.Union[int, str])), typing.get_origin(list[int]) is list, \
        typing.cast(int, 3), typing.Optional[int] == typing.Union[int, None]


@thing()
def wrapped_globals(x):
    return doubled(x), doubled.__name__, doubled.__wrapped__(x)


@thing()
def wraps_inside(x):
    @functools.wraps(doubled)
    def local(y):
        return y * 3
    return local(x), local.__doc__


@thing()
def signatures(x):
    parameters = inspect.signature(doubled).parameters
    return x * len(parameters), list(parameters), inspect.signature(nn.Linear.forward).parameters["input"].name


@thing()
def regular_expressions(x):
    m = re.match(r"(\w+)\.(\d+)", "layer.3")
    return x * int(m.group(2)), re.sub("a", "b", "banana"), re.compile("x+").findall("axxbx")


@thing(lambda: (rand(), Lazy()))
def weak_references(x, o):
    return x * weakref.ref(o)().value


@thing()
def weak_references_inside(x):
    o = Lazy()
    r = weakref.ref(o)
    return x * r().value, weakref.WeakValueDictionary(a=o)["a"].value


@thing()
def thread_locals(x):
    LOCAL.seen = 1
    return x * LOCAL.scale, hasattr(LOCAL, "nothing")


@thing()
def locks(x):
    with LOCK:
        y = x + 1
    with threading.Lock(), threading.RLock():
        y = y * 2
    return y


@thing()
def mapping_proxies(x):
    p = types.MappingProxyType({"a": 2})
    return x * p["a"], list(p), "run" in vars(Lazy), sorted(k for k in Lazy.__dict__ if k[0] != "_")


@thing()
def caught_warnings(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("nothing", stacklevel=1)
        return x + 1


@thing()
def recorded_warnings(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("something", stacklevel=1)
    return x + len(seen)


@thing()
def tracebacks(x):
    try:
        raise ValueError("a")
    except ValueError as error:
        return x + 1, traceback.format_exception_only(error), type(error.__traceback__).__name__


@thing()
def formatted_tracebacks(x):
    try:
        raise ValueError("a")
    except ValueError:
        return x + 1, traceback.format_exc().splitlines()[-1]


@thing()
def eval_of_constants(x):
    return x * eval("1 + 2"), eval("x + 1", {"x": 3})


@thing()
def exec_of_constants(x):
    space = {}
    exec("a = 3\ndef f(y): return y * a", space)
    return space["f"](x)


@thing()
def context_variables(x):
    token = VARIABLE.set(5)
    y = x * VARIABLE.get()
    VARIABLE.reset(token)
    return y * VARIABLE.get()


@thing()
def contexts_run(x):
    return contextvars.copy_context().run(lambda: x * VARIABLE.get())


@thing(lambda: (rand(), iter([1, 2, 3])))
def a_list_iterator_from_outside(x, items):
    return x * next(items), [x + i for i in items]


@thing(lambda: (rand(), generator(3)))
def a_generator_from_outside(x, items):
    return x * next(items), sum(items)


@thing(lambda: (rand(), generator(3)))
def a_generator_looped_over(x, items):
    for i in items:
        x = x + i
    return x


@thing(lambda: (rand(), itertools.count(3)))
def a_count_from_outside(x, items):
    return x * next(items), next(items)


@thing(lambda: (rand(), zip([1, 2], [rand(), rand(seed=1)], strict=True)))
def a_zip_from_outside(x, items):
    for a, b in items:
        x = x + a * b
    return x


@thing(lambda: (rand(), map(lambda v: v + 1, [1, 2])))
def a_map_from_outside(x, items):
    return x * next(items), list(items)


@thing(lambda: (rand(), enumerate([rand(), rand(seed=1)])))
def an_enumerate_from_outside(x, items):
    return [x * i + v for i, v in items]


@thing(lambda: (rand(), itertools.chain([1], [2])))
def a_chain_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), itertools.islice([1, 2, 3], 2)))
def an_islice_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), itertools.cycle([1, 2])))
def a_cycle_from_outside(x, items):
    return x * next(items), next(items), next(items)


@thing(lambda: (rand(), itertools.repeat(2)))
def a_repeat_from_outside(x, items):
    return x * next(items), next(items)


@thing(lambda: (rand(), reversed([1, 2])))
def a_reversed_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), iter({"a": 1, "b": 2})))
def a_dict_iterator_from_outside(x, items):
    return [x * len(i) for i in items]


@thing(lambda: (rand(), iter({"a": 1, "b": 2}.items())))
def an_items_iterator_from_outside(x, items):
    return [x * i for _, i in items]


@thing(lambda: (rand(), iter(range(3))))
def a_range_iterator_from_outside(x, items):
    next(items)
    return [x * i for i in items]


@thing(lambda: (rand(), iter((1, 2))))
def a_tuple_iterator_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), iter({1})))
def a_set_iterator_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), iter("ab")))
def a_text_iterator_from_outside(x, items):
    return list(items), x + 1


@thing(lambda: (rand(), filter(None, [0, 1, 2])))
def a_filter_from_outside(x, items):
    return [x * i for i in items]


@thing(lambda: (rand(), nn.Linear(6, 6).parameters()))
def parameters_from_outside(x, items):
    return [p * 2 for p in items][0] + x[0]


@thing()
def a_global_count(x):
    return x * 1 + (next(COUNTER) >= 0)


@thing()
def counts_inside(x):
    c = itertools.count(2, 3)
    return x * next(c), next(c), [i for i, _ in zip(itertools.count(), "ab")]


@thing()
def copies(x):
    d = {"a": [1, x]}
    shallow, deep = copy.copy(d), copy.deepcopy([1, [2]])
    return shallow["a"][1] * 2, deep, shallow["a"] is d["a"]


@thing(lambda: (rand(), nn.Linear(6, 6)))
def copied_modules(x, m):
    return copy.deepcopy(m)(x)


@thing()
def abstract_collections(x):
    return isinstance([], collections.abc.Sequence), isinstance({}, collections.abc.Mapping), \
        isinstance(len, collections.abc.Callable), issubclass(dict, collections.abc.MutableMapping), x + 1


@thing()
def attributes_of_new_tensors(x):
    y = x + 1
    y.label = "a"
    y.extra = x * 2
    return y.extra + y, y.label, hasattr(y, "other")


@thing()
def attributes_of_results(x):
    y = x + 1
    y.label = "a"
    return y


@thing()
def maximum_of_tensors(x):
    return max(x[0, 0], x[0, 1]), min([x[1, 0], x[1, 1]]), max(x[0].abs().sum(), 0)


@thing(lambda: ([10, 20, 30], torch.tensor(1)))
def a_list_indexed_by_a_tensor(items, i):
    return items[i], i + 1


@thing(lambda: (rand(), [nn.Linear(6, 6), nn.ReLU()], torch.tensor(1)))
def modules_indexed_by_a_tensor(x, items, i):
    return items[i](x)


@thing(lambda: (rand(), Lazy()))
def lazy_properties(x, o):
    return x * o.value, o.computed


@thing()
def lazy_properties_inside(x):
    o = Lazy()
    return x * o.value, o.computed


@thing(lambda: (rand(), nn.LazyLinear(3)))
def a_lazy_module(x, m):
    return m(x).shape


@thing()
def a_lazy_module_made_inside(x):
    return nn.LazyLinear(3)(x).shape, x + 1


@thing()
def a_lazy_norm_made_inside(x):
    m = nn.LazyBatchNorm1d()
    return m(x), m.num_features


@thing(lambda: (rand(), nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))))
def lazy_modules_in_sequence(x, m):
    return m(x).shape


@thing()
def progress_bars(x):
    from tqdm import tqdm
    for i in tqdm(range(3), disable=True):
        x = x + i
    return x


@thing()
def context_managers(x):
    @contextlib.contextmanager
    def scaled(n):
        yield n * 2

    with contextlib.suppress(KeyError), contextlib.nullcontext(), contextlib.ExitStack() as stack:
        n = stack.enter_context(scaled(2))
        return x * n


@thing()
def partial_functions(x):
    f = functools.partial(torch.add, alpha=2)
    return f(x, x), functools.reduce(lambda a, b: a + b, [x, x, x]), f.keywords


@thing()
def cached_functions(x):
    @functools.lru_cache
    def f(n):
        return n * 2
    return x * f(2) * f(2), f.cache_info().hits


@thing()
def single_dispatch(x):
    @functools.singledispatch
    def f(v):
        return 1

    @f.register
    def _(v: int):
        return 2

    return x * f(2) + f("a")


@thing()
def text_of_numbers(x):
    return f"{x.shape[0]:>4} {3.14159:.2f} {x.dtype} {x.device}", x + 1


@thing()
def operators_as_functions(x):
    import operator
    return operator.itemgetter(0)([x, 1]) + 1, operator.attrgetter("shape")(x), operator.methodcaller("sin")(x)


@thing()
def einops_rearrange(x):
    import einops
    return einops.rearrange(x, "(a b) c -> a (b c)", a=2), einops.reduce(x, "a b -> b", "mean"), \
        einops.repeat(x, "a b -> a r b", r=2), einops.einsum(x, x, "a b, c b -> a c")


@thing()
def einops_layers(x):
    from einops.layers.torch import Rearrange
    return Rearrange("a b -> b a")(x)


@thing()
def logging_calls(x):
    import logging
    logging.getLogger("nothing").debug("text %s", 3)
    return x + 1


@thing()
def json_and_dates(x):
    import json
    return x + len(json.dumps({"a": [1, 2]})), json.loads("[1, 2]")


@thing()
def environment(x):
    import os
    return x * (2 if os.environ.get("NOTHING_LIKE_THIS") else 3), os.path.join("a", "b")


@thing()
def identities(x):
    a = [1]
    return id(a) == id(a), hash("a") == hash("a"), x + 1, a is a


@thing()
def exception_groups(x):
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        n = len(group.exceptions)
    except* TypeError:
        pass
    return x + n


@thing()
def byte_arrays(x):
    b = bytearray(b"abc")
    b.append(1)
    return x + len(b), bytes(b)


@thing()
def text_streams(x):
    import io
    stream = io.StringIO()
    stream.write("abc")
    print("d", file=stream, end="")
    return x + len(stream.getvalue())


@thing()
def random_choices(x):
    import random
    return x * random.choice([2, 2])
