"""Functions under capture: arguments, closures, decorators, functools, recursion, context managers, generators."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import subprocess
import sys
from typing import Any, Callable, Optional

import pytest
import torch

import firesteel as fs
from capture.differential import check, x

# Arguments


def everything(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    return a * b + c + d + e, args, kwargs


def test_all_kinds_of_parameters() -> None:
    def f(x):
        return (
            everything(x, d=1),
            everything(x, 4, 5, 6, 7, d=8, e=9, z=10),
            everything(x, c=1, d=2, b="kept"),
            everything(*(x, 1), **{"d": 2, "q": 3}),
        )

    check(f)


def test_compiled_function_with_all_kinds_of_parameters() -> None:
    compiled = fs.compile(everything, backend="eager", fullgraph=True)
    for args, kwargs in (
        ((x(),), {"d": 1}),
        ((x(), 3, 4, 5), {"d": 1, "e": 2, "z": x()}),
        ((x(), 1), {"c": 2, "d": x()}),
    ):
        expected, actual = everything(*args, **kwargs), compiled(*args, **kwargs)
        assert torch.equal(expected[0], actual[0])
        assert expected[1:] == actual[1:] or "z" in kwargs


@pytest.mark.parametrize(
    "call",
    [
        lambda g, x: g(),
        lambda g, x: g(x, x, x),
        lambda g, x: g(x, q=1),
        lambda g, x: g(x, a=1),
        lambda g, x: g(**{"b": 2}),
    ],
    ids=["missing", "too many", "unknown", "twice", "keyword"],
)
def test_wrong_arguments_raise_pythons_message(call: Any) -> None:
    def g(a, b=1):
        return a + b

    def f(x):
        y = x + 1
        try:
            return call(g, y)
        except TypeError as error:
            return y, str(error)

    check(f, fullgraph=False, entries=None)


def test_mutable_default_is_shared() -> None:
    def make() -> Any:
        def g(item, seen=[]):  # noqa: B006
            seen.append(item)
            return len(seen)

        return g

    def f(x, g):
        return x * g(1), g(2), g

    check(f, lambda: (x(), make()))


def test_defaults_are_guarded() -> None:
    def g(y, factor=2):
        return y * factor

    def f(x):
        return g(x)

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x()), x() * 2)
    g.__defaults__ = (5,)
    assert torch.equal(compiled(x()), x() * 5)


def test_keyword_only_default_of_made_function() -> None:
    def f(x):
        def g(y, *, k=x + 1, **rest):
            return y * k, rest

        return g(x), g(x, k=2, z=1), g

    check(f)


def test_args_and_kwargs_are_fresh_objects() -> None:
    def g(*args, **kwargs):
        kwargs["added"] = 1
        return args, kwargs

    def f(x, items, table):
        return g(*items, **table), table, x + 1

    check(f, lambda: (x(), [1, 2], {"a": 1}))


# Closures


def test_nonlocal_writes() -> None:
    def make() -> Any:
        count = 0
        total: Any = None

        def g(y):
            nonlocal count, total
            count += 1
            total = y if total is None else total + y
            return count

        return g

    def f(x, g):
        g(x)
        return x * g(x + 1)

    check(f, lambda: (x(), make()), state=None)


def test_nonlocal_within_the_frame() -> None:
    def f(x):
        n = 0

        def bump(by=1):
            nonlocal n, x
            n += by
            x = x + n

        bump()
        bump(by=3)
        return x, n

    check(f)


def test_function_made_inside_and_called_later() -> None:
    def f(x, scale):
        y = x * scale

        def later(z, *, w=2):
            return y + z * w

        return later

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    plain, made = f(x(), 3), compiled(x(), 3)
    assert torch.equal(plain(1), made(1)) and torch.equal(plain(1, w=5), made(1, w=5))
    assert made.__name__ == "later" and made.__qualname__ == plain.__qualname__ and made.__defaults__ is None
    assert made.__kwdefaults__ == {"w": 2} and made.__module__ == plain.__module__ and made.__code__ is plain.__code__


def test_functions_sharing_a_cell() -> None:
    def f(x):
        n = 1

        def get():
            return n

        def set_(value):
            nonlocal n
            n = value

        return get, set_, x + 1

    get, set_, _ = fs.compile(f, backend="eager", fullgraph=True)(x())
    set_(7)
    assert get() == 7


def test_cell_shared_with_outside() -> None:
    n = 0

    def bump():
        nonlocal n
        n += 1
        return n

    def f(x):
        return x * bump() + n

    def reset() -> tuple[Any, ...]:
        nonlocal n
        n = 3
        return (x(),)

    check(f, reset, state=lambda: n)


def test_empty_cell() -> None:
    def f(x):
        def g():
            return late

        try:
            g()
        except NameError as error:
            message = str(error)
        late = x + 1
        return g(), message

    check(f)


def test_late_binding_in_loop() -> None:
    def f(x):
        functions = []
        for i in range(3):
            functions.append(lambda: x + i)  # noqa: B023
        return [g() for g in functions]

    check(f)


def test_lambda_and_conditional_expression() -> None:
    def f(x, flag):
        g = (lambda y, k=2: y * k) if flag else (lambda y: y)
        return g(x), (lambda *a: len(a))(1, 2), (lambda **k: k)(a=x)

    check(f, lambda: (x(), True))


def test_recursion() -> None:
    def power(y, n):
        return y if n == 0 else power(y * 2, n - 1)

    def f(x):
        def fact(n):
            return 1 if n < 2 else n * fact(n - 1)

        return power(x, 5), fact(6)

    check(f)


def test_mutual_recursion() -> None:
    def f(x):
        def even(n):
            return True if n == 0 else odd(n - 1)

        def odd(n):
            return False if n == 0 else even(n - 1)

        return x + 1 if even(10) else x

    check(f)


def test_deep_recursion_raises_recursion_error() -> None:
    def forever(y):
        return forever(y + 1)

    def f(x):
        y = x + 1
        try:
            return forever(0)
        except RecursionError:
            return y

    check(f, fullgraph=False, entries=None)


# Decorators and functools


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


def adding(amount):
    def decorate(function):
        def wrapper(*args):
            return function(*args) + amount

        return wrapper

    return decorate


@twice
@adding(3)
def decorated(y):
    """Documented."""
    return y - 1


class CountCalls:
    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function = function
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


@CountCalls
def counted(y):
    return y + 1


def test_decorators() -> None:
    def f(x):
        @twice
        def local(y):
            """Inner."""
            return y + 1

        return decorated(x), decorated.__name__, local(x), local.__name__, local.__doc__, local.__wrapped__(x)

    check(f)


def test_decorator_class() -> None:
    def f(x):
        return counted(x) * counted.calls, counted.__name__

    def reset() -> tuple[Any, ...]:
        counted.calls = 0
        return (x(),)

    check(f, reset, state=lambda: counted.calls)


def test_wraps_function_is_returned() -> None:
    def f(x):
        @twice
        def local(y):
            return y + x

        return local

    made = fs.compile(f, backend="eager", fullgraph=True)(x())
    assert made.__name__ == "local" and torch.equal(made(1), (x() + 1) * 2)


def test_partial() -> None:
    def g(a, b, *, c=1):
        return a * b + c

    def f(x, outside):
        p = functools.partial(g, x, c=5)
        q = functools.partial(p, 3)
        return p(2), q(), q(c=1), outside(x), p.func is g, p.args, p.keywords, q

    check(f, lambda: (x(), functools.partial(g, 2, c=3)))


def test_partial_method() -> None:
    class Local:
        def go(self, y, factor):
            return y * factor

        double = functools.partialmethod(go, factor=2)

    def f(x, o):
        return o.double(x)

    check(f, lambda: (x(), Local()))


def test_reduce() -> None:
    def f(x, items):
        return functools.reduce(lambda a, b: a + b, items, x), functools.reduce(max, [1, 3, 2])

    check(f, lambda: (x(), [1, 2, 3]))


def test_lru_cache_and_cache() -> None:
    @functools.lru_cache(maxsize=2)
    def size(n):
        return n * 10

    @functools.cache
    def other(n):
        return n + 1

    def f(x):
        return x * size(2) + size(2), other(3)

    check(f)


def test_lru_cache_method_and_tensor_results() -> None:
    @functools.lru_cache
    def table(n):
        return torch.arange(float(n))

    def f(x):
        return x + table(3)

    check(f)


def test_singledispatch() -> None:
    @functools.singledispatch
    def show(value, y):
        return y, "object"

    @show.register
    def _(value: int, y):
        return y + value, "int"

    @show.register(str)
    def _(value, y):
        return y, value

    def f(x):
        return show(3, x), show("s", x), show(2.5, x), show(True, x)

    check(f)


def test_singledispatch_method() -> None:
    class Local:
        @functools.singledispatchmethod
        def go(self, value, y):
            return y

        @go.register
        def _(self, value: int, y):
            return y * value

    def f(x, o):
        return o.go(3, x), o.go("s", x)

    check(f, lambda: (x(), Local()), fullgraph=False, entries=None)


def test_cmp_to_key() -> None:
    def f(x):
        return sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)), x + 1

    check(f)


def test_function_attributes() -> None:
    def f(x, g):
        g.count = getattr(g, "count", 0) + 1
        return x * g.count, g.__name__, g.__doc__, g.__defaults__, hasattr(g, "nothing"), callable(g)

    def make() -> tuple[Any, ...]:
        def g(a=1):
            """Doc."""
            return a

        return x(), g

    check(f, make)


def test_functions_compare_and_hash() -> None:
    def g(y):
        return y

    def f(x, h):
        table = {g: 1, torch.relu: 2, len: 3}
        return x + table[g], table[torch.relu], table[len], g == h, g is h, g != len, h in (g,), {g, h} == {g}

    check(f, lambda: (x(), g))


# contextlib


@contextlib.contextmanager
def recording(log, name):
    log.append("enter " + name)
    try:
        yield len(log)
    except ValueError:
        log.append("swallowed")
    finally:
        log.append("exit " + name)


def test_contextmanager() -> None:
    def f(x, log):
        with recording(log, "a") as n, recording(log, "b"):
            y = x * n
        with recording(log, "c"):
            raise ValueError
        return y, log

    check(f, lambda: (x(), []))


def test_contextmanager_as_decorator() -> None:
    log: list[str] = []

    @recording(log, "d")
    def g(y):
        log.append("body")
        return y + 1

    def f(x):
        return g(x)

    def reset() -> tuple[Any, ...]:
        log.clear()
        return (x(),)

    check(f, reset, state=lambda: log, fullgraph=False, entries=None)


def test_exit_stack_suppress_nullcontext() -> None:
    def f(x, log):
        with contextlib.ExitStack() as stack:
            stack.enter_context(recording(log, "s"))
            stack.callback(log.append, "callback")
            y = x + 1
        with contextlib.suppress(KeyError):
            {}["a"]
        with contextlib.nullcontext(3) as n:
            y = y * n
        return y, log

    check(f, lambda: (x(), []))


def test_closing() -> None:
    class Door:
        closed = False

        def close(self):
            self.closed = True

    def f(x, door):
        with contextlib.closing(door) as same:
            y = x + 1
        return y, same is door, door.closed

    check(f, lambda: (x(), Door()))


# Generators as values


def test_generators() -> None:
    def f(x):
        def numbers(n):
            received = []
            for i in range(n):
                got = yield x * i
                received.append(got)
            return received

        def outer():
            result = yield from numbers(2)
            yield result

        gen = numbers(2)
        first = next(gen)
        second = gen.send("sent")
        return first, second, list(outer()), [a for a, _ in zip(numbers(5), range(2), strict=False)]

    check(f)


def test_generator_is_returned_unfinished() -> None:
    def f(x, items):
        def gen():
            for i in items:
                yield x + i

        g = gen()
        next(g)
        return g

    check(f, lambda: (x(), [1, 2, 3]))


# Python's limits


def test_the_recursion_limit_is_the_programs_own() -> None:
    seen = []

    def backend(gm, inputs):
        seen.append(sys.getrecursionlimit())
        return gm.forward

    def f(x):
        return x + sys.getrecursionlimit()

    expected = f(torch.zeros(2))
    for chosen in ("eager", backend):
        assert torch.equal(fs.compile(f, backend=chosen)(torch.zeros(2)), expected)
    assert seen == [sys.getrecursionlimit()]


RECURSIVE_SUBCLASS = """
import sys, threading, torch
import firesteel as fs

class Again(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return f(args[0])

def f(x):
    return torch.sin(x) * 2

def call():
    try:
        fs.compile(f)(torch.ones(4).as_subclass(Again))
    except RecursionError:
        print("RecursionError", sys.getrecursionlimit())

call()
for size in (3 << 19,):  # with 1 << 20 the plain program crashes on Python 3.12 and 3.13
    threading.stack_size(size)
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
"""


def test_recursion_of_a_tensor_subclass_stays_within_the_c_stack() -> None:
    done = subprocess.run([sys.executable, "-c", RECURSIVE_SUBCLASS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["RecursionError 1000"] * 2


def test_types_of_annotations() -> None:
    def f(x):
        kinds = (collections.abc.Callable[[int], bool] | None, Callable[[int], bool] | None, type[int] | None,
                 Optional[Callable[..., int]], list[int] | dict[str, int], torch.Tensor | None)  # noqa: UP045
        return x * 2, [str(kind) for kind in kinds]

    compiled = fs.compile(f, fullgraph=True, backend="eager")
    assert compiled(torch.ones(1))[1] == f(torch.ones(1))[1]
