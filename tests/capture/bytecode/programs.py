"""Programs for the continuation tests: each is called with a log to write to, and some arguments."""

# ruff: noqa
from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def program(*args: Any) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        PROGRAMS.append((function, args))
        return function

    return add


class noting:
    def __init__(self, log, name, swallow=False):
        self.log, self.name, self.swallow = log, name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return self.name

    def __exit__(self, kind, error, trace):
        self.log.append(("exit", self.name, repr(error), repr(sys.exception())))
        return self.swallow and kind is ValueError


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def plus(self, n, *, scale=1):
        return Point(self.x + n * scale, self.y + n)

    @property
    def total(self):
        return self.x + self.y


def fail(message):
    raise ValueError(message)


def gather(*args, **kwargs):
    return args, sorted(kwargs.items())


@program(3, 4)
def arithmetic(log, a, b):
    c = a * b + a // b - -(a**2) % 5
    c += ~a & b | 1 ^ a << 2 >> 1
    c -= 1
    return c, +a, not a, a / b, a @ b if False else a


@program(5)
def comparisons(log, a):
    return 1 < a < 10, a == 5, a != 5, a is None, a is not None, a in (1, 5), a not in [5], a >= 2 <= 3


@program(0, [], "x")
def boolean_chains(log, a, b, c):
    x = a or b or c
    y = a and b
    z = (a or c) and (b or "end")
    return x, y, z, (not a or b)


@program(7)
def while_loop(log, n):
    total = 0
    while n:
        n -= 1
        if n == 5:
            continue
        if n == 1:
            break
        total += n
        log.append(n)
    else:
        total = -1
    return total


@program(range(4))
def for_loop(log, items):
    out = []
    for i, item in enumerate(items):
        if item == 2:
            continue
        out.append((i, item))
    else:
        out.append("else")
    return out


@program([[1, 2], [3], []])
def nested_loops(log, rows):
    total = 0
    for row in rows:
        for value in row:
            if value == 3:
                break
            total += value
        else:
            total += 10
    return total


@program([3, 1, 2])
def comprehensions(log, xs):
    return (
        [x * y for x in xs for y in xs if x > y],
        {x for x in xs},
        {x: [y for y in range(x)] for x in xs},
        sum(x for x in xs),
    )


@program([1, 2, 3])
def comprehension_shadows(log, xs):
    x = "outer"
    ys = [x for x in xs]
    zs = [(x, [x for x in range(x)]) for x in xs]
    return x, ys, zs


@program([1, 0, 2])
def comprehension_fails(log, xs):
    x = "outer"
    try:
        return [1 / x for x in xs]
    except ZeroDivisionError:
        log.append(x)
        return x


@program([1, 2])
def comprehension_cells(log, xs):
    x = 5
    fs = [lambda: x for x in xs]
    g = lambda: x
    x += 1
    return [f() for f in fs], g(), x


@program([1, 0])
def comprehension_cells_fail(log, xs):
    y = 7
    get = lambda: y
    try:
        fs = [(lambda: y, 1 / y) for y in xs]
    except ZeroDivisionError as e:
        log.append(str(e))
    y = 8
    return get(), y


@program(10)
def closure_writes(log, n):
    count = 0

    def bump(k=1):
        nonlocal count
        count += k * n
        return count

    first = bump()
    count += 1
    n = 2
    second = bump(k=3)
    return first, second, count


@program(1)
def cell_deleted(log, a):
    b = a
    get = lambda: b
    log.append(get())
    del b
    try:
        return get()
    except NameError as e:
        return str(e)


@program(1, 2)
def argument_cells(log, a, b):
    def inner():
        nonlocal a
        a += b
        return a

    inner()
    b *= 10
    return inner(), a, b


def make_free(start):
    state = start

    def uses_free(log, n):
        nonlocal state
        state = start
        local = n
        f = lambda: (state, local)
        state += n
        local += 1
        return f(), state

    return uses_free


PROGRAMS.append((make_free(100), (5,)))


@program({"k": 1})
def keyword_calls(log, d):
    a = gather(1, 2, x=3, **d)
    b = gather(*[1, 2], *(3,), y=2)
    c = dict(d, z=gather(len(d), s=str(5)))
    return a, b, c, sorted([3, 1, 2], key=lambda v: -v, reverse=True)


@program(2)
def keyword_call_fails(log, n):
    try:
        gather(n, x=fail("inner"), y=1)
    except ValueError as e:
        log.append(e.args)
    return gather(1, **{"x": 1}, **{"y": n})


@program(3)
def methods(log, n):
    p = Point(n, 1).plus(2).plus(n=1, scale=4)
    p.x -= 1
    del p.y
    log.append(hasattr(p, "y"))
    p.y = "abc".upper().center(n * 3, "*")
    return p.x, p.y, [1, 2].copy().__len__()


