"""functools, decorators and closures."""

import functools
from functools import (
    cached_property,
    lru_cache,
    partial,
    partialmethod,
    reduce,
    singledispatch,
    singledispatchmethod,
    wraps,
)

import torch

from . import given


def reduce_forms(x):
    return reduce(lambda a, b: a * b, [x, x + 1, x + 2]), reduce(lambda a, b: a + b, [], 5), reduce(max, [3, 9, 2])


def reduce_of_empty(x):
    try:
        reduce(lambda a, b: a, [])
    except TypeError as error:
        return x, str(error)


def partial_objects(x):
    basetwo = partial(int, base=2)
    scaled = partial(torch.mul, x)
    nested = partial(partial(divmod, 17), 5)
    return scaled(3), basetwo("10010"), nested(), scaled.func is torch.mul, basetwo.keywords, nested.args


class _Cell:
    def __init__(self):
        self._alive = False

    def set_state(self, state):
        self._alive = bool(state)

    set_alive = partialmethod(set_state, True)
    set_dead = partialmethod(set_state, False)


def partial_methods(x):
    c = _Cell()
    c.set_alive()
    alive = c._alive
    c.set_dead()
    return x, alive, c._alive


@lru_cache(maxsize=None)
def _fib(n):
    return n if n < 2 else _fib(n - 1) + _fib(n - 2)


def cached_fibonacci(x):
    return x * _fib(10), [_fib(n) for n in range(8)]


def cache_made_inside(x):
    calls = []

    @functools.cache
    def factorial(n):
        calls.append(n)
        return n * factorial(n - 1) if n else 1

    return x * factorial(4), factorial(5), calls


class _DataSet:
    def __init__(self, numbers):
        self._data = numbers
        self.computed = 0

    @cached_property
    def stdev(self):
        self.computed += 1
        return self._data.std()


def cached_properties(x):
    d = _DataSet(x)
    first = d.stdev
    del d.stdev
    return first, d.stdev, d.stdev, d.computed


def _my_decorator(f):
    @wraps(f)
    def wrapper(*args, **kwds):
        """Wrapper."""
        return f(*args, **kwds) + 1

    return wrapper


@_my_decorator
def _example(x):
    """Docstring"""
    return x * 2


def wraps_of_global(x):
    return _example(x), _example.__name__, _example.__doc__, _example.__wrapped__(x)


def wraps_inside(x):
    def logged(f):
        @wraps(f)
        def inner(*args):
            log.append(f.__name__)
            return f(*args)

        return inner

    log = []

    @logged
    def double(y):
        """Twice."""
        return y * 2

    return double(x), log, double.__name__, double.__doc__


def decorator_with_arguments(x):
    def repeat(times):
        def decorate(f):
            @functools.wraps(f)
            def inner(y):
                for _ in range(times):
                    y = f(y)
                return y

            return inner

        return decorate

    @repeat(3)
    def add_one(y):
        return y + 1

    return add_one(x), add_one.__name__


@singledispatch
def _describe(arg):
    return "object"


@_describe.register
def _(arg: int):
    return "int"


@_describe.register(list)
def _(arg):
    return "list of " + _describe(arg[0])


@_describe.register
def _(arg: torch.Tensor):
    return arg * 2


def single_dispatch(x):
    return _describe(x), _describe(1), _describe([2]), _describe("s"), _describe(True)


class _Negator:
    @singledispatchmethod
    def neg(self, arg):
        raise NotImplementedError("Cannot negate a")

    @neg.register
    def _(self, arg: int):
        return -arg

    @neg.register
    def _(self, arg: bool):
        return not arg


def single_dispatch_method(x):
    n = _Negator()
    try:
        n.neg("a")
    except NotImplementedError as error:
        return x, n.neg(5), n.neg(True), str(error)


def cmp_to_key(x):
    def compare(a, b):
        return (a > b) - (a < b)

    return (
        x,
        sorted([3, 1, 2], key=functools.cmp_to_key(compare)),
        max("bca", key=functools.cmp_to_key(lambda a, b: ord(b) - ord(a))),
    )


def closures_and_nonlocal(x):
    def counter():
        n = 0

        def increment(by=1):
            nonlocal n
            n += by
            return n

        return increment

    a, b = counter(), counter()
    a()
    a(5)
    return x * a() + b(), a.__closure__[0].cell_contents


def late_binding(x):
    squares = [lambda: n**2 for n in range(3)]
    fixed = [lambda n=n: n**2 for n in range(3)]
    return [x + f() for f in squares], [f() for f in fixed]


def function_attributes(x):
    def f(a, b=2, *args, c, d=4, **kw):
        return a

    f.calls = 1
    f.calls += 1
    return f(x, c=1), f.calls, f.__defaults__, f.__kwdefaults__, f.__code__.co_varnames, f.__dict__


def recursion(x):
    def hanoi(n, a, b, c):
        return hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c) if n else []

    moves = hanoi(3, "A", "B", "C")
    return x * len(moves), moves[:2]


def compose(x):
    def composed(*functions):
        return functools.reduce(lambda f, g: lambda y: g(f(y)), functions)

    return composed(torch.abs, torch.sqrt, lambda y: y + 1)(x)


def memo_by_hand(x):
    def memoize(f):
        memo = {}

        def helper(n):
            if n not in memo:
                memo[n] = f(n)
            return memo[n]

        helper.memo = memo
        return helper

    @memoize
    def square(n):
        return n * n

    return x + square(3) + square(3), square.memo


_COUNT = 0


def global_counter(x):
    global _COUNT
    before = _COUNT
    _COUNT += 1
    changed = _COUNT - before
    _COUNT = before
    return x * changed


@given(lambda: (partial(torch.add, alpha=2), [lambda y: y * 2, torch.relu]))
def functions_from_outside(x, p, functions):
    for f in functions:
        x = f(x)
    return p(x, x)