@program("w", 3.14159)
def strings(log, s, v):
    return f"{s!r:>6}|{v:.{2}f}|{s}{s!s}{s!a}" + "%s-%d" % (s, 3) + "".join([s, "b"])


@program([1, 2, 3, 4])
def unpacking(log, xs):
    a, *b, c = xs
    (d, e), f = (a, c), b
    a, c = c, a
    d, e, f = f, d, e
    return a, b, c, d, e, f, [*xs, *b], {**{"q": 1}, "r": 2}, (*xs, 1), {*xs}


@program([0, 1, 2, 3, 4, 5])
def slices(log, xs):
    xs[1:3] = [9]
    xs[0] += 5
    del xs[-1]
    return xs[1:], xs[:2], xs[::2], xs[slice(1, None)], xs[-1]


@program(4)
def walrus(log, n):
    out = []
    while (m := n - 1) > 0:
        n = m
        out.append(m)
    return out, [y := 1, y**2], any((hit := v) > 1 for v in out), hit


@program()
def deleted(log):
    x = 1
    del x
    try:
        return x
    except UnboundLocalError as e:
        log.append(str(e))
    for y in ():
        pass
    try:
        return y
    except UnboundLocalError as e:
        return str(e)


@program(0)
def simple_try(log, n):
    try:
        value = 1 / n
    except (ZeroDivisionError, KeyError) as e:
        log.append(("caught", str(e), sys.exc_info()[0].__name__))
        value = -1
    else:
        log.append("else")
    finally:
        log.append(("finally", repr(sys.exception())))
    return value


@program(2)
def try_without_error(log, n):
    try:
        value = 1 / n
    except ZeroDivisionError:
        value = -1
    else:
        log.append("else")
    finally:
        log.append("finally")
    return value


@program("b")
def except_chain(log, key):
    try:
        {}[key]
    except TypeError:
        return "type"
    except ValueError as e:
        return "value"
    except LookupError as e:
        log.append(repr(e))
        return "lookup", repr(sys.exception())
    return "none"


@program("no")
def bare_raise(log, message):
    try:
        fail(message)
    except ValueError:
        log.append(repr(sys.exception()))
        raise


@program("no")
def raise_from(log, message):
    try:
        fail(message)
    except ValueError as e:
        log.append("x")
        raise KeyError(message) from e


@program("no")
def raise_in_handler(log, message):
    try:
        try:
            fail(message)
        except ValueError:
            log.append("first")
            {}["missing"]
    except KeyError as e:
        log.append((repr(e), repr(e.__context__)))
        try:
            raise
        except KeyError:
            log.append(repr(sys.exception()))
        log.append(repr(sys.exception()))
    return repr(sys.exception())


@program(3)
def nested_handlers(log, n):
    for i in range(n):
        try:
            if i == 1:
                continue
            raise ValueError(i)
        except ValueError as e:
            try:
                try:
                    raise KeyError(i)
                finally:
                    log.append(("inner finally", repr(sys.exception())))
            except KeyError as k:
                log.append((repr(k), repr(k.__context__), repr(sys.exception())))
                if i == 2:
                    break
            log.append(repr(sys.exception()))
        finally:
            log.append(("outer finally", i))
    return repr(sys.exception())


@program(1)
def return_in_finally(log, n):
    try:
        return 1 / (n - 1)
    finally:
        log.append(repr(sys.exception()))
        return "finally"


@program(1)
def return_through_finally(log, n):
    for _ in range(2):
        try:
            try:
                return n + 1
            finally:
                log.append("a")
        finally:
            log.append("b")


@program(1)
def return_from_handler(log, n):
    try:
        fail("x")
    except ValueError as e:
        try:
            return n, str(e)
        finally:
            log.append(repr(sys.exception()))


@program(1)
def uncaught_in_finally(log, n):
    try:
        fail("x")
    finally:
        log.append(repr(sys.exception()))
        try:
            {}[n]
        except KeyError:
            log.append("inner")


@program()
def with_block(log):
    with noting(log, "a") as a, noting(log, "b") as b:
        log.append(a + b)
        return a, b


@program()
def with_error(log):
    with noting(log, "a"):
        with noting(log, "b"):
            fail("in with")
    return 1


@program()
def with_swallowed(log):
    with noting(log, "a", swallow=True):
        fail("in with")
    log.append(repr(sys.exception()))
    return "after"


@program(3)
def with_in_loop(log, n):
    out = []
    for i in range(n):
        with noting(log, i, swallow=True) as name:
            if i == 1:
                continue
            if i == 2:
                break
            fail(str(name))
        out.append(i)
    return out


@program()
def with_in_handler(log):
    try:
        fail("first")
    except ValueError:
        with contextlib.suppress(KeyError):
            log.append(repr(sys.exception()))
            raise KeyError("second")
        log.append(repr(sys.exception()))
        with noting(log, "last"):
            raise


@program()
def except_star(log):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), ValueError(3)])
    except* ValueError as e:
        log.append((repr(e), repr(sys.exception())))
    except* KeyError:
        log.append(repr(sys.exception()))
    return repr(sys.exception())


@program()
def except_star_rest(log):
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), TypeError(3)])
    except* ValueError as e:
        log.append(repr(e))
        raise OSError("new")
    except* TypeError:
        log.append("type")


@program(5)
def assertion(log, n):
    assert n == 5, "not shown"
    try:
        assert n > 5, f"shown {n}"
    except AssertionError as e:
        return str(e)


def matched(log, v):
    match v:
        case 0 | 1:
            return "small"
        case int(n) if n > 5:
            return "big", n
        case [a, *rest, b]:
            return "sequence", a, rest, b
        case {"k": k, **others}:
            return "mapping", k, others
        case Point(x=0, y=y):
            return "point", y
        case Point(x, y):
            return "any point", x, y
        case str() as s:
            return s
        case None:
            return "none"
        case _:
            return "other"


for value in (1, 7, [1, 2, 3], {"k": 1, "m": 2}, Point(0, 5), Point(1, 2), "s", None, 3.5):
    PROGRAMS.append((matched, (value,)))


@program(4)
def generator(log, n):
    x = 0
    for i in range(n):
        got = yield i + x
        log.append(got)
        x += got or 1
    return x


@program(3)
def generator_with_try(log, n):
    try:
        for i in range(n):
            try:
                yield i
            except KeyError as e:
                log.append(repr(e))
                yield repr(sys.exception())
    finally:
        log.append("closed")
        yield "last"


@program(3)
def generator_delegates(log, n):
    def inner():
        got = yield "inner"
        log.append(got)
        return "result"

    r = yield from inner()
    r2 = yield from range(n)
    return r, r2


@program(3)
def generator_with_closure(log, n):
    total = 0

    def add(v):
        nonlocal total
        total += v

    while n:
        with noting(log, n):
            add((yield total) or n)
        n -= 1
    return total


@program(3)
def generator_raises(log, n):
    try:
        yield n
        fail("in generator")
    except ValueError:
        log.append((yield repr(sys.exception())))
        raise


@program(3)
def generator_stop_iteration(log, n):
    yield n
    raise StopIteration(5)


class Base:
    def hello(self, n):
        return ("base", n)

    @property
    def prop(self):
        return "base prop"


class Derived(Base):
    def hello(self, log, n):
        a = super().hello(n)
        b = super(Derived, self).hello(n + 1)
        c = super().prop
        s = super()
        return a, b, c, s.hello(3), __class__.__name__

    def cell_self(self, log, n):
        get = lambda: self
        a = super().hello(n)
        s = super()
        return a, s.hello(4), get() is self


METHODS = [Derived.hello, Derived.cell_self]


@program(2)
def makes_class(log, n):
    class Local(Base):
        size = n
        names: list = [n]

        def get(self):
            return self.size, n, super().hello(0)

    return Local().get()


@program(2)
def defaults(log, n):
    def f(a, b=n, *args, c: int = n + 1, **kw) -> int:
        return a, b, args, c, kw

    return f(1), f(1, 2, 3, c=4, d=5)


@program()
def imports(log):
    import math as m
    from os.path import basename, dirname

    import os.path

    return m.floor(2.5), basename("a/b"), dirname("a/b"), os.path.sep


COUNTER = 0


@program(2)
def globals_(log, n):
    global COUNTER
    before = COUNTER
    COUNTER += n
    after = COUNTER - before
    COUNTER = before
    return after


@program(2)
def sees_locals(log, n):
    hidden = n + 1
    # The tests put names with a dot into the frame.
    names = list(locals())
    cell = lambda: names
    return sorted(name for name in names if "." not in name), cell() is names, eval("hidden + n")


@program(1, 2, 3)
def varargs(log, *args, key=4, **kwargs):
    key += len(args)
    return args, key, kwargs


@program(3)
def conditional(log, n):
    a = "odd" if n % 2 else "even"
    b = None if n is None else n
    if b is not None and a == "odd":
        log.append(b)
    while b is not None:
        b = None
    return a, b, lambda: n


@program(300)
def long_jumps(log, n):
    total = 0
    for i in range(3):
        if i == n:
            total += sum([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, i, n, total, i + 1, i + 2, i + 3, i * 2, i * 3, i * 4])
            total += log[0] + log[1] + log[2] + log[3] + log[4] + log[5] + log[6] + log[7] + log[8] + log[9]
            total += max(i, n, total, i + 1, i + 2, i + 3, i * 2, i * 3, i * 4, i - 1, i - 2, i - 3, i - 4, i - 5)
            total += min(i, n, total, i + 1, i + 2, i + 3, i * 2, i * 3, i * 4, i - 1, i - 2, i - 3, i - 4, i - 5)
            total += log[0] + log[1] + log[2] + log[3] + log[4] + log[5] + log[6] + log[7] + log[8] + log[9]
        total += i
    return total
